// The release build's promise: rendezvousd needs nothing from the machine but its kernel. It is
// started alone in an empty root and serves a client outside over TLS.

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "tests/integration/daemon/daemon_process.h"
#include "tests/integration/daemon/fake_agent.h"

namespace muster::testing {
namespace {

using namespace std::chrono_literals;
constexpr Duration kSoon = 10s;

TEST(StaticRoot, RendezvousdServesFromAnEmptyRoot) {
  if (!MUSTER_IS_STATIC) GTEST_SKIP() << "not a static build (-DMUSTER_STATIC=ON)";
  if (geteuid() != 0) GTEST_SKIP() << "chroot needs root";
  TemporaryFolder root;
  DaemonProcess daemon({"n0"});
  std::filesystem::copy_file(daemon.program, root.path() + "/rendezvousd");
  daemon.wrapper = {"chroot", root.path()};
  daemon.program = "/rendezvousd";
  daemon.options.journal = "/journal";
  daemon.options.state_dir = "/state";
  daemon.Start();
  const auto client = daemon.Join();
  FakeAgent agent(client.get(), "n0", 1);
  EXPECT_TRUE(agent.WaitForOrder(protocol::OrderKind::kRun, kSoon).has_value());
  EXPECT_TRUE(std::filesystem::exists(root.path() + "/journal"));
  EXPECT_EQ(daemon.Kill(SIGTERM), 143);
  EXPECT_TRUE(std::filesystem::exists(root.path() + "/state/status.json"));
}

TEST(StaticRoot, RendezvousdHasNoInterpreter) {
  if (!MUSTER_IS_STATIC) GTEST_SKIP() << "not a static build (-DMUSTER_STATIC=ON)";
  // A dynamic program names its loader; readelf is part of every toolchain.
  const DaemonProcess daemon({"n0"});
  const std::string command = "readelf -l '" + daemon.program + "' | grep -q INTERP";
  EXPECT_NE(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace muster::testing

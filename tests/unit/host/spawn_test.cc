#include "launcher/host/spawn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace muster::host {
namespace {

// Runs the loop until the child has ended; gives its wait status.
int EndOf(const SpawnRequest& request, int signal = 0) {
  agent::EventLoop loop;
  Child child;
  int status = -1;
  const Status started = child.Start(&loop, request, [&](int wait_status) {
    status = wait_status;
    EXPECT_FALSE(child.running());
    loop.Stop();
  });
  EXPECT_TRUE(started.ok()) << started.ToString();
  if (!started.ok()) return -1;
  EXPECT_TRUE(child.running());
  if (signal != 0) child.SignalGroup(signal);
  EXPECT_TRUE(loop.Run().ok());
  return status;
}

SpawnRequest Shell(const std::string& script) {
  SpawnRequest request;
  request.argv = {"/bin/sh", "-c", script};
  return request;
}

TEST(Spawn, TellsHowAChildEnded) {
  EXPECT_EQ(ShellCode(EndOf(Shell("exit 0"))), 0);
  const int seven = EndOf(Shell("exit 7"));
  EXPECT_EQ(ShellCode(seven), 7);
  EXPECT_EQ(DescribeWaitStatus(seven), "exit code 7");
  const int killed = EndOf(Shell("sleep 60"), SIGKILL);
  EXPECT_EQ(ShellCode(killed), 128 + SIGKILL);
  EXPECT_EQ(DescribeWaitStatus(killed), "signal 9 (Killed)");
}

TEST(Spawn, AMissingProgramIsNamed) {
  agent::EventLoop loop;
  Child child;
  SpawnRequest request;
  request.argv = {"/no/such/program"};
  const Status status = child.Start(&loop, request, [](int) {});
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("/no/such/program"), std::string::npos);
}

TEST(Spawn, GivesTheNamedDescriptorsAndEnvironmentAlone) {
  const int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(other, 0);
  auto file = MemoryFile("test", "hello");
  ASSERT_TRUE(file.ok());
  SpawnRequest request = Shell("[ \"$(cat <&" + std::to_string(file->get()) +
                               ")\" = hello ] && [ \"$A\" = b ] && [ -z \"$HOME\" ] && [ ! -e "
                               "/proc/self/fd/" +
                               std::to_string(other) + " ]");
  request.environment = {"A=b", "PATH=/usr/bin:/bin"};
  request.descriptors = {file->get()};
  EXPECT_EQ(ShellCode(EndOf(request)), 0);
  close(other);
}

TEST(Spawn, ChildrenHaveDefaultSignalsAndAGroupOfTheirOwn) {
  sigset_t set;
  sigset_t before;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, &before);
  // SigBlk of the child is zero, and its process group is itself.
  const int status =
      EndOf(Shell("grep -q '^SigBlk:.0000000000000000' /proc/self/status && "
                  "[ $(cut -d' ' -f5 /proc/$$/stat) = $$ ]"));
  sigprocmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(ShellCode(status), 0);
  SpawnRequest request = Shell("[ $(cut -d' ' -f6 /proc/$$/stat) = $$ ]");
  request.new_session = true;
  EXPECT_EQ(ShellCode(EndOf(request)), 0);
}

TEST(Spawn, AFileInMemoryCannotBeChanged) {
  auto file = MemoryFile("test", "secret");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(write(file->get(), "x", 1), -1);
}

}  // namespace
}  // namespace muster::host

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "launcher/agent/memory_watch.h"
#include "launcher/agent/output_patterns.h"

namespace muster::agent {
namespace {

using protocol::Cause;

TEST(Patterns, PeersAndWatchdogsAreNotTheCodesOwnFailure) {
  EXPECT_EQ(CauseOfLines({"step 3",
                          "torch.distributed.DistBackendError: NCCL error ... "
                          "ncclRemoteError: A call failed possibly due to a network"}),
            Cause::kNetwork);
  EXPECT_EQ(CauseOfLines({"[rank3]:[E] Watchdog caught collective operation timeout: WorkNCCL("
                          "SeqNum=3, OpType=ALLREDUCE, Timeout(ms)=600000)",
                          "more"}),
            Cause::kHang);
  EXPECT_EQ(CauseOfLines({"RuntimeError: [/gloo/transport/tcp/pair.cc] Connection closed by peer "
                          "[10.0.0.3]:4711"}),
            Cause::kNetwork);
  EXPECT_EQ(CauseOfLines({"Traceback (most recent call last):", "ValueError: loss is nan"}),
            Cause::kNone);
  EXPECT_EQ(CauseOfLines({}), Cause::kNone);
}

TEST(Patterns, TheLineThatExplains) {
  EXPECT_EQ(ExplainingLine({"Traceback (most recent call last):", "  File \"t.py\", line 3",
                            "ValueError: loss is nan", "Exception ignored in: <x>"}),
            "ValueError: loss is nan");
  EXPECT_EQ(ExplainingLine({"a", "b"}), "b");
  EXPECT_EQ(
      ExplainingLine({"--steps: a number is missing", "Run with --help for more information."}),
      "--steps: a number is missing");
  EXPECT_EQ(ExplainingLine({"Try 'x --help'."}), "Try 'x --help'.");
  EXPECT_EQ(ExplainingLine({}), "");
  EXPECT_EQ(ExplainingLine({"muster: program \"x\" was not found on node n1"}),
            "muster: program \"x\" was not found on node n1");
}

TEST(Patterns, TorchsErrorFile) {
  EXPECT_EQ(MessageOfErrorFile(R"({"message":{"message":"ValueError: x","extraInfo":{}}})"),
            "ValueError: x");
  EXPECT_EQ(MessageOfErrorFile(R"({"message":"plain"})"), "plain");
  EXPECT_EQ(MessageOfErrorFile("{"), "");
  EXPECT_EQ(MessageOfErrorFile(R"({"message":{"message":3}})"), "");
  EXPECT_EQ(MessageOfErrorFile(""), "");
}

TEST(MemoryWatch, SeesTheCounterOfTheJobsGroupGrow) {
  namespace fs = std::filesystem;
  std::string name = fs::temp_directory_path() / "muster-memory-XXXXXX";
  const fs::path root = mkdtemp(name.data());
  const fs::path job = root / "sys/job_7";
  fs::create_directories(job / "step_0/task_0");
  fs::create_directories(root / "proc/self");
  std::ofstream(root / "proc/self/cgroup") << "0::/job_7/step_0/task_0\n";
  std::ofstream(job / "memory.events") << "low 0\noom 1\noom_kill 2\noom_group_kill 0\n";
  MemoryWatch watch(root / "proc", root / "sys");
  EXPECT_EQ(watch.files().size(), 1U);
  EXPECT_FALSE(watch.KilledSinceLastLook());
  std::ofstream(job / "memory.events") << "low 0\noom 1\noom_kill 3\n";
  EXPECT_TRUE(watch.KilledSinceLastLook());
  EXPECT_FALSE(watch.KilledSinceLastLook());
  fs::remove_all(root);
}

}  // namespace
}  // namespace muster::agent

#include "launcher/slurm/requeue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/random.h"
#include "common/text.h"
#include "fake_scheduler.h"

namespace muster::slurm {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RequeueTest : public ::testing::Test {
 protected:
  RequeueTest() : slurm_({"n1", "n2", "n3"}, {"n4", "n5"}) {
    request_.job = slurm_.job().job;
    request_.batch_host = "n1";
    request_.dead = {"n3"};
    request_.wanted_nodes = 3;
    request_.min_nodes = 3;
    request_.clean_end = true;
    slurm_.down_at["n3"] = slurm_.now() + seconds(300);
  }

  Result<RequeueReport> Run() {
    RequeueTools tools{.scheduler = &slurm_,
                       .now = [this] { return slurm_.now(); },
                       .sleep = [this](Duration duration) { slurm_.Advance(duration); },
                       .say = [this](std::string_view text) { said_.emplace_back(text); }};
    started_ = slurm_.now();
    return RequeueJob(request_, tools);
  }
  // Seconds from the start of the recipe until the job runs again; -1: not within ten minutes.
  double SecondsUntilRunning() {
    while (slurm_.now() - started_ < seconds(600)) {
      if (slurm_.job().state == JobState::kRunning && slurm_.job().restart_count == 1) {
        return std::chrono::duration<double>(slurm_.now() - started_).count();
      }
      slurm_.Advance(std::chrono::milliseconds(50));
    }
    return -1;
  }
  std::string Said() const { return Join(said_, "\n"); }

  FakeScheduler slurm_;
  RequeueRequest request_;
  std::vector<std::string> said_;
  TimePoint started_{};
};

TEST_F(RequeueTest, DropsRequeuesExcludesAndRunsAgainInSeconds) {
  const RequeueReport report = Run().value();
  EXPECT_EQ(report.outcome, RequeueOutcome::kRequeued);
  EXPECT_TRUE(report.dropped);
  EXPECT_TRUE(report.excluded);
  EXPECT_THAT(report.excluded_nodes, ElementsAre("n3"));
  EXPECT_THAT(slurm_.calls,
              ElementsAre("drop 12 to n[1-2]", "requeue 12", "update 12 exclude=n3 start=3s"));
  const double until = SecondsUntilRunning();
  EXPECT_GT(until, 0);
  EXPECT_LT(until, 10);
  EXPECT_THAT(slurm_.job().nodes, ElementsAre("n1", "n2", "n4"));
}

TEST_F(RequeueTest, ArrayTasksAreNamedByArrayAndIndex) {
  slurm_.job().job = JobId{.id = 15, .array_job = 12, .array_task = 1};
  request_.job = slurm_.job().job;
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(slurm_.calls, ElementsAre("drop 12_1 to n[1-2]", "requeue 12_1",
                                        "update 12_1 exclude=n3 start=3s"));
}

TEST_F(RequeueTest, NothingIsDoneToAJobThatIsNotOurs) {
  struct Case {
    const char* what;
    std::function<void(JobInfo&)> change;
    RequeueOutcome outcome;
  };
  const std::vector<Case> cases = {
      {"higher restart count", [](JobInfo& job) { job.restart_count = 1; },
       RequeueOutcome::kNotOurs},
      {"lower restart count", [this](JobInfo&) { request_.restart_count = 1; },
       RequeueOutcome::kNotOurs},
      {"another batch host", [](JobInfo& job) { job.batch_host = "n2"; }, RequeueOutcome::kNotOurs},
      {"held", [](JobInfo& job) { job.state = JobState::kRequeueHold; }, RequeueOutcome::kNotOurs},
      {"suspended", [](JobInfo& job) { job.state = JobState::kSuspended; },
       RequeueOutcome::kNotOurs},
      {"a state of a later version", [](JobInfo& job) { job.state = JobState::kUnknown; },
       RequeueOutcome::kNotOurs},
      {"cancelled", [](JobInfo& job) { job.state = JobState::kCancelled; },
       RequeueOutcome::kCancelled},
      {"completed", [](JobInfo& job) { job.state = JobState::kCompleted; },
       RequeueOutcome::kCancelled},
  };
  const JobInfo before = slurm_.job();
  for (const Case& c : cases) {
    slurm_.job() = before;
    request_.restart_count = 0;
    c.change(slurm_.job());
    const RequeueReport report = Run().value();
    EXPECT_EQ(report.outcome, c.outcome) << c.what;
    EXPECT_FALSE(report.text.empty()) << c.what;
  }
  EXPECT_THAT(slurm_.calls, IsEmpty());
}

TEST_F(RequeueTest, AJobThatSlurmDoesNotKnowIsAnError) {
  request_.job.id = 13;
  EXPECT_EQ(Run().status().code(), StatusCode::kNotFound);
}

TEST_F(RequeueTest, TwiceRequeuesOnce) {
  ASSERT_EQ(Run()->outcome, RequeueOutcome::kRequeued);
  EXPECT_EQ(Run()->outcome, RequeueOutcome::kNotOurs);
  EXPECT_EQ(slurm_.Count("requeue"), 1);
  EXPECT_EQ(slurm_.job().restart_count, 1U);
}

TEST_F(RequeueTest, ACancelledJobIsNeverRevived) {
  // At every moment of the recipe: before it, between its calls, after it.
  for (int tenths = 0; tenths < 40; ++tenths) {
    FakeScheduler slurm({"n1", "n2", "n3"}, {"n4"});
    slurm.cancel_at = slurm.now() + tenths * std::chrono::milliseconds(50);
    RequeueTools tools{.scheduler = &slurm,
                       .now = [&] { return slurm.now(); },
                       .sleep = [&](Duration duration) { slurm.Advance(duration); },
                       .say = {}};
    const auto report = RequeueJob(request_, tools);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    slurm.Advance(seconds(300));
    EXPECT_EQ(slurm.job().state, JobState::kCancelled) << tenths;
    EXPECT_EQ(slurm.Count("requeue-also-failed"), 0) << tenths;
  }
}

TEST_F(RequeueTest, CancelledBeforeTheRequeueIsReportedSo) {
  slurm_.cancel_at = slurm_.now() + std::chrono::milliseconds(100);
  slurm_.completing_time = seconds(30);
  EXPECT_EQ(Run()->outcome, RequeueOutcome::kCancelled);
  EXPECT_EQ(slurm_.job().restart_count, 0U);
}

TEST_F(RequeueTest, SomebodyElseRequeuesMeanwhile) {
  slurm_.requeue_at = slurm_.now() + std::chrono::milliseconds(100);
  const RequeueReport report = Run().value();
  EXPECT_EQ(report.outcome, RequeueOutcome::kRequeued);
  EXPECT_EQ(slurm_.Count("requeue"), 0);
  EXPECT_EQ(slurm_.job().restart_count, 1U);
  EXPECT_TRUE(report.excluded);  // the suspects are kept away all the same
}

TEST_F(RequeueTest, CallsThatFailedButTookEffectAreNotRepeated) {
  slurm_.fail_with_effect = 2;  // the drop and the requeue
  ASSERT_EQ(Run()->outcome, RequeueOutcome::kRequeued);
  EXPECT_EQ(slurm_.Count("drop"), 1);
  EXPECT_EQ(slurm_.Count("requeue"), 1);
  EXPECT_EQ(slurm_.job().restart_count, 1U);
}

TEST_F(RequeueTest, AcceptedWithoutEffectIsTriedAgain) {
  request_.dead.clear();
  request_.suspects = {"n3"};
  slurm_.accept_without_effect = 2;
  const RequeueReport report = Run().value();
  EXPECT_EQ(report.outcome, RequeueOutcome::kRequeued);
  EXPECT_EQ(slurm_.Count("requeue"), 3);
  EXPECT_TRUE(report.excluded);
}

TEST_F(RequeueTest, ASilentControllerIsWaitedFor) {
  slurm_.silent_until = slurm_.now() + seconds(60);
  ASSERT_EQ(Run()->outcome, RequeueOutcome::kRequeued);
  EXPECT_THAT(Said(), HasSubstr("cannot be read"));
}

TEST_F(RequeueTest, AControllerThatStaysSilentIsAnErrorInBoundedTime) {
  slurm_.silent_until = slurm_.now() + seconds(100000);
  const auto report = Run();
  EXPECT_EQ(report.status().code(), StatusCode::kUnavailable);
  EXPECT_LT(slurm_.now() - started_, seconds(400));
}

TEST_F(RequeueTest, TheIndexRefusalAfterAShrinkIsTriedThrough) {
  slurm_.index_busy_time = seconds(5);
  slurm_.completing_time = seconds(10);
  request_.clean_end = false;
  const RequeueReport report = Run().value();
  EXPECT_TRUE(report.excluded);
  EXPECT_GT(slurm_.Count("update"), 1);
  EXPECT_GT(SecondsUntilRunning(), 0);
  EXPECT_THAT(slurm_.job().nodes, ElementsAre("n1", "n2", "n4"));
}

TEST_F(RequeueTest, ARefusedDropCostsTimeButNotTheRequeue) {
  slurm_.resizing_allowed = false;
  const RequeueReport report = Run().value();
  EXPECT_EQ(report.outcome, RequeueOutcome::kRequeued);
  EXPECT_FALSE(report.dropped);
  EXPECT_THAT(Said(), HasSubstr("only after Slurm has set them DOWN"));
  EXPECT_GT(SecondsUntilRunning(), 299);
}

TEST_F(RequeueTest, TheBatchHostIsNeverDropped) {
  request_.dead = {"n1", "n3"};
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(slurm_.calls.front(), "drop 12 to n[1-2]");
  EXPECT_THAT(slurm_.job().excluded_nodes, ElementsAre("n1", "n3"));
}

TEST_F(RequeueTest, AnUncleanEndWaitsForKillWait) {
  request_.clean_end = false;
  request_.kill_wait = seconds(30);
  slurm_.completing_time = seconds(33);
  ASSERT_TRUE(Run().ok());
  const double until = SecondsUntilRunning();
  EXPECT_GT(until, 33);
  EXPECT_LT(until, 60);
}

TEST_F(RequeueTest, TheUsersExclusionIsKept) {
  slurm_.job().excluded_nodes = {"n5", "n2"};  // n2 is ours, of an earlier attempt
  request_.user_excluded = std::vector<std::string>{"n5"};
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(slurm_.job().excluded_nodes, ElementsAre("n5", "n3"));
}

TEST_F(RequeueTest, WithoutTheUsersListTheJobsIsKept) {
  slurm_.job().excluded_nodes = {"n5"};
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(slurm_.job().excluded_nodes, ElementsAre("n5", "n3"));
}

TEST_F(RequeueTest, FewerNodesAreAskedForIfTheRunMayShrink) {
  slurm_.node_state = {{"n4", "DOWN"}, {"n5", "IDLE+DRAIN"}};
  request_.min_nodes = 2;
  const RequeueReport report = Run().value();
  EXPECT_EQ(report.node_count, 2);
  EXPECT_EQ(slurm_.calls.back(), "update 12 exclude=n3 start=3s nodes=2");
  EXPECT_GT(SecondsUntilRunning(), 0);
  EXPECT_THAT(slurm_.job().nodes, ElementsAre("n1", "n2"));
}

TEST_F(RequeueTest, NoExclusionThatWouldLeaveTheJobPendingForEver) {
  slurm_.node_state = {{"n4", "DOWN"}, {"n5", "DOWN"}};
  slurm_.down_at.clear();
  request_.dead.clear();
  request_.suspects = {"n3"};
  const RequeueReport report = Run().value();
  EXPECT_THAT(report.excluded_nodes, IsEmpty());
  EXPECT_THAT(Said(), HasSubstr("only 0 of 1 suspects (n3)"));
  EXPECT_GT(SecondsUntilRunning(), 0);
}

TEST_F(RequeueTest, WithoutThePartitionsNodesNobodyIsExcluded) {
  slurm_.partition_readable = false;
  slurm_.job().excluded_nodes = {"n5"};
  const RequeueReport report = Run().value();
  EXPECT_THAT(report.excluded_nodes, ElementsAre("n5"));
  EXPECT_THAT(Said(), HasSubstr("cannot be read"));
}

TEST_F(RequeueTest, TheRequeueFlagIsSetOnlyIfAllowed) {
  slurm_.job().requeue = false;
  const auto refused = Run();
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().message(), HasSubstr("--requeue"));
  EXPECT_THAT(slurm_.calls, IsEmpty());
  request_.may_set_requeue_flag = true;
  EXPECT_EQ(Run()->outcome, RequeueOutcome::kRequeued);
  EXPECT_EQ(slurm_.calls.front(), "allow 12");
}

TEST_F(RequeueTest, ASiteMayKeepItsOwnDelay) {
  request_.may_set_start_time = false;
  const RequeueReport report = Run().value();
  EXPECT_FALSE(report.start_in.has_value());
  EXPECT_EQ(slurm_.calls.back(), "update 12 exclude=n3");
  EXPECT_GT(SecondsUntilRunning(), 120);
}

TEST_F(RequeueTest, AnHeirRequeuesAJobWhoseScriptWasKilled) {
  request_.as_heir = true;
  slurm_.completing_time = seconds(20);
  slurm_.FailScript(0, 9);
  const RequeueReport report = Run().value();
  EXPECT_EQ(report.outcome, RequeueOutcome::kRequeued);
  EXPECT_EQ(slurm_.calls.front(), "requeue-also-failed 12");
  EXPECT_EQ(slurm_.job().restart_count, 1U);
}

TEST_F(RequeueTest, AnHeirLeavesACancelledJobAlone) {
  request_.as_heir = true;
  slurm_.completing_time = seconds(20);
  slurm_.cancel_at = slurm_.now();
  slurm_.Advance(seconds(1));
  ASSERT_EQ(slurm_.job().state, JobState::kCompleting);
  EXPECT_EQ(Run()->outcome, RequeueOutcome::kCancelled);
  EXPECT_THAT(slurm_.calls, IsEmpty());
}

TEST_F(RequeueTest, TheHostItselfLeavesACompletingJobAlone) {
  slurm_.completing_time = seconds(20);
  slurm_.FailScript(0, 9);
  EXPECT_EQ(Run()->outcome, RequeueOutcome::kCancelled);
  EXPECT_THAT(slurm_.calls, IsEmpty());
}

// Whatever goes wrong on the way: it ends in bounded time, requeues at most once, and never
// revives.
TEST_F(RequeueTest, RandomTroubleNeverRequeuesTwice) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    FakeScheduler slurm({"n1", "n2", "n3"}, {"n4"});
    slurm.fail_with_effect = static_cast<int>(random.Below(3));
    slurm.fail_without_effect = static_cast<int>(random.Below(4));
    slurm.accept_without_effect = static_cast<int>(random.Below(3));
    slurm.completing_time = seconds(random.Below(40));
    slurm.index_busy_time = seconds(random.Below(6));
    slurm.resizing_allowed = random.Chance(0.8);
    if (random.Chance(0.3)) slurm.silent_until = slurm.now() + seconds(random.Below(40));
    if (random.Chance(0.3)) slurm.cancel_at = slurm.now() + seconds(random.Below(20));
    if (random.Chance(0.2)) slurm.requeue_at = slurm.now() + seconds(random.Below(20));
    if (slurm.cancel_at.has_value() && slurm.requeue_at.has_value()) slurm.requeue_at.reset();
    RequeueTools tools{.scheduler = &slurm,
                       .now = [&] { return slurm.now(); },
                       .sleep = [&](Duration duration) { slurm.Advance(duration); },
                       .say = {}};
    const bool cancelled = slurm.cancel_at.has_value();
    const bool other_requeues = slurm.requeue_at.has_value();
    const TimePoint start = slurm.now();
    const auto report = RequeueJob(request_, tools);
    ASSERT_TRUE(report.ok()) << seed << ": " << report.status().ToString();
    ASSERT_LT(slurm.now() - start, seconds(600)) << seed;
    ASSERT_LE(slurm.job().restart_count, 1U) << seed;
    if (!cancelled && !other_requeues) {
      ASSERT_EQ(report->outcome, RequeueOutcome::kRequeued) << seed;
    }
    const bool before_running = slurm.job().state != JobState::kRunning;
    slurm.Advance(seconds(30));
    if (cancelled && before_running && IsEnded(slurm.job().state)) {
      ASSERT_EQ(slurm.job().state, JobState::kCancelled) << seed;
    }
  }
}

TEST(ExclusionTest, Table) {
  const auto nodes = [](std::initializer_list<const char*> usable,
                        std::initializer_list<const char*> down) {
    std::vector<NodeInfo> out;
    for (const char* name : usable)
      out.push_back({.name = name, .state = "IDLE", .reason = {}, .usable = true});
    for (const char* name : down) out.push_back({.name = name, .state = "DOWN", .reason = {}});
    return out;
  };
  struct Case {
    const char* what;
    std::vector<NodeInfo> partition;
    std::vector<std::string> user;
    std::vector<std::string> away;
    int wanted;
    int least;
    std::vector<std::string> nodes;
    std::optional<int> count;
  };
  const std::vector<Case> cases = {
      {"enough", nodes({"a", "b", "c"}, {}), {}, {"a"}, 2, 2, {"a"}, {}},
      {"Slurm keeps it away itself", nodes({"b", "c"}, {"a"}), {}, {"a"}, 2, 2, {}, {}},
      {"not in the partition", nodes({"b", "c"}, {}), {}, {"z"}, 2, 2, {}, {}},
      {"the user's own counts", nodes({"a", "b", "c"}, {}), {"c"}, {"a"}, 2, 2, {"c"}, {}},
      {"shrink", nodes({"a", "b", "c"}, {}), {}, {"a"}, 3, 2, {"a"}, 2},
      {"the worst first", nodes({"a", "b", "c"}, {}), {}, {"b", "a"}, 3, 2, {"b"}, 2},
      {"twice named", nodes({"a", "b", "c"}, {}), {}, {"a", "a"}, 2, 2, {"a"}, {}},
      {"too few anyway", nodes({"a"}, {"b"}), {}, {"a"}, 2, 2, {}, {}},
      {"min 0 means 1", nodes({"a"}, {}), {}, {"a"}, 1, 0, {}, {}},
      {"nothing usable", nodes({}, {"a"}), {"u"}, {"a"}, 2, 1, {"u"}, {}},
      {"one left of two wanted", nodes({"a"}, {"b"}), {}, {"b"}, 2, 1, {}, 1},
  };
  for (const Case& c : cases) {
    const Exclusion chosen = ChooseExclusion(c.partition, c.user, c.away, c.wanted, c.least);
    EXPECT_EQ(chosen.nodes, c.nodes) << c.what;
    EXPECT_EQ(chosen.node_count, c.count) << c.what;
  }
}

}  // namespace
}  // namespace muster::slurm

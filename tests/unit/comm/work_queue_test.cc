#include "trainer_runtime/comm/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <vector>

namespace muster::comm {
namespace {

TEST(WorkQueue, RunsInOrder) {
  WorkQueue queue([] {});
  std::vector<int> order;
  Work last;
  for (int i = 0; i < 100; ++i) {
    last = queue.Push([&order, i] {
      order.push_back(i);
      return OkStatus();
    });
  }
  EXPECT_TRUE(last.Wait().ok());
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_TRUE(Work().Wait().ok());
  EXPECT_TRUE(Work().done());
}

TEST(WorkQueue, TheFirstFailureFailsAllThatFollows) {
  std::atomic<int> broken = 0, ran = 0;
  WorkQueue queue([&] { ++broken; });
  const Work bad = queue.Push([] { return Unavailable("peer 3"); });
  const Work next = queue.Push([&] {
    ++ran;
    return OkStatus();
  });
  EXPECT_EQ(bad.Wait(), Unavailable("peer 3"));
  EXPECT_EQ(next.Wait(), Unavailable("peer 3"));
  EXPECT_EQ(queue.Push([&] { return OkStatus(); }).Wait(), Unavailable("peer 3"));
  EXPECT_EQ(queue.state(), Unavailable("peer 3"));
  EXPECT_EQ(broken, 1);
  EXPECT_EQ(ran, 0);
}

TEST(WorkQueue, BreakReachesAnIdleQueue) {
  std::latch told(1);
  WorkQueue queue([&] { told.count_down(); });
  queue.Break(Aborted("first"));
  queue.Break(Aborted("second"));
  told.wait();
  EXPECT_EQ(queue.Push([] { return OkStatus(); }).Wait(), Aborted("first"));
}

TEST(WorkQueue, TheReasonOfABreakExplainsTheOperationItStopped) {
  std::latch entered(1), leave(1);
  WorkQueue queue([] {});
  const Work work = queue.Push([&] {
    entered.count_down();
    leave.wait();
    return Unavailable("socket closed");
  });
  entered.wait();
  queue.Break(Aborted("the round ends"));
  leave.count_down();
  EXPECT_EQ(work.Wait(), Aborted("the round ends"));
}

TEST(WorkQueue, DestructionEndsEveryWork) {
  Work work;
  std::latch entered(1);
  {
    WorkQueue queue([] {});
    queue.Push([&] {
      entered.count_down();
      return OkStatus();
    });
    entered.wait();
    for (int i = 0; i < 10; ++i) work = queue.Push([] { return OkStatus(); });
  }
  EXPECT_TRUE(work.done());
}

}  // namespace
}  // namespace muster::comm

// Thousands of random histories against the machine's promises.

#include <set>

#include "common/random.h"
#include "common/text.h"
#include "machine_harness.h"

namespace muster::agent {
namespace {

class RandomWorld {
 public:
  explicit RandomWorld(std::uint64_t seed) : random_(seed) {}

  void Run(int steps) {
    for (int i = 0; i < steps; ++i) {
      Do(Event());
      if (finished_) return;
    }
    Do(OrderReceived{MakeOrder(OrderKind::kClose, round_)});
    // From here on everything obeys: the machine must come to its end.
    for (int i = 0; i < 2000 && !finished_; ++i) {
      for (const WorkerId& worker : std::set<WorkerId>(live_)) {
        Do(ProcessExited{worker, 143, 15, protocol::Cause::kCode, ""});
      }
      for (const WorkerId& worker : std::set<WorkerId>(dying_)) {
        if (!live_.contains(worker)) Do(TreeGone{worker});
      }
      if (sweeping_) Do(SweepDone{""});
      now_ += milliseconds(500);
      Do(TimePassed{});
    }
    EXPECT_TRUE(finished_) << "it never ended";
    EXPECT_TRUE(live_.empty());
  }

 private:
  void Do(const MachineEvent& event) {
    if (const auto* exited = std::get_if<ProcessExited>(&event)) live_.erase(exited->worker);
    if (const auto* gone = std::get_if<TreeGone>(&event)) {
      dying_.erase(gone->worker);
      present_.erase(gone->worker);
    }
    linking_ = std::holds_alternative<LinkUp>(event);
    if (linking_) link_ = true;
    if (std::holds_alternative<LinkDown>(event)) link_ = false;
    for (const MachineEffect& effect : machine_.Step(event, now_)) Check(effect);
    const auto next = machine_.NextDeadline();
    if (next) {
      EXPECT_GT(*next, now_) << "a deadline in the past after a step";
    }
  }

  void Check(const MachineEffect& effect) {
    if (const auto* start = std::get_if<StartWorker>(&effect)) {
      for (const WorkerId& other : present_) {
        EXPECT_NE(other.slot, start->worker.slot) << "two processes in one slot";
      }
      EXPECT_TRUE(serials_.insert(start->worker.serial).second);
      EXPECT_GE(start->order.fence, newest_start_);
      newest_start_ = start->order.fence;
      live_.insert(start->worker);
      present_.insert(start->worker);
    } else if (const auto* signal = std::get_if<SignalTree>(&effect)) {
      EXPECT_TRUE(present_.contains(signal->worker)) << "a signal to nobody";
      if (signal->signal == SIGTERM || signal->signal == SIGKILL) dying_.insert(signal->worker);
    } else if (const auto* send = std::get_if<SendUpward>(&effect)) {
      EXPECT_TRUE(link_) << "sent without a link";
      if (std::holds_alternative<protocol::Hello>(send->message.body)) expected_ = 0;
      if (send->message.number != 0) {
        EXPECT_GT(send->message.number, expected_) << "numbers out of order on one stream";
        expected_ = send->message.number;
      }
      if (std::holds_alternative<protocol::Goodbye>(send->message.body)) {
        EXPECT_TRUE(live_.empty()) << "goodbye with a living worker";
      }
      if (const auto* ready = std::get_if<protocol::Ready>(&send->message.body)) {
        // After a new link it may be an old one, sent again.
        if (ready->problem.empty() && !linking_) {
          EXPECT_LE(present_.size(), ready->workers.size()) << "ready with an old process";
        }
      }
    } else if (std::holds_alternative<Sweep>(effect)) {
      sweeping_ = true;
    } else if (std::holds_alternative<Finish>(effect)) {
      finished_ = true;
    }
  }

  WorkerId Any(const std::set<WorkerId>& from) {
    auto at = from.begin();
    std::advance(at, static_cast<long>(random_.Below(from.size())));
    return *at;
  }

  MachineEvent Event() {
    now_ += milliseconds(random_.Between(0, 1500));
    switch (random_.Below(14)) {
      case 0:
        return LinkUp{};
      case 1:
        return LinkDown{Unavailable("cut"), false};
      case 2: {
        if (random_.Chance(0.3)) ++round_;
        const auto kind = static_cast<OrderKind>(random_.Below(3));
        const auto late = static_cast<std::uint32_t>(random_.Below(2));
        const Order order = MakeOrder(kind, round_ - std::min(round_, late),
                                      static_cast<std::uint32_t>(random_.Between(1, 2)),
                                      random_.Chance(0.5) ? 0 : 2);
        return OrderReceived{order};
      }
      case 3:
      case 4:
        if (live_.empty()) return TimePassed{};
        return ProcessExited{Any(live_), static_cast<int>(random_.Below(3)), 0,
                             protocol::Cause::kCode, ""};
      case 5:
      case 6: {
        std::set<WorkerId> ended;
        for (const WorkerId& worker : dying_) {
          if (!live_.contains(worker)) ended.insert(worker);
        }
        if (ended.empty()) return TimePassed{};
        return TreeGone{Any(ended)};
      }
      case 7:
        if (live_.empty()) return TimePassed{};
        return WorkerRegistered{Any(live_), random_.Chance(0.8)};
      case 8:
      case 9:
        if (live_.empty()) return TimePassed{};
        return WorkerQuiesced{Any(live_),
                              Fence{0, static_cast<std::uint32_t>(random_.Below(round_ + 1))}, 3};
      case 10:
        if (live_.empty()) return TimePassed{};
        return WorkerProgressed{Any(live_), 1, 4};
      case 11:
        return PortBound{Fence{0, round_}, "10.0.0.1", 4000};
      case 12:
        return AcknowledgeReceived{random_.Below(20)};
      default:
        return BeatAnswerReceived{{random_.Below(200), Fence{0, round_}}};
    }
  }

  Random random_;
  SupervisorMachine machine_{TestConfig()};
  TimePoint now_{seconds(1000)};
  std::uint32_t round_ = 1;
  bool link_ = false;
  bool finished_ = false;
  bool sweeping_ = false;
  std::uint64_t expected_ = 0;
  Fence newest_start_;
  bool linking_ = false;
  std::set<Serial> serials_;
  std::set<WorkerId> live_;
  std::set<WorkerId> dying_;
  std::set<WorkerId> present_;
};

TEST(MachineRandom, PromisesHoldInRandomHistories) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    RandomWorld(seed).Run(200);
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace muster::agent

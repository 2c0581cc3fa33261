#pragma once

// One full value of every message, each field different from its default.

#include <vector>

#include "rendezvousd/protocol/messages.h"

namespace muster::testing {

inline protocol::AgentId SampleAgent() { return {{"n3", 4, 5}, 0xFEDCBA9876543210U}; }

inline std::vector<protocol::WorkerStatus> SampleWorkers() {
  return {{1, {2, 3}, 4321, true, true, 0, 17}, {2, {2, 3}, 4322, false, false, 137, -1}};
}

inline protocol::Blame SampleBlame() {
  return {protocol::Cause::kGrow, "n3", 7, 137, "rank 7 on n3 was killed by signal 9 (SIGKILL)"};
}

inline protocol::Verdict SampleVerdict() {
  return {protocol::Outcome::kStopped, 123, SampleBlame()};
}

inline std::vector<protocol::Upward> SampleUpwards() {
  const protocol::Fence fence{1, 2};
  std::vector<protocol::UpwardBody> bodies{
      protocol::Hello{"1.2.3", "cluster/12/run1", 9, 2, 8, "fd00::7", fence, SampleWorkers(),
                      "no program", 127},
      protocol::Ready{fence, SampleWorkers(), "10.0.0.1", 65535, "pid 12 holds device 3"},
      protocol::WorkerExited{fence, 3, 99, 137, 9, protocol::Cause::kMemory, "last words"},
      protocol::WorkerBroken{fence, 3, "communicator failed"},
      protocol::WorkerProgress{fence, 3, 2, 1LL << 40},
      protocol::WorkerRequest{fence, 3, 2, "done"},
      protocol::Goodbye{"told to"},
      protocol::Beat{1ULL << 60},
      protocol::ProbeAnswer{5, true, "refused"}};
  static_assert(std::variant_size_v<protocol::UpwardBody> == 9, "one sample for each body");
  std::vector<protocol::Upward> out;
  for (auto& body : bodies) out.push_back({SampleAgent(), out.size() + 1, std::move(body)});
  return out;
}

inline std::vector<protocol::Downward> SampleDownwards() {
  protocol::Order order;
  order.kind = protocol::OrderKind::kClose;
  order.fence = {1, 2};
  order.assignment = {1, 2, 3, 4, 5, 6, 7, 8, 9, "2(x3),1"};
  order.master_address = "10.0.0.9";
  order.master_port = 29500;
  order.deadline = std::chrono::milliseconds(-5);
  order.blame = SampleBlame();
  order.verdict = SampleVerdict();
  static_assert(std::variant_size_v<protocol::Downward> == 4, "one sample for each body");
  return {order, protocol::BeatAnswer{7, {1, 2}}, protocol::Acknowledge{12},
          protocol::Probe{6, "10.0.0.4", std::chrono::seconds(1)}};
}

inline std::vector<protocol::HostUp> SampleHostUps() {
  static_assert(std::variant_size_v<protocol::HostUp> == 3, "one sample for each body");
  return {protocol::HostFacts{true, {"n1", "n2"}, {"n4"}, "srun ended with 1"},
          protocol::WishAnswer{3, protocol::WishState::kRefused, "not possible"},
          protocol::OperatorRequest{protocol::OperatorAction::kRestart, "a person"}};
}

inline std::vector<protocol::Wish> SampleWishes() {
  return {{1, protocol::WishKind::kDropNodes, {"n1"}, {}, "dead"},
          {2, protocol::WishKind::kFinish, {}, SampleVerdict(), "over"}};
}

inline protocol::KeyRequest SampleKeyRequest() {
  return {{SampleAgent(), 8},
          {1, 2},
          true,
          protocol::KeyOperation::kAdd,
          std::string("k\0\xFF\xC3", 4),
          std::string("v\0\xFE", 3),
          -5};
}

inline protocol::BarrierRequest SampleBarrierRequest() {
  return {{SampleAgent(), 9}, {1, 2}, "b\xFF", {0, 5, 7}};
}

inline protocol::RunView SampleRunView() {
  protocol::RunView view;
  view.run_id = "cluster/12/run1";
  view.phase = "active";
  view.fence = {1, 2};
  view.world_size = 16;
  view.waiting_for = "n4, until 12:00";
  view.agents = {{{"n1", 0, 0}, "in round", 0, 8, 99},
                 {{"n2", 0, 1}, "suspect since 3 s", 1, 8, 98}};
  view.last_blame = SampleBlame();
  view.verdict = SampleVerdict();
  return view;
}

}  // namespace muster::testing

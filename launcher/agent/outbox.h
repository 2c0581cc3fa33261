#pragma once

// Upward messages that must arrive: numbered in order, kept until acknowledged, sent again after
// each connection. Pure.

#include <cstdint>
#include <deque>

#include "rendezvousd/protocol/messages.h"

namespace muster::agent {

class Outbox {
 public:
  explicit Outbox(protocol::AgentId agent) : agent_(std::move(agent)) {}

  // Numbers and keeps the message.
  protocol::Upward Keep(protocol::UpwardBody body) {
    kept_.push_back({agent_, ++last_, std::move(body)});
    return kept_.back();
  }
  // A message that is not kept.
  protocol::Upward Once(protocol::UpwardBody body) const { return {agent_, 0, std::move(body)}; }
  // A number that was never given is ignored.
  void Acknowledge(std::uint64_t number) {
    if (number > last_) return;
    while (!kept_.empty() && kept_.front().number <= number) kept_.pop_front();
  }
  const std::deque<protocol::Upward>& kept() const { return kept_; }
  bool Holds(std::uint64_t number) const {
    return !kept_.empty() && kept_.front().number <= number && number <= last_;
  }
  std::uint64_t last() const { return last_; }

 private:
  protocol::AgentId agent_;
  std::uint64_t last_ = 0;
  std::deque<protocol::Upward> kept_;
};

}  // namespace muster::agent

#pragma once

// What the run wants of its host. The whole set is sent whenever it changes; a wish keeps its id
// until it is answered.

#include <optional>
#include <string>
#include <vector>

#include "rendezvousd/protocol/messages.h"

namespace muster::core {

class Wishes {
 public:
  // Gives the wish its id.
  std::uint64_t Add(protocol::Wish wish);
  // Takes an answered wish out; none if the id is not open or the answer is only "pending".
  std::optional<protocol::Wish> Answer(const protocol::WishAnswer& answer);
  void Withdraw(protocol::WishKind kind);
  // Only wishes about this node alone.
  void Withdraw(protocol::WishKind kind, const std::string& node);
  const std::vector<protocol::Wish>& open() const { return open_; }
  // True once after each change.
  bool TakeChanged();

 private:
  std::vector<protocol::Wish> open_;
  std::uint64_t last_id_ = 0;
  bool changed_ = false;
};

}  // namespace muster::core

#include "rendezvousd/core/wishes.h"

#include <algorithm>
#include <utility>

namespace muster::core {

std::uint64_t Wishes::Add(protocol::Wish wish) {
  wish.id = ++last_id_;
  open_.push_back(std::move(wish));
  changed_ = true;
  return last_id_;
}

std::optional<protocol::Wish> Wishes::Answer(const protocol::WishAnswer& answer) {
  if (answer.state == protocol::WishState::kPending) return std::nullopt;
  const auto found = std::find_if(open_.begin(), open_.end(),
                                  [&](const auto& wish) { return wish.id == answer.id; });
  if (found == open_.end()) return std::nullopt;
  protocol::Wish wish = std::move(*found);
  open_.erase(found);
  changed_ = true;
  return wish;
}

void Wishes::Withdraw(protocol::WishKind kind) {
  if (std::erase_if(open_, [&](const auto& wish) { return wish.kind == kind; }) > 0) {
    changed_ = true;
  }
}

void Wishes::Withdraw(protocol::WishKind kind, const std::string& node) {
  const auto about = [&](const protocol::Wish& wish) {
    return wish.kind == kind && wish.nodes.size() == 1 && wish.nodes.front() == node;
  };
  if (std::erase_if(open_, about) > 0) changed_ = true;
}

bool Wishes::TakeChanged() { return std::exchange(changed_, false); }

}  // namespace muster::core

// How communicators form: from a unique id by way of its root, or from a parent by way of the
// members' listening sockets, which children share with it.

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "tests/standin/communicator.h"

namespace muster::standin {
namespace {

std::uint64_t Mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 29);
}

Code CodeOf(Io io) {
  switch (io) {
    case Io::kDone:
      return Code::kSuccess;
    case Io::kInterrupted:
      return Code::kInternalError;
    case Io::kClosed:
    case Io::kTimedOut:
      return Code::kRemoteError;
  }
  return Code::kInternalError;
}

}  // namespace

void Communicator::StartThread(std::function<Code()> form) {
  thread_ = std::thread([this, form = std::move(form)] {
    Code code = Code::kInternalError;
    if (knobs_.init_hang_rank == settings_.rank) interrupt_.Wait(-1);
    if (!interrupt_.is_set()) code = form();
    const std::lock_guard lock(mutex_);
    formed_ = code;
    changed_.notify_all();
  });
  pthread_setname_np(thread_.native_handle(), "standin-init");
}

// ------------------------------------------------------------------------------- from an id

void Communicator::StartFromId(const UniqueId& id) {
  id_ = id;
  from_id_ = true;
  StartThread([this, id] { return FormFromId(id); });
}

Code Communicator::FormFromId(const UniqueId& id) {
  const auto own = ChooseAddress();
  if (!own) {
    Warn("Bootstrap : no socket interface found");
    return Code::kInvalidUsage;
  }
  listener_ = Listener::Open(*own);
  if (listener_ == nullptr) {
    Warn("Bootstrap : cannot listen on " + ToString(*own));
    return Code::kSystemError;
  }
  std::vector<Address> addresses;
  std::string text;
  const Code met =
      Meet(id, settings_.rank, settings_.size, listener_->address(), interrupt_, &addresses, &text);
  if (met != Code::kSuccess) {
    if (!text.empty()) Warn(text);
    return met;
  }
  return ConnectMesh(HashOf(id), std::move(addresses));
}

Code Communicator::ConnectMesh(std::uint64_t hash, std::vector<Address> addresses) {
  hash_ = hash;
  mesh_ = std::make_unique<Mesh>(settings_.rank, settings_.size, std::move(addresses));
  collectives_ = std::make_unique<Collectives>(*mesh_);
  const Outcome outcome = mesh_->Connect(*listener_, hash, interrupt_);
  if (outcome.ok()) return Code::kSuccess;
  if (outcome.code == Code::kInProgress) return Code::kInternalError;
  Warn(outcome.text);
  return outcome.code;
}

// ------------------------------------------------------------------------------- from a parent

Code Communicator::FormChild(std::uint64_t hash, int rank, int size, std::vector<Address> addresses,
                             std::shared_ptr<Listener> listener) {
  {
    const std::lock_guard lock(mutex_);
    settings_.rank = rank;
    settings_.size = size;
    listener_ = std::move(listener);
  }
  return ConnectMesh(hash, std::move(addresses));
}

void Communicator::StartShrink(const std::shared_ptr<Communicator>& parent,
                               const std::vector<int>& excluded) {
  std::uint64_t hash = 0;
  {
    const std::lock_guard lock(parent->mutex_);
    hash = Mix(parent->hash_, ++parent->children_);
  }
  std::vector<Address> addresses;
  int rank = 0;
  for (int member = 0; member < parent->settings_.size; ++member) {
    hash = Mix(hash, 2);
    if (std::find(excluded.begin(), excluded.end(), member) != excluded.end()) continue;
    hash = Mix(hash, static_cast<std::uint64_t>(member) + 3);
    if (member == parent->settings_.rank) rank = static_cast<int>(addresses.size());
    addresses.push_back(parent->mesh_->addresses()[static_cast<std::size_t>(member)]);
  }
  settings_.rank = rank;
  settings_.size = static_cast<int>(addresses.size());
  StartThread([this, hash, addresses = std::move(addresses), listener = parent->listener_] {
    return FormChild(hash, settings_.rank, settings_.size, addresses, listener);
  });
}

// Each tells the parent's rank 0 its color and key, and hears everybody's.
Code Communicator::GatherSplit(Communicator& parent, std::uint64_t hash, int color, int key,
                               std::vector<std::pair<int, int>>* all) {
  const int rank = parent.settings_.rank, size = parent.settings_.size;
  all->resize(static_cast<std::size_t>(size));
  const std::size_t bytes = all->size() * sizeof(all->front());
  std::pair<int, int> own{color, key};
  if (rank != 0) {
    Socket socket;
    const Listener::Hello hello{hash, rank, 0};
    Io io = Socket::Connect(parent.mesh_->addresses()[0], interrupt_, &socket);
    if (io == Io::kDone) io = socket.Send(&hello, sizeof(hello), interrupt_);
    if (io == Io::kDone) io = socket.Send(&own, sizeof(own), interrupt_);
    if (io == Io::kDone) io = socket.Receive(all->data(), bytes, interrupt_);
    return CodeOf(io);
  }
  all->front() = own;
  std::vector<Socket> sockets(all->size());
  for (int peer = 1; peer < size; ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    Io io = parent.listener_->Accept({hash, peer, 0}, interrupt_, &sockets[index]);
    if (io == Io::kDone) io = sockets[index].Receive(&(*all)[index], sizeof(own), interrupt_);
    if (io != Io::kDone) return CodeOf(io);
  }
  for (int peer = 1; peer < size; ++peer) {
    const Io io = sockets[static_cast<std::size_t>(peer)].Send(all->data(), bytes, interrupt_);
    if (io != Io::kDone) return CodeOf(io);
  }
  return Code::kSuccess;
}

void Communicator::StartSplit(const std::shared_ptr<Communicator>& parent, int color, int key) {
  std::uint64_t hash = 0;
  {
    const std::lock_guard lock(parent->mutex_);
    hash = Mix(Mix(parent->hash_, ++parent->children_), 1);
  }
  StartThread([this, parent, hash, color, key] {
    std::vector<std::pair<int, int>> all;
    const Code gathered = GatherSplit(*parent, hash, color, key, &all);
    if (gathered != Code::kSuccess || color < 0) return gathered;
    std::vector<int> members;
    for (int member = 0; member < static_cast<int>(all.size()); ++member) {
      if (all[static_cast<std::size_t>(member)].first == color) members.push_back(member);
    }
    std::stable_sort(members.begin(), members.end(), [&](int left, int right) {
      return all[static_cast<std::size_t>(left)].second <
             all[static_cast<std::size_t>(right)].second;
    });
    std::vector<Address> addresses;
    for (const int member : members) {
      addresses.push_back(parent->mesh_->addresses()[static_cast<std::size_t>(member)]);
    }
    const auto place = std::find(members.begin(), members.end(), parent->settings_.rank);
    return FormChild(Mix(hash, static_cast<std::uint64_t>(color) + 2),
                     static_cast<int>(place - members.begin()), static_cast<int>(members.size()),
                     std::move(addresses), parent->listener_);
  });
}

}  // namespace muster::standin

#include "tests/standin/bootstrap.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

namespace muster::standin {
namespace {

constexpr int kJoinTimeoutMs = 5000;  // for the few bytes of one rank

struct Join {
  std::uint64_t magic = 0;
  std::int32_t rank = 0, size = 0;
  Address address;
};
struct Answer {
  std::int32_t accepted = 1;
  std::int32_t reserved = 0;
};

struct Root {
  Interrupt interrupt;
  std::shared_ptr<Listener> listener;
  std::uint64_t magic = 0;
  std::thread thread;
};

// Never destroyed: a root may wait while the process ends.
struct Roots {
  std::mutex mutex;
  std::map<std::uint64_t, std::shared_ptr<Root>> by_magic;
};
Roots& TheRoots() {
  static auto* const roots = new Roots;
  return *roots;
}

std::uint64_t MagicOf(const UniqueId& id) {
  std::uint64_t magic = 0;
  std::memcpy(&magic, id.internal, sizeof(magic));
  return magic;
}

// Takes ranks until all are there; false if it was interrupted.
bool GatherRanks(Root& root, std::map<int, std::pair<Socket, Address>>* ranks) {
  for (std::size_t size = 1; ranks->size() < size;) {
    Socket socket;
    const Io io = root.listener->AcceptAny(root.interrupt, &socket);
    if (io == Io::kTimedOut) continue;
    if (io != Io::kDone) return false;
    Join join;
    const Io heard = socket.Receive(&join, sizeof(join), root.interrupt, kJoinTimeoutMs);
    if (heard == Io::kInterrupted) return false;
    if (heard != Io::kDone || join.magic != root.magic || join.size < 1) continue;
    if (ranks->contains(join.rank)) {
      const Answer refused{0, 0};
      (void)socket.Send(&refused, sizeof(refused), root.interrupt);
      continue;
    }
    size = static_cast<std::size_t>(join.size);
    (*ranks)[join.rank] = {std::move(socket), join.address};
  }
  return true;
}

void ServeRoot(const std::shared_ptr<Root>& root) {
  std::map<int, std::pair<Socket, Address>> ranks;
  if (GatherRanks(*root, &ranks)) {
    std::vector<Address> all;
    for (const auto& [rank, entry] : ranks) all.push_back(entry.second);
    const Answer accepted;
    for (auto& [rank, entry] : ranks) {
      (void)entry.first.Send(&accepted, sizeof(accepted), root->interrupt);
      (void)entry.first.Send(all.data(), all.size() * sizeof(Address), root->interrupt);
    }
  }
  ranks.clear();
  Roots& roots = TheRoots();
  const std::lock_guard lock(roots.mutex);
  // Whoever has taken it out of the table joins this thread.
  if (roots.by_magic.erase(root->magic) != 0) root->thread.detach();
}

int NumberFrom(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : fallback;
}

// Tries again for about a minute, as NCCL does.
Io ConnectToRoot(const Address& address, const Interrupt& interrupt, Socket* socket) {
  const int attempts = NumberFrom("NCCL_SOCKET_RETRY_CNT", 34);
  const int pause = NumberFrom("NCCL_SOCKET_RETRY_SLEEP_MSEC", 100);
  for (int attempt = 1;; ++attempt) {
    const Io io = Socket::Connect(address, interrupt, socket);
    if (io != Io::kClosed || attempt > attempts) return io;
    interrupt.Wait(attempt * pause);
    if (interrupt.is_set()) return Io::kInterrupted;
  }
}

}  // namespace

std::uint64_t HashOf(const UniqueId& id) {
  // Roots check the magic itself: connections between ranks say something else.
  return MagicOf(id) * 0x9e3779b97f4a7c15U + 1;
}

Code StartRoot(UniqueId* id) {
  const auto address = ChooseAddress();
  if (!address) return Code::kInvalidUsage;
  const auto root = std::make_shared<Root>();
  root->listener = Listener::Open(*address);
  if (root->listener == nullptr) return Code::kSystemError;
  std::random_device random;
  root->magic = (std::uint64_t{random()} << 32) | random();
  std::memset(id->internal, 0, sizeof(id->internal));
  std::memcpy(id->internal, &root->magic, sizeof(root->magic));
  std::memcpy(id->internal + sizeof(root->magic), &root->listener->address().bytes,
              root->listener->address().size());
  Roots& roots = TheRoots();
  const std::lock_guard lock(roots.mutex);
  roots.by_magic[root->magic] = root;
  root->thread = std::thread([root] { ServeRoot(root); });
  pthread_setname_np(root->thread.native_handle(), "standin-root");
  return Code::kSuccess;
}

void StopRoot(const UniqueId& id) {
  std::shared_ptr<Root> root;
  {
    Roots& roots = TheRoots();
    const std::lock_guard lock(roots.mutex);
    const auto place = roots.by_magic.find(MagicOf(id));
    if (place == roots.by_magic.end()) return;
    root = std::move(place->second);
    roots.by_magic.erase(place);
  }
  root->interrupt.Set();
  root->thread.join();
}

Code Meet(const UniqueId& id, int rank, int size, const Address& own, const Interrupt& interrupt,
          std::vector<Address>* all, std::string* text) {
  Address root;
  std::memcpy(&root.bytes, id.internal + sizeof(std::uint64_t), sizeof(root.bytes));
  const Join join{MagicOf(id), rank, size, own};
  Answer answer;
  all->resize(static_cast<std::size_t>(size));
  Socket socket;
  Io io = ConnectToRoot(root, interrupt, &socket);
  if (io == Io::kClosed) {
    *text = "socketPollConnect: connect to " + ToString(root) +
            " returned Connection refused, exceeded error retry count";
    return Code::kRemoteError;
  }
  if (io == Io::kDone) io = socket.Send(&join, sizeof(join), interrupt);
  if (io == Io::kDone) io = socket.Receive(&answer, sizeof(answer), interrupt);
  if (io == Io::kDone && answer.accepted == 0) {
    *text = "Bootstrap Root : rank " + std::to_string(rank) + " of " + std::to_string(size) +
            " ranks has already checked in";
    return Code::kInternalError;
  }
  if (io == Io::kDone) {
    io = socket.Receive(all->data(), all->size() * sizeof(Address), interrupt);
  }
  if (io == Io::kDone) return Code::kSuccess;
  if (io == Io::kInterrupted) return Code::kInternalError;
  *text = "socketProgress: Connection closed by remote peer " + ToString(root);
  return Code::kRemoteError;
}

}  // namespace muster::standin

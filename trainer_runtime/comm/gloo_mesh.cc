#include "trainer_runtime/comm/gloo_mesh.h"

#include <arpa/inet.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <exception>

#include "common/text.h"

namespace muster::comm {
namespace {

namespace tcp = gloo::transport::tcp;

// Pair::connect waits five times the context's time-out.
constexpr int kGlooConnectFactor = 5;
// A receive that only a connection's end ends. Longer than any run, far from an overflow.
constexpr auto kForever = std::chrono::hours(24 * 365 * 10);
constexpr std::uint64_t kWatchSlot = ~std::uint64_t{0};
constexpr std::uint64_t kProbeSlot = kWatchSlot - 1;
// What Gloo says on every connection after one of our own waits was too long.
constexpr char kOwnTimeout[] = "Application timeout";

// What each end says first on a connection: a process of another round that took over a port, or a
// stranger, is found out before any data.
struct Greeting {
  char magic[8] = {'m', 'u', 's', 't', 'e', 'r', '1', '\0'};
  std::uint32_t attempt = 0, round = 0;
  std::int32_t from = 0, to = 0;
};

std::chrono::milliseconds AtLeastOneMillisecond(Duration duration) {
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(duration),
                  std::chrono::milliseconds(1));
}

std::uint16_t PortOf(const sockaddr_storage& address) {
  // The port stands at the same place in both families.
  return reinterpret_cast<const sockaddr_in&>(address).sin_port;
}

}  // namespace

// Gloo's loop wakes those who wait for it once in 10 ms, unless it has something to do. While this
// is on it has: closing or connecting a hundred pairs then takes a few milliseconds, not a second.
class GlooMesh::Ticker : public tcp::Handler {
 public:
  Ticker() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Ticker() override { close(event_); }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

  int descriptor() const { return event_; }
  void handleEvents(int) override { usleep(20); }  // not to starve the others' locks
  void On() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(event_, &one, sizeof(one));
  }
  void Off() {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(event_, &count, sizeof(count));
  }

 private:
  const int event_;
};

GlooMesh::GlooMesh(int rank, int size) : rank_(rank), size_(size) {}

GlooMesh::~GlooMesh() {
  StopWatching();
  if (ticker_ != nullptr) ticker_->On();
  context_.reset();
  device_.reset();
}

Status GlooMesh::aborted() const {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

Status GlooMesh::Describe(int peer, const char* doing, const std::string& what) const {
  if (const Status reason = aborted(); !reason.ok()) return reason;
  const bool late = what.find("Timed out") != std::string::npos ||
                    what.find("Connect timeout") != std::string::npos;
  return Status(late ? StatusCode::kDeadlineExceeded : StatusCode::kUnavailable,
                Concat("rank ", rank_, " ", doing, " rank ", peer, ": ", what));
}

// ------------------------------------------------------------------------------- connecting

Status GlooMesh::Connect(session::Session& session, const session::RoundInfo& info,
                         const std::string& name, Duration timeout) {
  const TimePoint deadline = SteadyNow() + timeout;
  ticker_ = std::make_unique<Ticker>();
  try {
    tcp::attr attr;
    attr.hostname = info.own_address;
    attr.ai_family = info.own_address.find(':') == std::string::npos ? AF_INET : AF_INET6;
    auto device = std::make_shared<tcp::Device>(tcp::CreateDeviceAttr(attr));
    device->registerDescriptor(ticker_->descriptor(), EPOLLIN, ticker_.get());
    device_ = device;
    context_ = device->createContext(rank_, size_);
  } catch (const std::exception& error) {
    return Unavailable(Concat("rank ", rank_, " cannot listen on ", info.own_address,
                              ", this node's address in the round: ", error.what()));
  }
  context_->setTimeout(AtLeastOneMillisecond(timeout / kGlooConnectFactor));
  ticker_->On();
  MUSTER_RETURN_IF_ERROR(CreatePairs(info));

  const auto key_of = [&](int rank) { return Concat("gloo/", name, "/", rank); };
  MUSTER_RETURN_IF_ERROR(
      session.KeySet(session::KeyScope::kRound, key_of(rank_), PackAddresses(), timeout));
  std::vector<std::string> keys;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) keys.push_back(key_of(peer));
  }
  auto addresses = session.KeyWaitAll(session::KeyScope::kRound, keys, deadline - SteadyNow(),
                                      stop_.get_token());
  if (!addresses.ok()) {
    if (const Status reason = aborted(); !reason.ok()) return reason;
    return addresses.status().With("waiting for the addresses of all ranks");
  }
  addresses->insert(addresses->begin() + rank_, std::string());
  Status status = ConnectPairs(*addresses);
  if (status.ok()) status = ExchangeGreetings(info);
  ticker_->Off();
  return status;
}

Status GlooMesh::CreatePairs(const session::RoundInfo& info) {
  try {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_)
        context_->createPair(peer)->setLocalRank(static_cast<int>(info.local_rank));
    }
  } catch (const std::exception& error) {
    return ResourceExhausted(Concat("rank ", rank_, " cannot listen for ", size_ - 1, " peers on ",
                                    info.own_address, ": ", error.what()));
  }
  return OkStatus();
}

// The address of the first pair, then one port for each other rank in order.
std::string GlooMesh::PackAddresses() const {
  std::string packed;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const tcp::Address address(context_->getPair(peer)->address().bytes());
    const sockaddr_storage& socket = address.getSockaddr();
    if (packed.empty()) packed.append(reinterpret_cast<const char*>(&socket), sizeof(socket));
    const std::uint16_t port = PortOf(socket);
    packed.append(reinterpret_cast<const char*>(&port), sizeof(port));
  }
  return packed;
}

Status GlooMesh::ConnectPairs(const std::vector<std::string>& addresses) {
  const std::size_t expected =
      sizeof(sockaddr_storage) + static_cast<std::size_t>(size_ - 1) * sizeof(std::uint16_t);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const std::string& packed = addresses[static_cast<std::size_t>(peer)];
    if (packed.size() != expected) {
      return Internal(Concat("rank ", peer, " published ", packed.size(),
                             " bytes of addresses, expected ", expected));
    }
    sockaddr_storage socket{};
    std::memcpy(&socket, packed.data(), sizeof(socket));
    const auto index = static_cast<std::size_t>(rank_ < peer ? rank_ : rank_ - 1);
    std::memcpy(&reinterpret_cast<sockaddr_in&>(socket).sin_port,
                packed.data() + sizeof(socket) + index * sizeof(std::uint16_t),
                sizeof(std::uint16_t));
    {
      const std::lock_guard lock(mutex_);
      if (!aborted_.ok()) return aborted_;
      connecting_ = peer;
    }
    Status status;
    try {
      context_->getPair(peer)->connect(tcp::Address(socket).bytes());
    } catch (const std::exception& error) {
      status = Describe(peer, "cannot connect to", error.what());
    }
    const std::lock_guard lock(mutex_);
    connecting_ = -1;
    if (!aborted_.ok()) return aborted_;
    if (!status.ok()) return status;
  }
  return OkStatus();
}

Status GlooMesh::ExchangeGreetings(const session::RoundInfo& info) {
  const auto count = static_cast<std::size_t>(size_);
  std::vector<Greeting> sent(count), received(count);
  Area out(*this, sent.data(), count * sizeof(Greeting));
  const std::uint64_t slot = NextSlot();
  std::list<Area> in;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const auto index = static_cast<std::size_t>(peer);
    sent[index].attempt = info.attempt;
    sent[index].round = info.round;
    sent[index].from = rank_;
    sent[index].to = peer;
    in.emplace_back(*this, &received[index], sizeof(Greeting));
    MUSTER_RETURN_IF_ERROR(in.back().Receive(peer, slot, 0, sizeof(Greeting)));
    MUSTER_RETURN_IF_ERROR(out.Send(peer, slot, index * sizeof(Greeting), sizeof(Greeting)));
  }
  auto area = in.begin();
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    MUSTER_RETURN_IF_ERROR((area++)->WaitReceive(peer));
    MUSTER_RETURN_IF_ERROR(out.WaitSend(peer));
    const Greeting& greeting = received[static_cast<std::size_t>(peer)];
    if (std::memcmp(greeting.magic, Greeting{}.magic, sizeof(greeting.magic)) != 0 ||
        greeting.attempt != info.attempt || greeting.round != info.round || greeting.from != peer ||
        greeting.to != rank_) {
      return FailedPrecondition(Concat("who answered for rank ", peer, " is rank ", greeting.from,
                                       " of attempt ", greeting.attempt, " round ", greeting.round,
                                       ", not of this ", session::ToString(session::IdOf(info))));
    }
  }
  return OkStatus();
}

// ------------------------------------------------------------------------------- watching

void GlooMesh::StartWatching(std::function<void(const Status&)> broken) {
  if (context_ == nullptr) return;
  watched_.resize(static_cast<std::size_t>(size_));
  watch_area_ = std::make_unique<Area>(*this, watched_.data(), watched_.size());
  Status status;
  for (int peer = 0; peer < size_ && status.ok(); ++peer) {
    if (peer != rank_) {
      status = watch_area_->Receive(peer, kWatchSlot, static_cast<std::size_t>(peer), 1);
    }
  }
  if (!status.ok()) {  // ended between the greetings and here
    broken(status);
    return;
  }
  watcher_ = std::jthread([this, broken = std::move(broken)] { Watch(broken); });
  pthread_setname_np(watcher_.native_handle(), "muster-watch");
}

void GlooMesh::Watch(const std::function<void(const Status&)>& broken) {
  try {
    if (!aborted().ok()) return;
    watch_area_->buffer_->waitRecv(nullptr, kForever);  // false: stopped or aborted
  } catch (const std::exception& error) {
    const std::string what = error.what();
    if (what.find(kOwnTimeout) == std::string::npos) broken(FindBroken(what));
  }
}

// Gloo's text has an address and no rank; a broken connection refuses another receive.
Status GlooMesh::FindBroken(const std::string& what) {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const Status status = watch_area_->Receive(peer, kProbeSlot, static_cast<std::size_t>(peer), 1);
    if (!status.ok()) return status;
  }
  return Unavailable(Concat("rank ", rank_, " lost a connection: ", what));
}

void GlooMesh::StopWatching() {
  if (watcher_.joinable()) {
    watch_area_->buffer_->abortWaitRecv();
    watcher_.join();
  }
  watch_area_.reset();
}

// ------------------------------------------------------------------------------- ending

void GlooMesh::Abort(const Status& reason) {
  stop_.request_stop();
  const std::lock_guard lock(mutex_);
  if (!aborted_.ok()) return;
  aborted_ = reason;
  for (Area* area : areas_) {
    area->buffer_->abortWaitRecv();
    area->buffer_->abortWaitSend();
  }
  // The only way to end Pair::connect.
  if (connecting_ >= 0) context_->getPair(connecting_)->close();
}

void GlooMesh::CloseConnections() {
  if (context_ == nullptr) return;
  ticker_->On();
  for (int peer = 0; peer < size_; ++peer) {
    try {
      if (auto& pair = context_->getPair(peer)) pair->close();
    } catch (const std::exception&) {
      // A pair that cannot be closed was closed by its peer.
    }
  }
  ticker_->Off();
}

// ------------------------------------------------------------------------------- transfers

GlooMesh::Area::Area(GlooMesh& mesh, void* memory, std::size_t bytes)
    : mesh_(mesh), buffer_(mesh.context_->createUnboundBuffer(memory, bytes)) {
  const std::lock_guard lock(mesh_.mutex_);
  place_ = mesh_.areas_.insert(mesh_.areas_.end(), this);
}

GlooMesh::Area::~Area() {
  const std::lock_guard lock(mesh_.mutex_);
  mesh_.areas_.erase(place_);
}

Status GlooMesh::Area::Send(int peer, std::uint64_t slot, std::size_t offset, std::size_t bytes) {
  try {
    buffer_->send(peer, slot, offset, bytes);
  } catch (const std::exception& error) {
    return mesh_.Describe(peer, "sending to", error.what());
  }
  return OkStatus();
}

Status GlooMesh::Area::Receive(int peer, std::uint64_t slot, std::size_t offset,
                               std::size_t bytes) {
  try {
    buffer_->recv(peer, slot, offset, bytes);
  } catch (const std::exception& error) {
    return mesh_.Describe(peer, "receiving from", error.what());
  }
  return OkStatus();
}

Status GlooMesh::Area::WaitSend(int peer) {
  if (Status reason = mesh_.aborted(); !reason.ok()) return reason;
  try {
    if (buffer_->waitSend(nullptr, AtLeastOneMillisecond(mesh_.transfer_timeout_))) {
      return OkStatus();
    }
  } catch (const std::exception& error) {
    return mesh_.Describe(peer, "sending to", error.what());
  }
  return mesh_.Describe(peer, "sending to", "given up");
}

Status GlooMesh::Area::WaitReceive(int peer) {
  if (Status reason = mesh_.aborted(); !reason.ok()) return reason;
  try {
    if (buffer_->waitRecv(nullptr, AtLeastOneMillisecond(mesh_.transfer_timeout_))) {
      return OkStatus();
    }
  } catch (const std::exception& error) {
    return mesh_.Describe(peer, "receiving from", error.what());
  }
  return mesh_.Describe(peer, "receiving from", "given up");
}

}  // namespace muster::comm

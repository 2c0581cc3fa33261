#include "tests/unit/session/fake_agent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/check.h"
#include "common/status.h"

namespace muster::test {
namespace {

constexpr std::uint32_t Code(StatusCode code) { return static_cast<std::uint32_t>(code); }

}  // namespace

FakeAgent::FakeAgent(std::uint32_t world_size) : world_size_(world_size) {
  const char* base = std::getenv("TMPDIR");
  std::string pattern = std::string(base != nullptr ? base : "/tmp") + "/muster-agent-XXXXXX";
  MUSTER_CHECK(mkdtemp(pattern.data()) != nullptr, "a temporary folder");
  folder_ = pattern;
  path_ = folder_ + "/socket";
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  MUSTER_CHECK(path_.size() < sizeof(address.sun_path), "TMPDIR is too long for a socket");
  std::memcpy(address.sun_path, path_.data(), path_.size());
  MUSTER_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0,
               "bind of the agent's socket");
  MUSTER_CHECK(listen(listener_, 64) == 0, "listen");
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = std::jthread([this] { Serve(); });
}

FakeAgent::~FakeAgent() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  Wake();
  thread_.join();
  for (const auto& worker : workers_) {
    if (!worker->closed) close(worker->descriptor);
  }
  close(listener_);
  close(wake_);
  unlink(path_.c_str());
  rmdir(folder_.c_str());
}

void FakeAgent::Wake() {
  const std::uint64_t one = 1;
  MUSTER_CHECK(write(wake_, &one, sizeof(one)) == sizeof(one), "eventfd");
}

// ------------------------------------------------------------------------------- orders

void FakeAgent::Expect(std::int32_t pid, std::uint32_t rank) {
  const std::lock_guard lock(mutex_);
  expected_[pid] = rank;
  for (const auto& worker : workers_) {  // it may have come first
    if (worker->closed || worker->rank || worker->pid != pid) continue;
    worker->rank = rank;
    if (running_) SendRound(worker);
  }
}

void FakeAgent::SetWorldSize(std::uint32_t world_size) {
  const std::lock_guard lock(mutex_);
  world_size_ = world_size;
}

std::uint32_t FakeAgent::BeginRound(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  ++round_;
  running_ = true;
  cause_ = cause;
  round_keys_.clear();
  quiesced_.clear();
  for (const auto& worker : workers_) {
    if (worker->rank && !worker->closed) SendRound(worker);
  }
  return round_;
}

std::set<std::uint32_t> FakeAgent::EndRound(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  running_ = false;
  std::set<std::uint32_t> told;
  local::FrameWriter frame(local::FrameType::kRoundEnding);
  frame.Add(std::uint32_t{0}).Add(round_).Add(cause);
  for (const auto& worker : workers_) {
    if (!worker->rank || worker->closed) continue;
    Send(worker, frame.Finish());
    told.insert(*worker->rank);
  }
  Wake();
  return told;
}

void FakeAgent::SendStopAt(std::int64_t step, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  local::FrameWriter frame(local::FrameType::kStopAt);
  frame.Add(step).Add(reason);
  for (const auto& worker : workers_) {
    if (!worker->closed) Send(worker, frame.Finish());
  }
}

void FakeAgent::SendRaw(const std::string& bytes) {
  const std::lock_guard lock(mutex_);
  for (const auto& worker : workers_) {
    if (!worker->closed) Send(worker, bytes);
  }
}

void FakeAgent::CloseAll() {
  const std::lock_guard lock(mutex_);
  for (const auto& worker : workers_) {
    if (!worker->closed) shutdown(worker->descriptor, SHUT_RDWR);
  }
}

void FakeAgent::SetMute(bool mute) {
  const std::lock_guard lock(mutex_);
  mute_ = mute;
}

// ------------------------------------------------------------------------------- what came

bool FakeAgent::WaitUntil(const std::function<bool()>& condition, Duration timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, SteadyNow() + timeout, condition);
}

bool FakeAgent::WaitRegistered(std::size_t count, Duration timeout) {
  return WaitUntil(
      [&] {
        std::size_t registered = 0;
        for (const auto& worker : workers_) registered += worker->rank && !worker->closed ? 1U : 0U;
        return registered >= count;
      },
      timeout);
}

bool FakeAgent::WaitQuiesced(const std::set<std::uint32_t>& ranks, Duration timeout) {
  return WaitUntil(
      [&] {
        for (const std::uint32_t rank : ranks) {
          if (!quiesced_.contains(rank)) return false;
        }
        return true;
      },
      timeout);
}

bool FakeAgent::WaitProgress(std::uint32_t rank, std::int64_t step, Duration timeout) {
  return WaitUntil([&] { return steps_.contains(rank) && steps_[rank] >= step; }, timeout);
}

std::int64_t FakeAgent::last_step(std::uint32_t rank) {
  const std::lock_guard lock(mutex_);
  return steps_.contains(rank) ? steps_[rank] : -1;
}

std::int64_t FakeAgent::quiesced_step(std::uint32_t rank) {
  const std::lock_guard lock(mutex_);
  return quiesced_.contains(rank) ? quiesced_[rank] : -2;
}

int FakeAgent::quiesced_total() {
  const std::lock_guard lock(mutex_);
  return quiesced_total_;
}

std::vector<std::string> FakeAgent::broken_reasons() {
  const std::lock_guard lock(mutex_);
  return broken_;
}

std::vector<std::pair<local::RequestKind, std::string>> FakeAgent::requests() {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::uint32_t FakeAgent::flags(std::uint32_t rank) {
  const std::lock_guard lock(mutex_);
  for (const auto& worker : workers_) {
    if (worker->rank == rank && !worker->closed) return worker->flags;
  }
  return 0;
}

bool FakeAgent::WaitFirstStep(std::uint32_t round, Duration timeout) {
  return WaitUntil([&] { return first_steps_.contains(round); }, timeout);
}

TimePoint FakeAgent::first_step(std::uint32_t round) {
  const std::lock_guard lock(mutex_);
  return first_steps_.at(round);
}

std::size_t FakeAgent::connected() {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const auto& worker : workers_) count += worker->closed ? 0U : 1U;
  return count;
}

// ------------------------------------------------------------------------------- the server

void FakeAgent::Serve() {
  while (true) {
    std::vector<pollfd> polled{{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
    std::vector<std::shared_ptr<Worker>> order;
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      for (const auto& worker : workers_) {
        if (worker->closed) continue;
        const short events = worker->output.empty() ? POLLIN : POLLIN | POLLOUT;
        polled.push_back({worker->descriptor, events, 0});
        order.push_back(worker);
      }
    }
    poll(polled.data(), polled.size(), 5);
    const std::lock_guard lock(mutex_);
    if (polled[0].revents != 0) Accept();
    if (polled[1].revents != 0) {
      std::uint64_t count = 0;
      if (read(wake_, &count, sizeof(count)) < 0 && errno != EAGAIN) return;
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      if ((polled[i + 2].revents & POLLOUT) != 0) Flush(order[i]);
      if ((polled[i + 2].revents & (POLLIN | POLLHUP | POLLERR)) != 0) ReadFrom(order[i]);
    }
    AnswerWaiters();
    changed_.notify_all();
  }
}

void FakeAgent::Accept() {
  const int descriptor = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (descriptor < 0) return;
  auto worker = std::make_shared<Worker>();
  worker->descriptor = descriptor;
  workers_.push_back(std::move(worker));
}

void FakeAgent::ReadFrom(const std::shared_ptr<Worker>& worker) {
  char bytes[65536];
  while (true) {
    const ssize_t count = recv(worker->descriptor, bytes, sizeof(bytes), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (count <= 0) {
      close(worker->descriptor);
      worker->closed = true;
      return;
    }
    worker->input.append(bytes, static_cast<std::size_t>(count));
  }
  while (worker->input.size() >= local::kHeaderBytes) {
    const local::FrameHeader header = local::ReadHeader(worker->input);
    MUSTER_CHECK(header.version == local::kVersion, "a worker's version");
    if (worker->input.size() < local::kHeaderBytes + header.length) break;
    const std::string payload = worker->input.substr(local::kHeaderBytes, header.length);
    worker->input.erase(0, local::kHeaderBytes + header.length);
    Handle(worker, header.type, payload);
  }
}

void FakeAgent::Handle(const std::shared_ptr<Worker>& worker, local::FrameType type,
                       const std::string& payload) {
  local::FrameReader reader(payload);
  std::uint32_t attempt = 0, round = 0;
  const std::uint32_t rank = worker->rank.value_or(0);
  if (type == local::FrameType::kRegister) {
    MUSTER_CHECK(reader.Read(&worker->flags) && reader.Read(&worker->pid), "register");
    if (expected_.empty()) {
      std::uint32_t next = 0;
      for (const auto& other : workers_) next += other->rank && !other->closed ? 1U : 0U;
      worker->rank = next;
    } else if (const auto place = expected_.find(worker->pid); place != expected_.end()) {
      worker->rank = place->second;
    } else {
      return;  // until it is expected
    }
    if (running_) SendRound(worker);
  } else if (type == local::FrameType::kProgress) {
    local::Phase phase{};
    std::int64_t step = 0;
    MUSTER_CHECK(reader.Read(&phase) && reader.Read(&step), "progress");
    steps_[rank] = step;
    if (phase == local::Phase::kStep) first_steps_.emplace(round_, SteadyNow());
  } else if (type == local::FrameType::kQuiesced) {
    std::int64_t step = 0;
    MUSTER_CHECK(reader.Read(&attempt) && reader.Read(&round) && reader.Read(&step), "quiesced");
    if (round == round_) quiesced_[rank] = step;
    ++quiesced_total_;
  } else if (type == local::FrameType::kBroken) {
    std::string reason;
    MUSTER_CHECK(reader.Read(&attempt) && reader.Read(&round) && reader.Read(&reason), "broken");
    broken_.push_back(reason);
  } else if (type == local::FrameType::kBarrier) {
    HandleBarrier(worker, reader);
  } else if (type == local::FrameType::kRequest) {
    std::uint64_t id = 0;
    local::RequestKind kind{};
    std::string reason;
    MUSTER_CHECK(reader.Read(&id) && reader.Read(&kind) && reader.Read(&reason), "request");
    requests_.emplace_back(kind, reason);
    Answer(worker, id, 0, "", "", 0);
  } else {
    HandleKey(worker, type, reader);
  }
}

void FakeAgent::HandleKey(const std::shared_ptr<Worker>& worker, local::FrameType type,
                          local::FrameReader& reader) {
  std::uint64_t id = 0, timeout_ms = 0;
  std::int64_t delta = 0;
  local::KeyScope scope{};
  std::string key, value;
  MUSTER_CHECK(reader.Read(&id) && reader.Read(&scope), "a key request");
  if (type == local::FrameType::kKeyWait) reader.Read(&timeout_ms);
  if (type == local::FrameType::kKeyAdd) reader.Read(&delta);
  MUSTER_CHECK(reader.Read(&key), "a key");
  auto& keys = scope == local::KeyScope::kRound ? round_keys_ : run_keys_;
  if (scope == local::KeyScope::kRound && !running_) {
    Answer(worker, id, Code(StatusCode::kFailedPrecondition), "no round runs", "", 0);
  } else if (type == local::FrameType::kKeySet) {
    MUSTER_CHECK(reader.Read(&value), "a value");
    const bool other = keys.contains(key) && keys[key] != value;
    if (!other) keys[key] = value;
    Answer(worker, id, other ? Code(StatusCode::kAlreadyExists) : 0, other ? "set" : "", "", 0);
  } else if (type == local::FrameType::kKeyGet) {
    const bool there = keys.contains(key);
    Answer(worker, id, there ? 0 : Code(StatusCode::kNotFound), there ? "" : "not set",
           there ? keys[key] : "", 0);
  } else if (type == local::FrameType::kKeyAdd) {
    const std::int64_t sum = (keys.contains(key) ? std::stoll(keys[key]) : 0) + delta;
    keys[key] = std::to_string(sum);
    Answer(worker, id, 0, "", "", sum);
  } else if (type == local::FrameType::kKeyWait) {
    waiters_.push_back(
        {worker, id, SteadyNow() + std::chrono::milliseconds(timeout_ms), scope, key, ""});
  } else {
    MUSTER_CHECK(false, "a frame type that this agent does not know");
  }
}

void FakeAgent::HandleBarrier(const std::shared_ptr<Worker>& worker, local::FrameReader& reader) {
  std::uint64_t id = 0, timeout_ms = 0;
  std::string name;
  MUSTER_CHECK(reader.Read(&id) && reader.Read(&timeout_ms) && reader.Read(&name), "barrier");
  waiters_.push_back({worker, id, SteadyNow() + std::chrono::milliseconds(timeout_ms),
                      local::KeyScope::kRound, "", name});
}

void FakeAgent::AnswerWaiters() {
  std::map<std::string, std::set<std::uint32_t>> arrived;
  for (const Waiter& waiter : waiters_) {
    const auto worker = waiter.worker.lock();
    if (worker && !waiter.barrier.empty()) arrived[waiter.barrier].insert(*worker->rank);
  }
  std::erase_if(waiters_, [&](const Waiter& waiter) {
    const auto worker = waiter.worker.lock();
    if (!worker || worker->closed) return true;
    if (waiter.scope == local::KeyScope::kRound && !running_) {
      Answer(worker, waiter.id, Code(StatusCode::kFailedPrecondition), "the round is over", "", 0);
      return true;
    }
    auto& keys = waiter.scope == local::KeyScope::kRound ? round_keys_ : run_keys_;
    if (!waiter.barrier.empty() ? arrived[waiter.barrier].size() == world_size_
                                : keys.contains(waiter.key)) {
      Answer(worker, waiter.id, 0, "", waiter.barrier.empty() ? keys[waiter.key] : "", 0);
      return true;
    }
    if (SteadyNow() < waiter.deadline) return false;
    Answer(worker, waiter.id, Code(StatusCode::kDeadlineExceeded), "not in time", "", 0);
    return true;
  });
}

void FakeAgent::Answer(const std::shared_ptr<Worker>& worker, std::uint64_t id, std::uint32_t code,
                       const std::string& message, const std::string& value, std::int64_t number) {
  if (mute_) return;
  local::FrameWriter frame(local::FrameType::kAnswer);
  frame.Add(id).Add(code).Add(message).Add(value).Add(number);
  Send(worker, frame.Finish());
}

void FakeAgent::SendRound(const std::shared_ptr<Worker>& worker) {
  local::RoundInfo info;
  info.round = round_;
  info.rank = *worker->rank;
  info.world_size = world_size_;
  info.local_rank = *worker->rank;
  info.local_world_size = world_size_;
  info.previous_world_size = round_ > 1 ? world_size_ : 0;
  info.restart_count = round_ - 1;
  info.master_port = 29500;
  info.master_address = "127.0.0.1";
  info.own_address = "127.0.0.1";
  info.cause = cause_;
  info.run_id = "test";
  local::FrameWriter frame(local::FrameType::kRound);
  info.Write(&frame);
  Send(worker, frame.Finish());
}

void FakeAgent::Send(const std::shared_ptr<Worker>& worker, const std::string& bytes) {
  worker->output += bytes;
  Flush(worker);
}

void FakeAgent::Flush(const std::shared_ptr<Worker>& worker) {
  while (!worker->output.empty() && !worker->closed) {
    const ssize_t sent = send(worker->descriptor, worker->output.data(), worker->output.size(),
                              MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return;
    worker->output.erase(0, static_cast<std::size_t>(sent));
  }
}

}  // namespace muster::test

#include "rendezvousd/core/keys.h"

#include "common/text.h"
#include "rendezvousd/core/limits.h"

namespace muster::core {
namespace {

using protocol::KeyAnswer;
using protocol::KeyOperation;
using protocol::KeyRequest;

// Long keys are the caller's own; their beginning is enough to find them.
std::string Shown(const std::string& key) {
  constexpr std::size_t kShown = 100;
  return key.size() <= kShown ? Quote(key) : Quote(key.substr(0, kShown) + "...");
}

std::string ScopeName(bool of_run) { return of_run ? "of the run" : "of the round"; }

KeyAnswer Failed(Status status) { return {.status = std::move(status), .value = {}, .number = 0}; }

Status CheckLimits(const KeyRequest& request) {
  if (request.key.empty()) return InvalidArgument("a key is empty");
  if (request.key.size() > limits::kKeyBytesMax) {
    return ResourceExhausted(Concat("key ", Shown(request.key), " has ", request.key.size(),
                                    " bytes; the limit is ", limits::kKeyBytesMax));
  }
  if (request.value.size() > limits::kValueBytesMax) {
    return ResourceExhausted(Concat("the value of key ", Shown(request.key), " has ",
                                    request.value.size(), " bytes; the limit is ",
                                    limits::kValueBytesMax, ": use a file"));
  }
  return OkStatus();
}

Status CheckFence(const KeyRequest& request, std::optional<protocol::Fence> running,
                  const protocol::Fence& newest) {
  if (request.of_run) {
    if (request.fence.attempt == newest.attempt) return OkStatus();
  } else if (running && request.fence == *running) {
    return OkStatus();
  }
  return FailedPrecondition(
      Concat("key ", Shown(request.key), " was asked for in ", ToString(request.fence), ", but ",
             running ? "the round that runs is " : "no round runs; newest is ", ToString(newest)));
}

}  // namespace

void Keys::Handle(Token token, const KeyRequest& request, std::optional<protocol::Fence> running,
                  const protocol::Fence& newest, AnswerMemory* memory, Effects* out) {
  const auto reply = [&](KeyAnswer answer) {
    out->emplace_back(ReplyKey{token, std::move(answer)});
  };
  const bool changes =
      request.operation == KeyOperation::kSet || request.operation == KeyOperation::kAdd;
  if (changes && memory != nullptr) {
    if (const Answer* known = memory->Find(request.id.number)) {
      return reply({.status = known->status, .value = {}, .number = known->number});
    }
  }
  if (Status status = CheckLimits(request); !status.ok()) return reply(Failed(std::move(status)));
  if (Status status = CheckFence(request, running, newest); !status.ok()) {
    return reply(Failed(std::move(status)));
  }
  if (changes) {
    KeyAnswer answer =
        request.operation == KeyOperation::kSet ? Set(request, out) : Add(request, out);
    if (memory != nullptr) memory->Remember(request.id.number, {answer.status, answer.number});
    return reply(std::move(answer));
  }
  const Values& values = values_[request.of_run ? 1 : 0];
  if (const auto found = values.find(request.key); found != values.end()) {
    return reply({.status = OkStatus(), .value = found->second, .number = 0});
  }
  if (request.operation == KeyOperation::kGet) {
    return reply(
        Failed(NotFound(Concat("no key ", Shown(request.key), " ", ScopeName(request.of_run)))));
  }
  if (waiters_.size() >= limits::kWaitersMax) {
    return reply(Failed(ResourceExhausted(
        Concat(limits::kWaitersMax, " callers wait for keys already; that is the limit"))));
  }
  std::pair<bool, std::string> place(request.of_run, request.key);
  waited_[place].insert(token);
  waiters_.emplace(token, std::move(place));
}

Status Keys::Store(bool of_run, const std::string& key, const std::string& value, Effects* out) {
  Values& values = values_[of_run ? 1 : 0];
  const auto found = values.find(key);
  const std::size_t old_bytes = found == values.end() ? 0 : found->second.size();
  if (found == values.end() && size() >= limits::kKeysMax) {
    return ResourceExhausted(
        Concat(limits::kKeysMax, " keys are there; that is the limit, no room for ", Shown(key)));
  }
  if (value_bytes_ - old_bytes + value.size() > limits::kValueBytesTotalMax) {
    return ResourceExhausted(Concat("all values together would pass the limit of ",
                                    limits::kValueBytesTotalMax, " bytes with key ", Shown(key)));
  }
  value_bytes_ += value.size() - old_bytes;
  values[key] = value;
  const auto waited = waited_.find({of_run, key});
  if (waited == waited_.end()) return OkStatus();
  for (const Token token : waited->second) {
    waiters_.erase(token);
    out->emplace_back(ReplyKey{token, {.status = OkStatus(), .value = value, .number = 0}});
  }
  waited_.erase(waited);
  return OkStatus();
}

KeyAnswer Keys::Set(const KeyRequest& request, Effects* out) {
  const Values& values = values_[request.of_run ? 1 : 0];
  const auto found = values.find(request.key);
  if (found == values.end()) {
    return Failed(Store(request.of_run, request.key, request.value, out));
  }
  if (found->second == request.value) return {};
  return Failed(AlreadyExists(Concat("key ", Shown(request.key), " ", ScopeName(request.of_run),
                                     " is set to another value of ", found->second.size(),
                                     " bytes; keys are set once")));
}

KeyAnswer Keys::Add(const KeyRequest& request, Effects* out) {
  const Values& values = values_[request.of_run ? 1 : 0];
  const auto found = values.find(request.key);
  std::int64_t number = 0;
  if (found != values.end()) {
    const Result<std::int64_t> parsed = ParseInteger<std::int64_t>("value", found->second);
    if (!parsed.ok()) {
      return Failed(InvalidArgument(
          Concat("key ", Shown(request.key), " holds no whole number of 64 bits to add to")));
    }
    number = *parsed;
  }
  if (__builtin_add_overflow(number, request.delta, &number)) {
    return Failed(InvalidArgument(
        Concat("key ", Shown(request.key), ": adding ", request.delta, " leaves 64 bits")));
  }
  if (Status status = Store(request.of_run, request.key, std::to_string(number), out);
      !status.ok()) {
    return Failed(std::move(status));
  }
  return {.status = OkStatus(), .value = {}, .number = number};
}

bool Keys::Expire(Token token, Effects* out) {
  const auto waiter = waiters_.find(token);
  if (waiter == waiters_.end()) return false;
  const auto& [of_run, key] = waiter->second;
  out->emplace_back(ReplyKey{
      token, Failed(DeadlineExceeded(Concat("nobody has set key ", Shown(key), " ",
                                            ScopeName(of_run), " before the caller's deadline")))});
  const auto waited = waited_.find(waiter->second);
  waited->second.erase(token);
  if (waited->second.empty()) waited_.erase(waited);
  waiters_.erase(waiter);
  return true;
}

void Keys::EndRound(const protocol::Fence& ended, Effects* out) {
  const protocol::Fence next{ended.attempt, ended.round + 1};
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    const auto& [token, place] = *it;
    if (place.first) {
      ++it;
      continue;
    }
    out->emplace_back(ReplyKey{
        token, Failed(FailedPrecondition(Concat("waited for key ", Shown(place.second), " in ",
                                                ToString(ended), ", which has ended; next is ",
                                                ToString(next))))});
    waited_.erase(place);
    it = waiters_.erase(it);
  }
  for (const auto& [key, value] : values_[0]) value_bytes_ -= value.size();
  values_[0].clear();
}

void Keys::ForgetCallers() {
  waiters_.clear();
  waited_.clear();
}

}  // namespace muster::core

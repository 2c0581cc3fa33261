#include "launcher/host/register.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "common/text.h"
#include "common/time.h"
#include "launcher/agent/process_tree.h"
#include "launcher/host/small_file.h"

namespace muster::host {
namespace {

using Json = nlohmann::ordered_json;

// The lock is held for some reads and one write; who holds it longer is stuck on a dead file
// system.
constexpr Duration kLockPatience = std::chrono::seconds(10);
constexpr Duration kLockPause = std::chrono::milliseconds(20);
// Some hundred bytes a start; a script that starts ten thousand runs has other trouble.
constexpr std::size_t kBookBytesMax = std::size_t{16} << 20U;

Json ToJson(const RegisterEntry& entry) {
  return {{"name", entry.name},       {"job", entry.job},
          {"restart", entry.restart}, {"attempt", entry.attempt},
          {"command", entry.command}, {"occurrence", entry.occurrence},
          {"nodes", entry.nodes},     {"host", entry.host},
          {"pid", entry.pid},         {"start_time", entry.start_time},
          {"ended", entry.ended}};
}

RegisterEntry FromJson(const Json& in) {
  RegisterEntry entry;
  in.at("name").get_to(entry.name);
  in.at("job").get_to(entry.job);
  in.at("restart").get_to(entry.restart);
  in.at("attempt").get_to(entry.attempt);
  in.at("command").get_to(entry.command);
  in.at("occurrence").get_to(entry.occurrence);
  in.at("nodes").get_to(entry.nodes);
  in.at("host").get_to(entry.host);
  in.at("pid").get_to(entry.pid);
  in.at("start_time").get_to(entry.start_time);
  in.at("ended").get_to(entry.ended);
  return entry;
}

std::string BookFile(const std::string& folder) { return folder + "/runs.json"; }

}  // namespace

Result<RegisterBook> RegisterBook::Read(std::string_view text) {
  RegisterBook book;
  if (Trim(text).empty()) return book;
  try {
    const Json json = Json::parse(text);
    for (const Json& entry : json.at("runs")) book.entries_.push_back(FromJson(entry));
  } catch (const Json::exception& error) {
    return Status(StatusCode::kDataLoss, Concat("not a list of runs: ", error.what()));
  }
  return book;
}

std::string RegisterBook::Text() const {
  Json runs = Json::array();
  for (const RegisterEntry& entry : entries_) runs.push_back(ToJson(entry));
  return Json{{"runs", std::move(runs)}}.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string RegisterBook::NewName() const {
  std::set<std::string_view> taken;
  for (const RegisterEntry& entry : entries_) taken.insert(entry.name);
  for (std::size_t number = 1;; ++number) {
    std::string name = Concat("run", number);
    if (!taken.contains(name)) return name;
  }
}

Result<RegisterEntry*> RegisterBook::Enter(const RunIdentity& identity, const Lives& lives) {
  RegisterEntry entry;
  entry.name = identity.name;
  entry.job = identity.job;
  entry.restart = identity.restart;
  entry.command = identity.command;
  entry.host = identity.host;
  entry.pid = identity.pid;
  entry.start_time = identity.start_time;
  const auto same_start = [&](const RegisterEntry& other) {
    return !identity.job.empty() && other.job == identity.job && other.restart == identity.restart;
  };
  for (const RegisterEntry& other : entries_) {
    if (same_start(other) && other.command == identity.command) ++entry.occurrence;
  }
  if (entry.name.empty() && !identity.job.empty()) {
    for (const RegisterEntry& other : entries_) {
      if (other.job == identity.job && other.command == identity.command &&
          other.occurrence == entry.occurrence && !same_start(other)) {
        entry.name = other.name;
      }
    }
  }
  if (entry.name.empty()) entry.name = NewName();
  entry.attempt = identity.restart;
  for (const RegisterEntry& other : entries_) {
    if (other.name != entry.name) continue;
    if (!other.ended && (other.job != identity.job || same_start(other) || identity.job.empty()) &&
        lives(other)) {
      return AlreadyExists(
          Concat("run ", other.name, other.job.empty() ? "" : Concat(" of job ", other.job),
                 " is running already (process ", other.pid, " on ", other.host,
                 "); wait for it, or give this run another --name or --state-dir"));
    }
    entry.attempt = std::max(entry.attempt, other.attempt + 1);
  }
  entries_.push_back(std::move(entry));
  return &entries_.back();
}

std::vector<Claim> RegisterBook::Claims(const RunIdentity& identity, const Lives& lives) const {
  std::vector<Claim> claims;
  if (identity.job.empty()) return claims;
  for (const RegisterEntry& entry : entries_) {
    if (entry.job != identity.job || entry.restart != identity.restart || entry.ended) continue;
    if (entry.pid == identity.pid && entry.host == identity.host) continue;
    if (entry.nodes.empty() || !lives(entry)) continue;
    claims.push_back({entry.name, entry.nodes});
  }
  return claims;
}

RegisterEntry* RegisterBook::Find(const std::string& name, std::uint32_t attempt) {
  const auto found = std::ranges::find_if(entries_, [&](const RegisterEntry& entry) {
    return entry.name == name && entry.attempt == attempt;
  });
  return found == entries_.end() ? nullptr : &*found;
}

Register::Register(std::string folder, agent::Descriptor lock, RegisterBook book)
    : folder_(std::move(folder)), lock_(std::move(lock)), book_(std::move(book)) {}

Result<RegisterBook> ReadBook(const std::string& folder) {
  Result<std::string> text = agent::ReadSmallFile(BookFile(folder), kBookBytesMax);
  if (!text.ok() && text.status().code() == StatusCode::kNotFound) text = std::string();
  if (!text.ok()) return text.status();
  Result<RegisterBook> book = RegisterBook::Read(*text);
  if (!book.ok()) {
    return book.status().With(
        Concat(BookFile(folder), " is damaged; move it away or give another --state-dir"));
  }
  return book;
}

Result<Register> Register::Open(const std::string& folder) {
  const std::string path = folder + "/runs.lock";
  agent::Descriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return FromErrno(errno, Concat("cannot open ", path));
  const TimePoint deadline = SteadyNow() + kLockPatience;
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return FromErrno(errno, Concat("cannot lock ", path,
                                     "; the state folder must be on a file "
                                     "system with locks"));
    }
    if (SteadyNow() > deadline) {
      return DeadlineExceeded(Concat(path, " was locked by another process for ",
                                     DescribeDuration(kLockPatience),
                                     "; is a `muster run` stuck on that folder?"));
    }
    std::this_thread::sleep_for(kLockPause);
  }
  MUSTER_ASSIGN_OR_RETURN(RegisterBook book, ReadBook(folder));
  return Register(folder, std::move(lock), std::move(book));
}

Status Register::Save() { return WriteWhole(BookFile(folder_), book_.Text()); }

bool EntryLives(const RegisterEntry& entry, const std::string& this_host) {
  if (entry.ended) return false;
  if (entry.host != this_host) return true;
  const auto process = agent::ReadProcess(entry.pid);
  return process && process->alive() && process->start_time == entry.start_time;
}

}  // namespace muster::host

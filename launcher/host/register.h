#pragma once

// The runs that a state folder has seen: which name a run gets, which attempt it is, and which
// nodes living runs of the same job have taken. One small file, changed under a lock.
//
// Names: a run without --name is the k-th start of its command in this start of the job; the same
// command started as the k-th in another start of the same job is the same run, whatever the order
// in which runs side by side reach the file. New names are run1, run2, ...
//
// RegisterBook is pure; Register holds the lock and the file. Used by the host and `muster status`.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/agent/files.h"
#include "launcher/host/plan.h"

namespace muster::host {

struct RegisterEntry {
  std::string name;
  std::string job;                 // "" without Slurm
  std::uint32_t restart = 0;       // Slurm's restart count
  std::uint32_t attempt = 0;       // of the run
  std::string command;             // hash of the command
  std::uint32_t occurrence = 0;    // among starts of this command in this start of the job
  std::vector<std::string> nodes;  // empty until the plan is made
  std::string host;
  int pid = 0;
  std::uint64_t start_time = 0;  // of that process, clock ticks after boot
  bool ended = false;
};

struct RunIdentity {
  std::string name;  // from --name, "" to get a number
  std::string job;
  std::uint32_t restart = 0;
  std::string command;
  std::string host;
  int pid = 0;
  std::uint64_t start_time = 0;
};

class RegisterBook {
 public:
  // The text of the file; the empty text is the empty book. DataLoss names what is wrong.
  static Result<RegisterBook> Read(std::string_view text);
  std::string Text() const;

  // A new entry for this start, with name, attempt and occurrence. AlreadyExists while a living
  // process runs the same name. The pointer is good until the next Enter.
  using Lives = std::function<bool(const RegisterEntry&)>;
  Result<RegisterEntry*> Enter(const RunIdentity& identity, const Lives& lives);
  // What other living runs of this start of the job hold.
  std::vector<Claim> Claims(const RunIdentity& identity, const Lives& lives) const;
  RegisterEntry* Find(const std::string& name, std::uint32_t attempt);
  const std::vector<RegisterEntry>& entries() const { return entries_; }

 private:
  std::string NewName() const;
  std::vector<RegisterEntry> entries_;
};

// What the file in `folder` holds now, without its lock: for looking only. No file is the empty
// book.
Result<RegisterBook> ReadBook(const std::string& folder);

// The file, locked from Open until the object ends.
class Register {
 public:
  // `folder` exists. Waits for the lock at most 10 s, then names the file.
  static Result<Register> Open(const std::string& folder);
  RegisterBook& book() { return book_; }
  Status Save();

 private:
  Register(std::string folder, agent::Descriptor lock, RegisterBook book);
  std::string folder_;
  agent::Descriptor lock_;
  RegisterBook book_;
};

// True if the entry's process runs on this machine; an entry of another machine counts as living
// until it says that it has ended.
bool EntryLives(const RegisterEntry& entry, const std::string& this_host);

}  // namespace muster::host

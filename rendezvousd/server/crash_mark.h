#pragma once

// Which journal record the machine is stepping, in a small file beside the journal, so that a
// daemon that dies at a record three times sets that record aside instead of dying for ever.
//
// The file is mapped: a mark costs one store, and the page outlives the process. Thread-compatible.

#include <cstdint>
#include <memory>
#include <string>

#include "common/status.h"

namespace muster::server {

// A record that killed this many daemons is set aside.
inline constexpr std::uint32_t kCrashesMax = 3;

class CrashMark {
 public:
  // Counts the crash that the last daemon left behind, if any.
  static Result<std::unique_ptr<CrashMark>> Open(const std::string& path);
  ~CrashMark();
  CrashMark(const CrashMark&) = delete;
  CrashMark& operator=(const CrashMark&) = delete;

  // ResourceExhausted when more records were set aside than the file can name.
  Status status() const;
  bool IsSetAside(std::uint64_t record) const;
  void Enter(std::uint64_t record);
  void Leave();

 private:
  struct Page;
  explicit CrashMark(Page* page) : page_(page) {}
  void CountCrash();
  Page* const page_;
};

}  // namespace muster::server

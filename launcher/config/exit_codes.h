#pragma once

// What the exit codes of `muster run` mean, and what a person does about each: one table for the
// manual page and for the pages in docs/user, which a test compares with it.
//
// Constant data. The numbers are those of proto/environment.h.

#include <span>
#include <string_view>

namespace muster::config {

struct ExitCode {
  std::string_view code;  // "64", or "other" for the workers' own
  std::string_view meaning;
  std::string_view advice;
};

std::span<const ExitCode> ExitCodes();

}  // namespace muster::config

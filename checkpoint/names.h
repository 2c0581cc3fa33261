#pragma once

// Names inside a checkpoint folder.
//
//   step-000000000042            an entry: complete and durable
//   .tmp-42-<tag>                an entry being written, or left by a writer that died
//   .trash-42-<tag>              an entry being removed
//
// A tag is eight hexadecimal digits of the run's digest and eight random ones: leftovers show whose
// they are. Pure, except for the randomness.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/status.h"

namespace muster::checkpoint {

// Twelve digits at least, so that most listings are in order by text too; ours are by number.
std::string EntryName(std::uint64_t step);
// Nothing unless EntryName gives `name` again.
std::optional<std::uint64_t> ParseEntryName(std::string_view name);

enum class LeftoverKind { kTemporary, kTrash };
struct Leftover {
  LeftoverKind kind = LeftoverKind::kTemporary;
  std::uint64_t step = 0;
  std::string run_tag;
};
// A new name of that kind. Unavailable: the system has no randomness.
Result<std::string> MakeLeftoverName(LeftoverKind kind, std::string_view run, std::uint64_t step);
std::optional<Leftover> ParseLeftoverName(std::string_view name);
// The eight digits for a run.
std::string RunTag(std::string_view run);

}  // namespace muster::checkpoint

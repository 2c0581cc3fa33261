#include "checkpoint/names.h"

#include <algorithm>
#include <span>

#include "checkpoint/digest.h"
#include "common/entropy.h"
#include "common/hex.h"
#include "common/text.h"

namespace muster::checkpoint {

namespace {

constexpr std::string_view kEntryPrefix = "step-";
constexpr std::string_view kTemporaryPrefix = ".tmp-";
constexpr std::string_view kTrashPrefix = ".trash-";
constexpr std::size_t kEntryDigits = 12;
constexpr std::size_t kRunTagDigits = 8;
constexpr std::size_t kRandomBytes = 4;
constexpr std::size_t kTagDigits = kRunTagDigits + 2 * kRandomBytes;

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

std::string EntryName(std::uint64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < kEntryDigits) digits.insert(0, kEntryDigits - digits.size(), '0');
  return Concat(kEntryPrefix, digits);
}

std::optional<std::uint64_t> ParseEntryName(std::string_view name) {
  if (!name.starts_with(kEntryPrefix)) return std::nullopt;
  const auto step = ParseInteger<std::uint64_t>("step", name.substr(kEntryPrefix.size()));
  if (!step.ok() || EntryName(*step) != name) return std::nullopt;
  return *step;
}

std::string RunTag(std::string_view run) {
  return DigestOf(std::as_bytes(std::span(run))).ToHex().substr(0, kRunTagDigits);
}

Result<std::string> MakeLeftoverName(LeftoverKind kind, std::string_view run, std::uint64_t step) {
  MUSTER_ASSIGN_OR_RETURN(const std::string random, RandomBytes(kRandomBytes));
  const std::string_view prefix =
      kind == LeftoverKind::kTemporary ? kTemporaryPrefix : kTrashPrefix;
  return Concat(prefix, step, "-", RunTag(run), HexEncode(random));
}

std::optional<Leftover> ParseLeftoverName(std::string_view name) {
  Leftover leftover;
  if (name.starts_with(kTemporaryPrefix)) {
    leftover.kind = LeftoverKind::kTemporary;
    name.remove_prefix(kTemporaryPrefix.size());
  } else if (name.starts_with(kTrashPrefix)) {
    leftover.kind = LeftoverKind::kTrash;
    name.remove_prefix(kTrashPrefix.size());
  } else {
    return std::nullopt;
  }
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto step = ParseInteger<std::uint64_t>("step", name.substr(0, dash));
  const std::string_view tag = name.substr(dash + 1);
  if (!step.ok() || tag.size() != kTagDigits || !IsHex(tag)) return std::nullopt;
  leftover.step = *step;
  leftover.run_tag = std::string(tag.substr(0, kRunTagDigits));
  return leftover;
}

}  // namespace muster::checkpoint

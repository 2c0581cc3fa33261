#pragma once

// A run's past from its events files: every event as it was written, and the rounds that they tell.
//
// Damaged lines, as the last one of a full disk, are counted and left out. Files in, values out;
// used by the reading commands.

#include <cstdint>
#include <string>
#include <vector>

namespace muster::cli {

struct Event {
  std::int64_t unix_ms = 0;
  std::string kind;  // rendezvousd/core/record_kinds.h
  std::uint32_t attempt = 0;
  std::uint32_t round = 0;
  std::string node;
  int rank = -1;
  std::string text;
  std::string line;  // as it stands in the file
};

struct History {
  std::vector<Event> events;  // attempt by attempt, each as the daemon wrote it
  std::vector<std::string> problems;
};

History ReadHistory(const std::string& run_folder);

struct Round {
  std::uint32_t attempt = 0;
  std::uint32_t round = 0;
  std::int64_t sealed_ms = 0;
  std::int64_t started_ms = 0;  // 0: it never started
  std::int64_t ended_ms = 0;    // 0: it has not ended, as far as is known
  std::string world;            // "4 ranks on 2 nodes"
  std::string end;              // why it ended: the daemon's sentence
  std::string node;             // who is to blame for it, where somebody is
  int rank = -1;
};
std::vector<Round> Rounds(const History& history);

// What was seen in a round of those who failed or were suspected, in order.
std::vector<Event> Evidence(const History& history, const Round& round);

// "2026-12-01 03:42:38", in the reader's time zone; with milliseconds if asked for.
std::string LocalTime(std::int64_t unix_ms, bool milliseconds = false);
// Control bytes as \xNN, so that a worker's text cannot steer a terminal; cut after `limit` bytes.
std::string Printable(std::string_view text, std::size_t limit = 4096);

}  // namespace muster::cli

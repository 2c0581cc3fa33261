#pragma once

// A folder of its own for each test, and small entries to put into it.

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoint/folder.h"
#include "checkpoint/writer.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/checkpoint/faulty_disk.h"

namespace muster::checkpoint {

using testing::TemporaryFolder;

// SystemFiles without waiting for the disk: these tests cannot tell the difference.
inline FileOperations& TestFiles() {
  static FaultyDisk disk(Fault::kNone, 0);
  return disk;
}

inline std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline void WriteText(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  EXPECT_TRUE(out.good()) << path;
}

inline void FlipByte(const std::string& path, std::size_t place) {
  std::string text = ReadText(path);
  ASSERT_LT(place, text.size());
  text[place] = static_cast<char>(text[place] ^ 1);
  WriteText(path, text);
}

// Element i of a tensor in an entry of step s is 1000 s + i: mixed-up steps show.
inline std::vector<float> TestValues(std::uint64_t step, std::uint64_t first, std::uint64_t count) {
  std::vector<float> values(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(1000 * step + first + i);
  }
  return values;
}

// One tensor "w" [10, 7] cut into `world` shards, and "b" [] in the first.
struct TestEntry {
  std::vector<std::vector<float>> values;
  float scalar = 0;
  std::vector<ShardSource> shards;
  Manifest manifest;
};

inline TestEntry MakeTestEntry(std::string run, std::uint64_t step, std::uint64_t world) {
  TestEntry entry;
  entry.scalar = static_cast<float>(step);
  entry.manifest.run = std::move(run);
  entry.manifest.step = step;
  entry.manifest.world_size = world;
  entry.manifest.scalars = {{"loss", 0.25}, {"seed", std::uint64_t{7}}, {"note", "a text"}};
  entry.values.reserve(world);
  for (std::uint64_t rank = 0; rank < world; ++rank) {
    const std::uint64_t first = 70 * rank / world, last = 70 * (rank + 1) / world;
    entry.values.push_back(TestValues(step, first, last - first));
    ShardSource shard{"rank-" + std::to_string(rank), {}};
    shard.tensors.push_back({{"w", ElementType::kFloat32, {10, 7}, first, last - first, 0},
                             std::as_bytes(std::span<const float>(entry.values.back()))});
    entry.shards.push_back(std::move(shard));
  }
  return entry;
}

inline Result<std::string> WriteTestEntry(FileOperations& files, const std::string& folder,
                                          std::string run, std::uint64_t step,
                                          std::uint64_t world = 2) {
  TestEntry entry = MakeTestEntry(std::move(run), step, world);
  entry.shards[0].tensors.push_back({{"b", ElementType::kFloat32, {}, 0, 1, 0},
                                     std::as_bytes(std::span<const float>(&entry.scalar, 1))});
  return WriteEntry(files, folder, entry.manifest, entry.shards);
}

inline std::vector<EntryReference> Entries(const std::string& folder) {
  auto entries = ListEntries(folder);
  EXPECT_TRUE(entries.ok()) << entries.status().ToString();
  return std::move(entries).value_or({});
}

inline std::vector<std::uint64_t> Steps(const std::string& folder) {
  std::vector<std::uint64_t> steps;
  for (const EntryReference& entry : Entries(folder)) steps.push_back(entry.step);
  return steps;
}

}  // namespace muster::checkpoint

#pragma once

// Folders, tables and states for the tests of this area.

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "trainer_runtime/models/counter_random.h"
#include "trainer_runtime/models/tensor_table.h"
#include "trainer_runtime/train/training_state.h"

namespace muster::training {

using testing::TemporaryFolder;

// A file of that many bytes in the folder; byte i is i * 7 + start.
inline std::string WriteBytes(const TemporaryFolder& folder, const std::string& name,
                              std::size_t bytes, unsigned start) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 7 + start);
  const std::string file = folder.path() + "/" + name;
  std::ofstream(file, std::ios::binary) << text;
  return file;
}

inline models::TensorTable MakeTable() {
  models::TensorTable table;
  table.Add("embedding", {10, 6});
  table.Add("norm.weight", {6});
  table.Add("norm.bias", {6});
  table.Add("layer.weight", {6, 6});
  table.Add("layer.bias", {6});
  return table;
}

// Arrays with values all their own.
struct OwnedState {
  explicit OwnedState(std::size_t first, std::size_t count, std::size_t total, std::uint64_t seed)
      : values(3 * count) {
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t array = 0; array < 3; ++array) {
        values[array * count + i] =
            static_cast<float>(models::RandomNormal(seed, array * total + first + i));
      }
    }
    const std::span<float> all(values);
    arrays = {first, total, all.first(count), all.subspan(count, count), all.last(count)};
  }
  OwnedState(const OwnedState&) = delete;
  OwnedState& operator=(const OwnedState&) = delete;

  std::vector<float> values;
  TrainingArrays arrays;
};

inline TrainingProgress MakeProgress(const models::TensorTable& table) {
  TrainingProgress progress;
  progress.step = 42;
  progress.updates = 41;
  progress.cursor = {~std::uint64_t{0} - 3, 12345};
  progress.global_batch = 24;
  progress.schedule = {3e-4, 1e-5, 100, 10'000};
  progress.optimizer = {0.9, 0.95, 1e-8, 0.1};
  progress.model = ModelFingerprint(table.tensors());
  progress.corpus.bytes[5] = 7;
  return progress;
}

}  // namespace muster::training

#pragma once

// What muster-train is told: one plain value, from the command line, a JSON file and defaults.
//
// Order: default < --config file < command line. The JSON has DeepSpeed's names where it means the
// same thing. CLI11 is seen by options.cc alone.

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/time.h"

namespace muster::train_program {

struct Options {
  std::vector<std::string> data;  // files; their bytes one after the other are the corpus
  std::string model = "tiny";
  std::string backend = "gloo";
  std::string nccl_library;  // folder of libnccl.so.2; empty: the loader's path

  std::uint64_t steps = 100;
  std::uint64_t batch = 16;  // sequences a step, over all ranks
  std::uint64_t seed = 1;
  double learning_rate = 3e-3;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1.0;  // 0: no clipping
  std::uint64_t warmup_steps = 20;
  std::uint64_t bucket_bytes = std::uint64_t{4} << 20U;

  std::string checkpoint_dir;           // default MUSTER_CHECKPOINT_DIR, else ./checkpoints
  std::uint64_t checkpoint_every = 50;  // 0: at the end alone
  std::uint64_t checkpoints_kept = 2;

  std::uint64_t log_every = 10;
  std::string json_lines;  // events for machines; empty: none
  bool print_digest = false;
  Duration step_time_min{};  // a step takes this long at least: for demonstrations and tests
  Duration collective_timeout = std::chrono::minutes(5);
};

// The command line's outcome: options, or that the program should end now (help, version, usage).
struct Parsed {
  Options options;
  bool ends = false;
  int exit_code = 0;
};
// Prints help and usage errors itself.
Parsed ParseCommandLine(int argc, const char* const* argv);

// Sets what `json` names and leaves the rest. InvalidArgument names every unknown key, and values
// of the wrong kind.
Status ApplyConfig(const std::string& json, Options* options);

// InvalidArgument naming the option: sizes that cannot be.
Status Validate(const Options& options);

// Everything that decides the bits of the weights, in one line: equal on all ranks of a world.
std::string Recipe(const Options& options);

}  // namespace muster::train_program

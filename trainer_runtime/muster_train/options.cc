#include "trainer_runtime/muster_train/options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "common/text.h"
#include "proto/environment.h"

namespace muster::train_program {
namespace {

constexpr char kDescription[] =
    "Trains a reference model, data-parallel, and stays alive while its world re-forms.\n"
    "Start it with: muster run -- muster-train --data FILE...";

void AddOptions(CLI::App& app, Options& o, std::string& config, std::string& step_time,
                std::string& timeout) {
  app.add_option("--data", o.data, "Files whose bytes are the corpus")->required();
  // A wrapper's options come first, the user's behind them win.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--config", config, "JSON file with DeepSpeed's names; options win over it");
  app.add_option("--model", o.model, "Preset: tiny, small, medium, large, gpt2, ...");
  app.add_option("--backend", o.backend, "Collectives: gloo (CPU) or nccl (GPU)");
  app.add_option("--nccl-library", o.nccl_library,
                 "libnccl.so.2 or its folder; CUDA is sought there too");
  app.add_option("--steps", o.steps, "Steps of the whole training");
  app.add_option("--batch", o.batch, "Sequences a step, over all ranks");
  app.add_option("--seed", o.seed, "Of the weights and the order of the data");
  app.add_option("--learning-rate", o.learning_rate, "AdamW's");
  app.add_option("--warmup-steps", o.warmup_steps, "Steps of linear growth to it");
  app.add_option("--weight-decay", o.weight_decay, "Of matrices");
  app.add_option("--clip-norm", o.clip_norm, "Longest gradient; 0: any");
  app.add_option("--bucket-bytes", o.bucket_bytes, "Gradients reduced at a time");
  app.add_option("--checkpoint-dir", o.checkpoint_dir,
                 "Default MUSTER_CHECKPOINT_DIR, else ./checkpoints");
  app.add_option("--checkpoint-every", o.checkpoint_every, "Steps; 0: at the end alone");
  app.add_option("--checkpoints-kept", o.checkpoints_kept, "Newest entries that stay");
  app.add_option("--log-every", o.log_every, "Steps between two printed lines");
  app.add_option("--json-lines,--progress", o.json_lines, "File for events, one JSON a line");
  app.add_flag("--print-digest", o.print_digest, "Prints the digest of the weights at the end");
  app.add_option("--step-time-min", step_time, "Milliseconds (or 1s, 250ms) a step takes at least");
  app.add_option("--collective-timeout", timeout, "How long a peer may be silent in a collective");
}

std::string ReadFile(const std::string& path, Status* status) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) *status = NotFound(Concat("cannot read --config ", Quote(path)));
  return text.str();
}

// A bare number is milliseconds here.
Status ParseStepTime(const std::string& text, Duration* duration) {
  const bool bare = !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
  MUSTER_ASSIGN_OR_RETURN(*duration, ParseDuration(bare ? text + "ms" : text));
  return OkStatus();
}

Status Parse(int argc, const char* const* argv, Parsed* parsed) {
  std::string config, step_time, timeout;
  // Twice: the file must come between the defaults and what was typed.
  for (const bool typed_only : {true, false}) {
    CLI::App app(kDescription, "muster-train");
    AddOptions(app, parsed->options, config, step_time, timeout);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      parsed->ends = true;
      parsed->exit_code =
          app.exit(error, std::cout, std::cerr) == 0 ? exit_code::kDone : exit_code::kUsage;
      return OkStatus();
    }
    if (config.empty()) break;
    if (typed_only) {
      parsed->options = Options{};
      Status status;
      const std::string json = ReadFile(config, &status);
      MUSTER_RETURN_IF_ERROR(status);
      MUSTER_RETURN_IF_ERROR(ApplyConfig(json, &parsed->options).With(config));
    }
  }
  Options& options = parsed->options;
  if (!step_time.empty()) {
    MUSTER_RETURN_IF_ERROR(
        ParseStepTime(step_time, &options.step_time_min).With("--step-time-min"));
  }
  if (!timeout.empty()) {
    MUSTER_ASSIGN_OR_RETURN(options.collective_timeout, ParseDuration(timeout));
  }
  if (options.checkpoint_dir.empty()) {
    const char* folder = std::getenv(environment::kCheckpointDir);
    options.checkpoint_dir = folder != nullptr && *folder != '\0' ? folder : "checkpoints";
  }
  return Validate(options);
}

}  // namespace

Parsed ParseCommandLine(int argc, const char* const* argv) {
  Parsed parsed;
  const Status status = Parse(argc, argv, &parsed);
  if (!status.ok()) {
    std::cerr << "muster-train: " << status.message() << "\n";
    parsed.ends = true;
    parsed.exit_code = exit_code::kUsage;
  }
  return parsed;
}

Status Validate(const Options& options) {
  const auto positive = [](const char* name, std::uint64_t value) -> Status {
    return value > 0 ? OkStatus() : InvalidArgument(Concat(name, " is 0; it must be 1 at least"));
  };
  if (options.data.empty()) return InvalidArgument("--data names no file");
  MUSTER_RETURN_IF_ERROR(positive("--steps", options.steps));
  MUSTER_RETURN_IF_ERROR(positive("--batch", options.batch));
  MUSTER_RETURN_IF_ERROR(positive("--bucket-bytes", options.bucket_bytes));
  MUSTER_RETURN_IF_ERROR(positive("--log-every", options.log_every));
  MUSTER_RETURN_IF_ERROR(positive("--checkpoints-kept", options.checkpoints_kept));
  if (options.backend != "gloo" && options.backend != "nccl") {
    return InvalidArgument(
        Concat("--backend is ", Quote(options.backend), "; known are gloo and nccl"));
  }
  if (!(options.learning_rate > 0) || !(options.epsilon > 0) || !(options.clip_norm >= 0) ||
      !(options.weight_decay >= 0) || !(options.beta1 >= 0 && options.beta1 < 1) ||
      !(options.beta2 >= 0 && options.beta2 < 1)) {
    return InvalidArgument(
        "the optimizer's numbers: learning rate and epsilon above 0, betas in [0, 1), weight decay "
        "and clip norm not below 0");
  }
  return OkStatus();
}

std::string Recipe(const Options& o) {
  std::ostringstream text;
  text << std::hexfloat << "model " << o.model << " steps " << o.steps << " batch " << o.batch
       << " seed " << o.seed << " rate " << o.learning_rate << " betas " << o.beta1 << " "
       << o.beta2 << " epsilon " << o.epsilon << " decay " << o.weight_decay << " clip "
       << o.clip_norm << " warmup " << o.warmup_steps << " bucket " << o.bucket_bytes << " backend "
       << o.backend;
  return text.str();
}

}  // namespace muster::train_program

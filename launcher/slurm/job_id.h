#pragma once

// How Slurm names a job. Pure values.

#include <cstdint>
#include <optional>
#include <string>

namespace muster::slurm {

struct JobId {
  std::uint32_t id = 0;  // of this very job or array task
  std::optional<std::uint32_t> array_job = {};
  std::optional<std::uint32_t> array_task = {};

  // What scontrol and scancel take: "12", or "12_3" for an array task, whose own number would mean
  // the whole array when it is the last task.
  std::string Name() const;

  friend bool operator==(const JobId&, const JobId&) = default;
};

}  // namespace muster::slurm

#pragma once

// The settings of one run as typed values, each already checked by itself; what they contradict is
// said by the plan (launcher/host/plan.h). Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/time.h"
#include "launcher/config/settings.h"
#include "launcher/config/value.h"

namespace muster::config {

struct RunOptions {
  std::optional<NodeRange> nodes;
  int spares = 0;
  std::optional<int> workers_per_node;
  std::string name;
  std::string state_dir;
  std::string local_dir;
  std::string checkpoint_dir;
  std::string log_dir;
  Duration lease{};
  Duration form_timeout{};
  Duration wait_node{};
  Duration last_call{};
  Duration stop_grace{};
  std::vector<std::string> srun;
  std::vector<std::string> environment;  // NAME or NAME=VALUE
  std::vector<std::string> keep_environment;
  std::string hosts;
  std::optional<LocalShape> local;
  bool again = false;
  bool no_requeue = false;
  std::uint32_t show_all_up_to = 0;
};

RunOptions ToRunOptions(const Settings& settings);

}  // namespace muster::config

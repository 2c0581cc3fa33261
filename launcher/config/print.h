#pragma once

// What `muster config` prints. Pure.

#include <string>

#include "launcher/config/settings.h"

namespace muster::config {

// One line a setting: name, value, source.
std::string SettingsText(const Settings& settings);
std::string SettingsJson(const Settings& settings);
// A commented configuration file with every default and its reason.
std::string DefaultsFile();

}  // namespace muster::config

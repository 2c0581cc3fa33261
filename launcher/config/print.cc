#include "launcher/config/print.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "common/text.h"

namespace muster::config {

std::string SettingsText(const Settings& settings) {
  std::string out;
  for (const Option& option : AllOptions()) {
    if (!option.configurable) continue;
    std::string line(option.name);
    line.resize(18, ' ');
    const Setting* setting = settings.Get(option.name);
    if (setting == nullptr) {
      line += Concat("(", option.kind == Kind::kFlag ? "no" : option.reason, ")");
    } else {
      line += Join(setting->values, " | ");
      if (line.size() < 40) line.resize(40, ' ');
      line += Concat("  ", setting->where);
    }
    out += line + "\n";
  }
  return out;
}

std::string SettingsJson(const Settings& settings) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const Option& option : AllOptions()) {
    if (!option.configurable) continue;
    nlohmann::ordered_json entry = {{"value", nullptr}, {"source", "built-in"}};
    if (const Setting* setting = settings.Get(option.name)) {
      if (Repeatable(option)) {
        entry["value"] = setting->values;
      } else {
        entry["value"] = setting->values.front();
      }
      entry["source"] = ToString(setting->source);
      entry["where"] = setting->where;
    }
    all[std::string(option.name)] = std::move(entry);
  }
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string DefaultsFile() {
  std::string out =
      "# muster.conf: name = value, one a line. Read from /etc/muster/, from ~/.config/muster/ "
      "and\n"
      "# from the folder of submission, each above the one before; MUSTER_* and options are above\n"
      "# them all. Lines of a list may be repeated. Remove the '#' to set a value.\n";
  for (const Option& option : AllOptions()) {
    if (!option.configurable) continue;
    out += Concat("\n# ", option.help, "\n");
    if (!option.reason.empty()) out += Concat("# Why: ", option.reason, ".\n");
    std::string_view value = option.default_value;
    if (value.empty()) value = option.kind == Kind::kFlag ? "no" : option.value_name;
    out += Concat("#", option.name, " = ", value, "\n");
  }
  return out;
}

}  // namespace muster::config

#include "launcher/config/settings.h"

#include <utility>

#include "common/check.h"
#include "common/text.h"

namespace muster::config {
namespace {

Status Wrong(const Option& option, std::string_view value, const std::string& where,
             const std::string& right) {
  const std::string from = where == Concat("--", option.name) ? "" : Concat(" (from ", where, ")");
  return InvalidArgument(Concat("--", option.name, " cannot be ", Quote(value), from, ": ", right));
}

bool Above(const Option& option, std::string_view value, std::string_view limit) {
  if (option.kind == Kind::kTime) {
    return ParseDuration(value).value() > ParseDuration(limit).value();
  }
  if (option.kind == Kind::kNodes) {
    return ParseNodeRange(value)->max > ParseNodeRange(limit)->max;
  }
  return ParseInteger<int>("value", value).value() > ParseInteger<int>("limit", limit).value();
}

bool CanBeLimited(const Option& option) {
  return option.kind == Kind::kCount || option.kind == Kind::kTime || option.kind == Kind::kNodes;
}

}  // namespace

std::string_view ToString(Source source) {
  switch (source) {
    case Source::kBuiltIn:
      return "built-in";
    case Source::kSiteFile:
      return "site file";
    case Source::kUserFile:
      return "user file";
    case Source::kFolderFile:
      return "folder file";
    case Source::kEnvironment:
      return "environment";
    case Source::kCommandLine:
      return "command line";
  }
  return "";
}

Settings::Settings() {
  for (const Option& option : AllOptions()) {
    if (option.default_value.empty()) continue;
    settings_[std::string(option.name)] = {
        {std::string(option.default_value)}, Source::kBuiltIn, "built-in"};
  }
}

Status Settings::Set(const Option& option, std::string_view value, Source source,
                     std::string where) {
  const Status right = CheckValue(option, value);
  if (!right.ok()) return Wrong(option, value, where, right.message());
  MUSTER_RETURN_IF_ERROR(CheckLimit(option, value, where));
  std::string stored(value);
  if (option.kind == Kind::kFlag) stored = ParseFlag(value).value() ? "yes" : "no";
  Setting& setting = settings_[std::string(option.name)];
  if (Repeatable(option) && setting.source == source && !setting.values.empty()) {
    setting.values.push_back(std::move(stored));
    return OkStatus();
  }
  setting = {{std::move(stored)}, source, std::move(where)};
  return OkStatus();
}

Status Settings::SetLimit(const Option& option, std::string_view value, std::string where) {
  if (!CanBeLimited(option)) {
    return InvalidArgument(
        Concat(where, ": [limit] knows numbers and times only, not ", option.name));
  }
  const Status right = CheckValue(option, value);
  if (!right.ok()) return Wrong(option, value, where, right.message());
  limits_[std::string(option.name)] = {std::string(value), std::move(where)};
  return OkStatus();
}

Status Settings::CheckLimit(const Option& option, std::string_view value,
                            const std::string& where) const {
  const auto limit = limits_.find(option.name);
  if (limit == limits_.end() || !Above(option, value, limit->second.value)) return OkStatus();
  return ResourceExhausted(Concat("--", option.name, " is ", Quote(value), " (from ", where,
                                  "), but this site allows at most ", limit->second.value, " (",
                                  limit->second.where, "); give less or ask the administrator"));
}

const Setting* Settings::Get(std::string_view name) const {
  const auto found = settings_.find(name);
  return found == settings_.end() ? nullptr : &found->second;
}

bool Settings::Given(std::string_view name) const {
  const Setting* setting = Get(name);
  return setting != nullptr && setting->source != Source::kBuiltIn;
}

int Settings::Count(std::string_view name) const {
  return ParseInteger<int>(name, Text(name)).value();
}
Duration Settings::Time(std::string_view name) const { return ParseDuration(Text(name)).value(); }

std::string Settings::Text(std::string_view name) const {
  const Setting* setting = Get(name);
  return setting == nullptr ? "" : setting->values.front();
}
bool Settings::Flag(std::string_view name) const { return Text(name) == "yes"; }

std::vector<std::string> Settings::List(std::string_view name) const {
  const Setting* setting = Get(name);
  return setting == nullptr ? std::vector<std::string>() : setting->values;
}

}  // namespace muster::config

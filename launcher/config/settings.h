#pragma once

// Every option's value and where it came from: built-in < site file < user file < muster.conf in
// the folder of submission < MUSTER_* < command line. A higher source replaces a lower one, lists
// as a whole.
//
// Plain values; Set is the only way in and checks. Made by config/sources.h.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "common/time.h"
#include "launcher/config/option_table.h"
#include "launcher/config/value.h"

namespace muster::config {

enum class Source { kBuiltIn, kSiteFile, kUserFile, kFolderFile, kEnvironment, kCommandLine };
std::string_view ToString(Source source);

struct Setting {
  std::vector<std::string> values;  // one, or those of a list; a flag has "yes" or "no"
  Source source = Source::kBuiltIn;
  std::string where;  // "built-in", "/etc/muster/muster.conf:3", "MUSTER_LEASE", "--lease"
};

class Settings {
 public:
  // All built-in values.
  Settings();

  // The value of one source. A list grows while the source stays the same. InvalidArgument names
  // option, value, source and what is right; ResourceExhausted a limit of the site.
  Status Set(const Option& option, std::string_view value, Source source, std::string where);
  // `limit NAME VALUE` of the site's file: a count or a time above it is refused from then on.
  Status SetLimit(const Option& option, std::string_view value, std::string where);

  // nullptr where nothing is set.
  const Setting* Get(std::string_view name) const;
  bool Given(std::string_view name) const;  // by anything but the built-in table

  // REQUIRES the kind asked for and a value that is set.
  int Count(std::string_view name) const;
  Duration Time(std::string_view name) const;
  // The text, "" if not set.
  std::string Text(std::string_view name) const;
  bool Flag(std::string_view name) const;
  std::vector<std::string> List(std::string_view name) const;

 private:
  struct Limit {
    std::string value;
    std::string where;
  };
  Status CheckLimit(const Option& option, std::string_view value, const std::string& where) const;

  std::map<std::string, Setting, std::less<>> settings_;
  std::map<std::string, Limit, std::less<>> limits_;
};

}  // namespace muster::config

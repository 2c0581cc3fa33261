#pragma once

// Reads the sources of settings below the command line: configuration files and MUSTER_*.
//
// A file has lines `name = value`, comments with '#', and in the site's file a section [limit]
// whose values cannot be exceeded by anybody below it. A list's line may be repeated. The text
// functions are pure (any bytes may come in); LoadSettings reads files.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/config/settings.h"

namespace muster::config {

using Environment = std::map<std::string, std::string, std::less<>>;

// A configuration file is read by people; a bigger one is something else.
inline constexpr std::size_t kFileBytesMax = 1u << 20U;
inline constexpr char kSiteFile[] = "/etc/muster/muster.conf";
inline constexpr char kFileName[] = "muster.conf";

struct Files {
  std::string site = kSiteFile;
  std::string user;    // "" : none
  std::string folder;  // "" : none
};
// User and folder file by HOME, XDG_CONFIG_HOME and SLURM_SUBMIT_DIR; `folder` is the current one.
Files UsualFiles(const Environment& environment, std::string_view folder);

// `file` names it in errors.
Status ApplyFile(std::string_view text, std::string_view file, Source source, Settings* settings);
// Twins of options; a list has its values on lines of their own.
Status ApplyEnvironment(const Environment& environment, Settings* settings);

// Built-in values, files that are there, environment. The command line comes on top.
Result<Settings> LoadSettings(const Files& files, const Environment& environment);

// This process's environment.
Environment CurrentEnvironment();

}  // namespace muster::config

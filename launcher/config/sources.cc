#include "launcher/config/sources.h"

#include <cerrno>
#include <fstream>
#include <iterator>

#include "common/text.h"

// NOLINTNEXTLINE(readability-redundant-declaration)
extern "C" char** environ;

namespace muster::config {
namespace {

// The text of a file; the empty text if it is not there.
Result<std::string> ReadFile(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    if (errno == ENOENT || errno == ENOTDIR) return std::string();
    return FromErrno(errno, Concat("cannot read the configuration file ", path));
  }
  std::string text;
  char block[4096];
  while (in.read(block, sizeof block) || in.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(in.gcount()));
    if (text.size() > kFileBytesMax) {
      return InvalidArgument(Concat("the configuration file ", path, " has more than ",
                                    kFileBytesMax, " bytes; it should have some lines"));
    }
  }
  return text;
}

Status ApplyLine(std::string_view line, const std::string& where, Source source, bool limit,
                 Settings* settings) {
  const std::size_t equal = line.find('=');
  if (equal == std::string_view::npos) {
    return InvalidArgument(
        Concat(where, ": ", Quote(line), " is not a setting; write name = value"));
  }
  const std::string_view name = Trim(line.substr(0, equal));
  const std::string_view value = Trim(line.substr(equal + 1));
  const Option* option = FindOption(name);
  if (option == nullptr || !option->configurable) {
    const std::string nearest = NearestOption(name, kRun | kSubmit | kPlan);
    return InvalidArgument(Concat(where, ": ", Quote(name), " is no setting",
                                  nearest.empty()
                                      ? "; `muster config --defaults` lists them"
                                      : Concat("; did you mean ", Quote(nearest), "?")));
  }
  return limit ? settings->SetLimit(*option, value, where)
               : settings->Set(*option, value, source, where);
}

}  // namespace

Files UsualFiles(const Environment& environment, std::string_view folder) {
  const auto value = [&](std::string_view name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  Files files;
  const std::string base = value("XDG_CONFIG_HOME");
  const std::string home = value("HOME");
  if (!base.empty()) {
    files.user = Concat(base, "/muster/", kFileName);
  } else if (!home.empty()) {
    files.user = Concat(home, "/.config/muster/", kFileName);
  }
  const std::string submit = value("SLURM_SUBMIT_DIR");
  files.folder = Concat(submit.empty() ? folder : std::string_view(submit), "/", kFileName);
  return files;
}

Status ApplyFile(std::string_view text, std::string_view file, Source source, Settings* settings) {
  bool limit = false;
  int number = 0;
  for (const std::string_view raw : Split(text, '\n')) {
    ++number;
    const std::string_view line = Trim(raw);
    if (line.empty() || line[0] == '#') continue;
    const std::string where = Concat(file, ":", number);
    if (line[0] == '[') {
      if (line != "[limit]" || source != Source::kSiteFile) {
        return InvalidArgument(Concat(where, ": ", Quote(line),
                                      " is no section here; only the site's file has one, "
                                      "[limit]"));
      }
      limit = true;
      continue;
    }
    MUSTER_RETURN_IF_ERROR(ApplyLine(line, where, source, limit, settings));
  }
  return OkStatus();
}

Status ApplyEnvironment(const Environment& environment, Settings* settings) {
  for (const Option& option : AllOptions()) {
    if (!option.configurable) continue;
    const std::string name = EnvironmentTwin(option);
    const auto found = environment.find(name);
    // An empty variable is how shells unset one for a single command.
    if (found == environment.end() || found->second.empty()) continue;
    if (!Repeatable(option)) {
      MUSTER_RETURN_IF_ERROR(settings->Set(option, found->second, Source::kEnvironment, name));
      continue;
    }
    for (const std::string_view value : Split(found->second, '\n')) {
      if (value.empty()) continue;
      MUSTER_RETURN_IF_ERROR(settings->Set(option, value, Source::kEnvironment, name));
    }
  }
  return OkStatus();
}

Result<Settings> LoadSettings(const Files& files, const Environment& environment) {
  Settings settings;
  const std::pair<const std::string*, Source> in_order[] = {
      {&files.site, Source::kSiteFile},
      {&files.user, Source::kUserFile},
      {&files.folder, Source::kFolderFile},
  };
  for (const auto& [file, source] : in_order) {
    if (file->empty()) continue;
    MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadFile(*file));
    MUSTER_RETURN_IF_ERROR(ApplyFile(text, *file, source, &settings));
  }
  MUSTER_RETURN_IF_ERROR(ApplyEnvironment(environment, &settings));
  return settings;
}

Environment CurrentEnvironment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equal = text.find('=');
    if (equal == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equal), text.substr(equal + 1));
  }
  return environment;
}

}  // namespace muster::config

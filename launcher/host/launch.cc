#include "launcher/host/launch.h"

#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/escape.h"
#include "common/log.h"
#include "common/text.h"
#include "launcher/agent/files.h"
#include "launcher/agent/process_tree.h"
#include "launcher/host/small_file.h"
#include "launcher/host/version.h"

namespace muster::host {
namespace {

using Json = nlohmann::ordered_json;

std::string LocalTag() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "local-%Y%m%d-%H%M%S", &parts);
  return Concat(text, "-", getpid());
}

RunIdentity Identify(const LaunchInput& input) {
  RunIdentity identity;
  identity.name = input.options.name;
  if (input.allocation.place != slurm::Place::kNoJob && !input.options.local) {
    identity.job = input.allocation.job.Name();
    identity.restart = input.allocation.restart_count;
  }
  identity.command = agent::ShortHash(Join(input.program, std::string_view("\0", 1)));
  identity.host = input.host_name;
  identity.pid = getpid();
  if (const auto self = agent::ReadProcess(getpid())) identity.start_time = self->start_time;
  return identity;
}

// What agents and daemon are told travels as JSON, and other bytes than UTF-8 would arrive changed.
bool Travels(const std::string& text) {
  const std::string sent = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(sent).get<std::string>() == text;
}

// Quote lets UTF-8 through; here the bytes beyond ASCII are what it is about.
std::string QuoteBytes(const std::string& text) {
  return EscapeBytes(Quote(text), [](unsigned char byte) { return byte >= 0x80; });
}

Status CheckTexts(const LaunchInput& input) {
  const auto check = [](std::string_view what, const std::string& text) {
    if (Travels(text)) return OkStatus();
    return InvalidArgument(
        Concat(what, " ", QuoteBytes(text),
               " is not UTF-8 and would not reach the nodes unchanged; rename it"));
  };
  if (!input.program.empty() && input.program.front().empty()) {
    return InvalidArgument("the program is an empty word; is a variable in the command not set?");
  }
  for (const std::string& word : input.program) {
    MUSTER_RETURN_IF_ERROR(check("the program's word", word));
  }
  for (const std::string& entry : input.options.environment) {
    MUSTER_RETURN_IF_ERROR(check("--env", entry));
  }
  MUSTER_RETURN_IF_ERROR(check("the working folder", input.folder));
  MUSTER_RETURN_IF_ERROR(check("--state-dir", input.options.state_dir));
  MUSTER_RETURN_IF_ERROR(check("--checkpoint-dir", input.options.checkpoint_dir));
  MUSTER_RETURN_IF_ERROR(check("--log-dir", input.options.log_dir));
  return check("--local-dir", input.options.local_dir);
}

// A folder's name as a part of the id, which is one line.
std::string OneLine(std::string text) {
  for (char& c : text) {
    if (IsControl(static_cast<unsigned char>(c))) c = '_';
  }
  return text;
}

// The run's id is made once, so that it is the same in a resubmitted job.
Status ReadOrWriteSpec(const LaunchInput& input, Launch* launch) {
  const std::string cluster =
      input.allocation.cluster.empty() ? "" : Concat(input.allocation.cluster, "/");
  launch->run_id = launch->job.empty()
                       ? Concat(input.host_name, "/",
                                OneLine(std::filesystem::path(launch->base).filename().string()),
                                "/", launch->run_name)
                       : Concat(cluster, launch->job, "/", launch->run_name);
  const std::string path = launch->files.SpecFile();
  Result<std::string> text = agent::ReadSmallFile(path);
  if (text.ok()) {
    const Json spec = Json::parse(*text, nullptr, false);
    if (!spec.is_object() || !spec.contains("run_id") || !spec["run_id"].is_string()) {
      return Status(StatusCode::kDataLoss,
                    Concat(path, " is damaged; move it away or give another --state-dir"));
    }
    launch->run_id = spec["run_id"].get<std::string>();
    if (spec.value("program", Json()) != Json(input.program)) {
      LogWarning(Concat("run ", launch->run_name,
                        " goes on with another command: ", Join(input.program, " ")));
    }
    return OkStatus();
  }
  if (text.status().code() != StatusCode::kNotFound) return text.status();
  Json names = Json::array();
  for (const auto& [name, value] : input.environment) names.push_back(name);
  const Json spec = {{"run_id", launch->run_id},
                     {"name", launch->run_name},
                     {"job", launch->job},
                     {"version", Version()},
                     {"program", input.program},
                     {"folder", input.folder},
                     {"log_dir", launch->log_dir},
                     {"nodes", launch->plan.nodes},
                     {"min_nodes", launch->plan.min_nodes},
                     {"max_nodes", launch->plan.max_nodes},
                     {"workers_per_node", launch->plan.workers_per_node},
                     {"environment_names", std::move(names)}};
  return WriteWhole(path, spec.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string Absolute(const std::string& given, const std::string& folder,
                     const std::string& otherwise) {
  if (given.empty()) return otherwise;
  return (std::filesystem::path(folder) / given).lexically_normal().string();
}

// The journal must be on a disk that no other machine can stall.
Status MakeJournalFolder(const LaunchInput& input, Launch* launch) {
  std::string disk = input.options.local_dir;
  for (const char* name : {"SLURM_TMPDIR", "TMPDIR"}) {
    if (disk.empty()) disk = slurm::Lookup(input.environment, name);
  }
  if (disk.empty()) disk = "/tmp";
  const Status made = [&] {
    MUSTER_RETURN_IF_ERROR(agent::MakeFolders(disk));
    const std::string own = Concat(disk, "/muster-host-", geteuid());
    MUSTER_RETURN_IF_ERROR(agent::MakePrivateFolder(own));
    launch->journal_dir =
        Concat(own, "/", agent::ShortHash(launch->run_id), "-", launch->attempt, "-", getpid());
    return agent::MakePrivateFolder(launch->journal_dir);
  }();
  if (made.ok()) return made;
  return InvalidArgument(Concat("no folder for the daemon's journal on ", input.host_name, ": ",
                                made.message(),
                                "; give a folder on the local disk with "
                                "--local-dir"));
}

Status MakeFolders(const LaunchInput& input, Launch* launch) {
  launch->checkpoint_dir =
      Absolute(input.options.checkpoint_dir, input.folder, launch->files.folder + "/checkpoints");
  launch->log_dir = Absolute(input.options.log_dir, input.folder, launch->files.folder + "/logs");
  MUSTER_RETURN_IF_ERROR(PrepareFolder(launch->files.folder));
  MUSTER_ASSIGN_OR_RETURN(launch->state_token, WriteSharedToken(launch->files.folder));
  for (const auto& [folder, option] : {std::pair{launch->checkpoint_dir, "--checkpoint-dir"},
                                       std::pair{launch->log_dir, "--log-dir"}}) {
    if (const Status made = agent::MakeFolders(folder); !made.ok()) {
      return InvalidArgument(Concat(option, ": ", made.message()));
    }
  }
  return MakeJournalFolder(input, launch);
}

// Under the register's lock; `planned` is empty where the plan is yet to be made.
Status Enter(const LaunchInput& input, std::optional<Plan> planned, Register* opened,
             Launch* launch) {
  const RegisterBook::Lives lives = [&](const RegisterEntry& entry) {
    return EntryLives(entry, input.host_name);
  };
  const std::vector<Claim> claims = opened->book().Claims(launch->identity, lives);
  MUSTER_ASSIGN_OR_RETURN(RegisterEntry* const entry,
                          opened->book().Enter(launch->identity, lives));
  // Until all is ready, whatever goes wrong leaves an entry that holds nothing.
  entry->ended = true;
  launch->run_name = entry->name;
  launch->attempt = entry->attempt;
  launch->files.folder = Concat(launch->base, "/", entry->name);
  MUSTER_ASSIGN_OR_RETURN(launch->past, NewestVerdict(launch->files));
  if (launch->past && launch->past->verdict.outcome == protocol::Outcome::kSucceeded &&
      !input.options.again) {
    launch->already_done = true;
    return OkStatus();
  }
  if (planned) {
    launch->plan = std::move(*planned);
  } else {
    MUSTER_ASSIGN_OR_RETURN(launch->plan, MakePlan({input.options, input.allocation,
                                                    input.environment, input.program, claims}));
    entry->nodes = launch->plan.local ? std::vector<std::string>() : launch->plan.nodes;
  }
  MUSTER_RETURN_IF_ERROR(MakeFolders(input, launch));
  MUSTER_RETURN_IF_ERROR(ReadOrWriteSpec(input, launch));
  entry->ended = false;
  return OkStatus();
}

Result<Launch> PrepareAny(const LaunchInput& input, std::optional<Plan> planned) {
  Launch launch;
  launch.identity = Identify(input);
  launch.job = launch.identity.job;
  slurm::Allocation where = input.allocation;
  if (input.options.local) where.place = slurm::Place::kNoJob;
  launch.base = StateBase(input.options.state_dir, where, input.folder, LocalTag());
  MUSTER_RETURN_IF_ERROR(PrepareFolder(launch.base));
  MUSTER_ASSIGN_OR_RETURN(Register opened, Register::Open(launch.base));
  const Status entered = Enter(input, std::move(planned), &opened, &launch);
  MUSTER_RETURN_IF_ERROR(opened.Save());
  MUSTER_RETURN_IF_ERROR(entered);
  const std::string pointer =
      launch.job.empty() ? std::filesystem::path(launch.base).filename().string() : launch.job;
  if (const Status written = WritePointer(PointerFolder(input.environment), pointer, launch.base);
      !written.ok()) {
    LogDebug(Concat("`muster status` will need the folder: ", written.message()));
  }
  return launch;
}

}  // namespace

Result<Plan> PlanOnly(const LaunchInput& input) {
  MUSTER_RETURN_IF_ERROR(CheckTexts(input));
  return MakePlan({input.options, input.allocation, input.environment, input.program, {}});
}

Result<Launch> Prepare(const LaunchInput& input) {
  // What is wrong in itself is said before any folder is made.
  MUSTER_RETURN_IF_ERROR(PlanOnly(input).status());
  return PrepareAny(input, std::nullopt);
}

Result<Launch> PrepareWithPlan(const LaunchInput& input, Plan plan) {
  return PrepareAny(input, std::move(plan));
}

agent::Options AgentOptions(const LaunchInput& input, const Launch& launch) {
  agent::Options options;
  options.run_id = launch.run_id;
  options.run_name = launch.run_name;
  options.version = Version();
  options.attempt = launch.attempt;
  options.program = input.program;
  options.workers_per_agent = launch.plan.workers_per_node;
  options.state_dir = launch.files.folder;
  options.state_token = launch.state_token;
  options.form_timeout = input.options.form_timeout;
  options.checkpoint_dir = launch.checkpoint_dir;
  options.local_dir = input.options.local_dir;
  options.log_dir = launch.log_dir;
  options.working_dir = input.folder;
  for (const std::string& entry : input.options.environment) {
    const std::size_t equal = entry.find('=');
    const std::string name = entry.substr(0, equal);
    if (equal != std::string::npos) {
      options.set_environment[name] = entry.substr(equal + 1);
    } else if (const auto own = input.environment.find(name); own != input.environment.end()) {
      options.set_environment[name] = own->second;
    }
  }
  options.keep_environment = input.options.keep_environment;
  options.local = launch.plan.local;
  options.beat = launch.plan.beat;
  options.lease = launch.plan.lease;
  options.stop_grace = input.options.stop_grace;
  options.show_all_up_to = input.options.show_all_up_to;
  return options;
}

void MarkEnded(const Launch& launch) {
  Result<Register> opened = Register::Open(launch.base);
  if (!opened.ok()) {
    LogDebug(Concat("the end of the run is not in the list of runs: ", opened.status().message()));
    return;
  }
  RegisterEntry* entry = opened->book().Find(launch.run_name, launch.attempt);
  if (entry == nullptr) return;
  entry->ended = true;
  if (const Status saved = opened->Save(); !saved.ok()) LogDebug(saved.message());
}

}  // namespace muster::host

#include "launcher/host/state_folder.h"

#include <unistd.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/entropy.h"
#include "common/text.h"
#include "launcher/agent/node_check.h"
#include "launcher/host/small_file.h"

namespace muster::host {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Json> ReadJson(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, agent::ReadSmallFile(path));
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return Status(StatusCode::kDataLoss, Concat(path, " is not a JSON object"));
  }
  return json;
}

protocol::Verdict VerdictFromJson(const Json& in) {
  using protocol::Outcome;
  protocol::Verdict verdict;
  const std::string outcome = in.at("outcome").get<std::string>();
  for (const Outcome known : {Outcome::kNone, Outcome::kSucceeded, Outcome::kGoesOnLater,
                              Outcome::kFailed, Outcome::kStopped}) {
    if (outcome == protocol::ToString(known)) verdict.outcome = known;
  }
  in.at("exit_code").get_to(verdict.exit_code);
  const Json& blame = in.at("blame");
  const std::string cause = blame.at("cause").get<std::string>();
  for (std::uint8_t i = 0; i <= static_cast<std::uint8_t>(protocol::Cause::kGrow); ++i) {
    if (cause == protocol::ToString(static_cast<protocol::Cause>(i))) {
      verdict.blame.cause = static_cast<protocol::Cause>(i);
    }
  }
  blame.at("node").get_to(verdict.blame.node);
  blame.at("rank").get_to(verdict.blame.rank);
  blame.at("exit_code").get_to(verdict.blame.exit_code);
  blame.at("text").get_to(verdict.blame.text);
  return verdict;
}

}  // namespace

std::string StateBase(const std::string& given, const slurm::Allocation& allocation,
                      const std::string& folder, const std::string& tag) {
  std::filesystem::path base(given);
  if (given.empty()) {
    const bool job = allocation.place != slurm::Place::kNoJob;
    base = job && !allocation.submit_dir.empty() ? allocation.submit_dir : folder;
    base /= ".muster";
    base /= job ? allocation.job.Name() : tag;
  } else if (base.is_relative()) {
    base = std::filesystem::path(folder) / base;
  }
  return base.lexically_normal().string();
}

Status PrepareFolder(const std::string& path) {
  const auto because = [&](const Status& status) {
    return InvalidArgument(Concat("the state folder ", path, " cannot be used: ", status.message(),
                                  "; give a folder that all nodes share with --state-dir"));
  };
  if (Status status = agent::MakeFolders(path); !status.ok()) return because(status);
  const std::string probe = Concat(path, "/.probe-", getpid());
  if (Status status = WriteWhole(probe, "muster\n"); !status.ok()) return because(status);
  unlink(probe.c_str());
  return OkStatus();
}

Result<std::string> WriteSharedToken(const std::string& folder) {
  RemoveSharedToken(folder);
  MUSTER_ASSIGN_OR_RETURN(const std::uint64_t number, RandomSeed());
  std::string token = agent::ShortHash(Concat(number));
  MUSTER_RETURN_IF_ERROR(WriteWhole(agent::TokenFile(folder, token), token + "\n"));
  return token;
}

void RemoveSharedToken(const std::string& folder) {
  const std::filesystem::path prefix =
      std::filesystem::path(agent::TokenFile(folder, "")).filename();
  std::vector<std::filesystem::path> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with(prefix.string()))
      found.push_back(entry.path());
  }
  for (const std::filesystem::path& path : found) std::filesystem::remove(path, ignored);
}

std::string RunFiles::VerdictFile(std::uint32_t attempt) const {
  return Concat(folder, "/verdict-", attempt, ".json");
}

Status WriteVerdict(const RunFiles& files, std::uint32_t attempt,
                    const protocol::Verdict& verdict) {
  const protocol::Blame& blame = verdict.blame;
  // The daemon's form (rendezvousd/server/view_json.h).
  const Json json = {{"verdict",
                      {{"outcome", protocol::ToString(verdict.outcome)},
                       {"exit_code", verdict.exit_code},
                       {"blame",
                        {{"cause", protocol::ToString(blame.cause)},
                         {"node", blame.node},
                         {"rank", blame.rank},
                         {"exit_code", blame.exit_code},
                         {"text", blame.text}}}}}};
  return WriteWhole(files.VerdictFile(attempt), Dump(json));
}

Result<std::optional<PastVerdict>> NewestVerdict(const RunFiles& files) {
  std::optional<std::uint32_t> newest;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(files.folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("verdict-") || !name.ends_with(".json")) continue;
    const Result<std::uint32_t> attempt =
        ParseInteger<std::uint32_t>("attempt", std::string_view(name).substr(8, name.size() - 13));
    if (attempt.ok() && (!newest || *attempt > *newest)) newest = *attempt;
  }
  if (!newest) return std::optional<PastVerdict>();
  MUSTER_ASSIGN_OR_RETURN(const Json json, ReadJson(files.VerdictFile(*newest)));
  try {
    return std::optional<PastVerdict>(PastVerdict{*newest, VerdictFromJson(json.at("verdict"))});
  } catch (const Json::exception& damaged) {
    return Status(StatusCode::kDataLoss,
                  Concat(files.VerdictFile(*newest), " is damaged: ", damaged.what()));
  }
}

Status WriteOperatorAccess(const RunFiles& files, const OperatorAccess& access) {
  const Json json = {{"endpoints", access.endpoints},
                     {"certificate", access.certificate},
                     {"operator_secret", access.secret},
                     {"host", access.host},
                     {"pid", access.pid},
                     {"attempt", access.attempt}};
  return WriteWhole(files.OperatorFile(), Dump(json));
}

Result<OperatorAccess> ReadOperatorAccess(const RunFiles& files) {
  MUSTER_ASSIGN_OR_RETURN(const Json json, ReadJson(files.OperatorFile()));
  try {
    OperatorAccess access;
    json.at("endpoints").get_to(access.endpoints);
    json.at("certificate").get_to(access.certificate);
    json.at("operator_secret").get_to(access.secret);
    json.at("host").get_to(access.host);
    json.at("pid").get_to(access.pid);
    json.at("attempt").get_to(access.attempt);
    return access;
  } catch (const Json::exception& damaged) {
    return Status(StatusCode::kDataLoss,
                  Concat(files.OperatorFile(), " is damaged: ", damaged.what()));
  }
}

namespace {
std::string ExcludedFile(const std::string& base, const std::string& job) {
  return Concat(base, "/excluded-", job, ".json");
}
}  // namespace

Status KeepUserExcluded(const std::string& base, const std::string& job,
                        const std::vector<std::string>& nodes) {
  const std::string path = ExcludedFile(base, job);
  if (std::error_code ignored; std::filesystem::exists(path, ignored)) return OkStatus();
  return WriteWhole(path, Dump({{"excluded", nodes}}));
}

std::optional<std::vector<std::string>> ReadUserExcluded(const std::string& base,
                                                         const std::string& job) {
  const Result<Json> json = ReadJson(ExcludedFile(base, job));
  if (!json.ok()) return std::nullopt;
  try {
    return json->at("excluded").get<std::vector<std::string>>();
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::string PointerFolder(const slurm::EnvironmentMap& environment) {
  const std::string state(slurm::Lookup(environment, "XDG_STATE_HOME"));
  if (!state.empty()) return state + "/muster/jobs";
  const std::string home(slurm::Lookup(environment, "HOME"));
  return home.empty() ? "" : home + "/.local/state/muster/jobs";
}

Status WritePointer(const std::string& pointer_folder, const std::string& job,
                    const std::string& base) {
  if (pointer_folder.empty()) return OkStatus();
  MUSTER_RETURN_IF_ERROR(agent::MakeFolders(pointer_folder));
  return WriteWhole(Concat(pointer_folder, "/", job), base + "\n");
}

}  // namespace muster::host

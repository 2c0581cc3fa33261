#include "launcher/cli/find_run.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "common/text.h"
#include "launcher/agent/files.h"
#include "launcher/agent/process_tree.h"
#include "launcher/host/register.h"
#include "launcher/host/state_folder.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

bool IsRunFolder(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / "spec.json", ignored);
}

bool HasRuns(const fs::path& path) {
  std::error_code ignored;
  return IsRunFolder(path) || fs::exists(path / "runs.json", ignored);
}

std::string FromPointer(const std::string& pointers, const std::string& job) {
  if (pointers.empty() || job.empty() || job.find('/') != std::string::npos) return "";
  const Result<std::string> text = agent::ReadSmallFile(pointers + "/" + job, 4096);
  return text.ok() ? std::string(Trim(*text)) : "";
}

// The only running one, else the newest.
const KnownJob* BestGuess(const std::vector<KnownJob>& jobs) {
  const KnownJob* newest = nullptr;
  std::vector<const KnownJob*> running;
  for (const KnownJob& job : jobs) {
    if (!job.there) continue;
    if (newest == nullptr) newest = &job;
    const auto folders = RunFolders(job.base);
    if (folders.ok() && std::ranges::any_of(*folders, LooksRunning)) running.push_back(&job);
  }
  return running.size() == 1 ? running.front() : newest;
}

}  // namespace

std::vector<KnownJob> KnownJobs(const slurm::EnvironmentMap& environment) {
  const std::string pointers = host::PointerFolder(environment);
  std::vector<KnownJob> jobs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(pointers, error)) {
    const std::string name = entry.path().filename().string();
    // What WriteWhole writes beside a file until it renames it.
    if (name.starts_with('.')) continue;
    std::error_code gone;
    KnownJob job{name, FromPointer(pointers, name), false, entry.last_write_time(gone)};
    if (gone) continue;
    job.there = !job.base.empty() && HasRuns(job.base);
    jobs.push_back(std::move(job));
  }
  std::ranges::sort(jobs, [](const KnownJob& a, const KnownJob& b) {
    return a.started != b.started ? a.started > b.started : a.job > b.job;
  });
  return jobs;
}

Result<std::string> FindBase(const std::string& word, const std::string& state_dir,
                             const slurm::EnvironmentMap& environment, const std::string& folder) {
  std::string looked;
  const auto usable = [&](const std::string& path) {
    if (HasRuns(path)) return true;
    looked += Concat(looked.empty() ? "" : ", ", path);
    return false;
  };
  const std::string pointers = host::PointerFolder(environment);
  if (word.empty()) {
    if (!state_dir.empty() && usable(state_dir)) return state_dir;
    const std::string job(slurm::Lookup(environment, "SLURM_JOB_ID"));
    const std::string around = FromPointer(pointers, job);
    if (!around.empty() && usable(around)) return around;
    const std::vector<KnownJob> jobs = KnownJobs(environment);
    if (const KnownJob* best = BestGuess(jobs)) return best->base;
    return NotFound(Concat("no run is known (looked in ", pointers,
                           looked.empty() ? "" : ", " + looked, "); name a job or a state folder"));
  }
  if (const fs::path path = fs::path(folder) / word; usable(path.string())) return path.string();
  if (const std::string base = FromPointer(pointers, word); !base.empty() && usable(base)) {
    return base;
  }
  if (!state_dir.empty() && usable(state_dir)) return state_dir;
  if (const fs::path path = fs::path(folder) / ".muster" / word; usable(path.string())) {
    return path.string();
  }
  return NotFound(Concat("no run of ", Quote(word), " is known (looked for ", looked,
                         "); has the job started `muster run`, and in which folder?"));
}

Result<std::vector<std::string>> RunFolders(const std::string& base, const std::string& name) {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::vector<std::string> names;
  const auto add = [&](const fs::path& path) {
    names.push_back(path.filename().string());
    if (!name.empty() && names.back() != name) return;
    std::error_code ignored;
    found.emplace_back(fs::last_write_time(path / "spec.json", ignored), path.string());
  };
  if (IsRunFolder(base)) {
    add((fs::path(base) / "").lexically_normal().parent_path());
  } else {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(base, error)) {
      if (IsRunFolder(entry.path())) add(entry.path());
    }
  }
  if (names.empty()) return NotFound(Concat("no run has started in ", base));
  if (found.empty()) {
    std::ranges::sort(names);
    return NotFound(
        Concat("no run in ", base, " is named ", Quote(name), "; there is ", Join(names, ", ")));
  }
  std::ranges::sort(found);
  std::vector<std::string> folders;
  for (auto& [time, folder] : found) folders.push_back(std::move(folder));
  return folders;
}

bool LooksRunning(const std::string& run_folder) {
  const host::RunFiles files{run_folder};
  const auto access = host::ReadOperatorAccess(files);
  if (!access.ok()) return false;
  const auto verdict = host::NewestVerdict(files);
  if (verdict.ok() && *verdict && (*verdict)->attempt >= access->attempt) return false;
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  if (access->host != name.data()) return true;
  const auto process = agent::ReadProcess(access->pid);
  return process && process->alive();
}

std::string JobOf(const std::string& run_folder) {
  const fs::path path(run_folder);
  const auto book = host::ReadBook(path.parent_path().string());
  if (!book.ok()) return "";
  std::string job;
  for (const host::RegisterEntry& entry : book->entries()) {
    if (entry.name == path.filename().string()) job = entry.job;
  }
  return job;
}

std::string RunTitle(const std::string& run_folder) {
  const std::string job = JobOf(run_folder);
  const fs::path path(run_folder);
  return Concat(path.filename().string(), job.empty() ? " in " : " of job ",
                job.empty() ? path.parent_path().string() : job);
}

}  // namespace muster::cli

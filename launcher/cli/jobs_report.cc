#include "launcher/cli/jobs_report.h"

#include <algorithm>
#include <chrono>

#include "common/text.h"
#include "common/time.h"
#include "launcher/cli/history.h"

namespace muster::cli {
namespace {

// Daemons on dead machines take their deadline each; nobody waits longer for a list.
constexpr Duration kAsking = std::chrono::seconds(10);

std::string StateOf(const std::vector<RunReport>& runs) {
  if (runs.empty()) return "unknown";
  const auto any = [&](auto condition) { return std::ranges::any_of(runs, condition); };
  if (any([](const RunReport& run) { return run.live && OutcomeOf(run).empty(); })) {
    return "running";
  }
  if (any([](const RunReport& run) { return !run.live && LooksRunning(run.folder); })) {
    return "does not answer";
  }
  const std::string outcome = OutcomeOf(runs.back());
  if (!outcome.empty()) return outcome;
  return runs.back().status.empty() ? "unknown" : "ended without a verdict";
}

std::int64_t UnixMs(std::filesystem::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time);
  return std::chrono::duration_cast<std::chrono::milliseconds>(system.time_since_epoch()).count();
}

}  // namespace

std::vector<JobReport> ReadJobs(const slurm::EnvironmentMap& environment) {
  const TimePoint until = SteadyNow() + kAsking;
  std::vector<JobReport> jobs;
  for (KnownJob& job : KnownJobs(environment)) {
    JobReport report;
    report.job = std::move(job);
    if (report.job.there) {
      const auto folders = RunFolders(report.job.base);
      if (folders.ok()) {
        for (const std::string& folder : *folders) {
          report.runs.push_back(ReadRun(folder, LooksRunning(folder) && SteadyNow() < until));
        }
      }
      report.state = StateOf(report.runs);
    } else {
      report.state = "gone";
    }
    jobs.push_back(std::move(report));
  }
  return jobs;
}

std::string JobsText(const std::vector<JobReport>& jobs) {
  std::string out;
  for (const JobReport& report : jobs) {
    out += Concat(Printable(report.job.job), "  ", report.state, "  ",
                  LocalTime(UnixMs(report.job.started)), "  ", Printable(report.job.base), "\n");
    if (report.state == "gone") {
      out += report.job.base.empty() ? "    its pointer is damaged\n"
                                     : "    its state folder is not there any more\n";
    }
    for (const RunReport& run : report.runs) {
      const std::string text = RunText(run);
      out += Concat("    ", Printable(text.substr(0, text.find('\n'))), "\n");
    }
  }
  return out;
}

Json JobsJson(const std::vector<JobReport>& jobs) {
  Json all = Json::array();
  for (const JobReport& report : jobs) {
    Json runs = Json::array();
    for (const RunReport& run : report.runs) runs.push_back(RunJson(run));
    all.push_back({{"job", report.job.job},
                   {"state", report.state},
                   {"started_unix_ms", UnixMs(report.job.started)},
                   {"state_dir", report.job.base},
                   {"runs", std::move(runs)}});
  }
  return all;
}

}  // namespace muster::cli

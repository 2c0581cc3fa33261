#include "launcher/cli/man_pages.h"

#include <array>
#include <string_view>
#include <vector>

#include "common/text.h"
#include "launcher/agent/worker_environment.h"
#include "launcher/cli/usage.h"
#include "launcher/config/exit_codes.h"
#include "launcher/config/man_text.h"
#include "launcher/config/option_table.h"
#include "launcher/config/sources.h"
#include "launcher/host/version.h"
#include "launcher/network/settings.h"
#include "proto/environment.h"

namespace muster::cli {
namespace {

using config::ManEntry;
using config::ManText;

// Of the pages' words, not of a build: the same sources give the same bytes.
constexpr std::string_view kDate = "2026-12-01";

struct Term {
  std::string_view name;
  std::string_view meaning;
};

constexpr std::array kFiles = {
    Term{config::kSiteFile, "Settings of the site; its section [limit] cannot be exceeded."},
    Term{"~/.config/muster/muster.conf, ./muster.conf",
         "Settings of the user and of the folder of submission, each above the one before; "
         "`muster config --defaults` prints a commented one."},
    Term{".muster/JOB/RUN/", "The run's state folder, unless --state-dir names another. In it:"},
    Term{"status.json, events-ATTEMPT.jsonl", "How the run is, and all that happened to it."},
    Term{"verdict-ATTEMPT.json", "How an attempt ended: outcome, exit code, who failed and why."},
    Term{"spec.json", "What the first attempt was told to run."},
    Term{"operator.json",
         "Address and secret for `muster status` while the run lives; readable by its owner "
         "alone."},
    Term{"logs/attempt-A/rank-R.round-N.log",
         "What the worker with rank R printed in round N; above 64 ranks one file for each node."},
    Term{"checkpoints/", "What `MUSTER_CHECKPOINT_DIR` names, unless --checkpoint-dir does."},
    Term{"~/.local/state/muster/jobs/JOB",
         "The state folder of a job, so that `muster status JOB` works anywhere."},
};

// What a user may set beside the options' own variables.
constexpr std::array kUserVariables = {
    Term{environment::kLogLevel, "error, warning, info (the default) or debug: what muster says."},
    Term{environment::kEnabled,
         "0: the Slurm plugin leaves the steps of this shell alone. Else as the option --muster "
         "of srun: options of `muster run`, such as name=exp1,lease=2s."},
    Term{"MUSTER_RENDEZVOUSD", "The daemon's program, if it does not lie beside muster."},
};

std::string Head(std::string_view name, int section, std::string_view what) {
  std::string title;
  for (const char c : name) title += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return Concat(".TH ", title, " ", section, " ", kDate, " \"muster ", host::Version(),
                "\" \"muster\"\n.SH NAME\n", ManText(name), " \\- ", ManText(what), "\n");
}

std::string Section(std::string_view title) { return Concat(".SH ", title, "\n"); }

template <typename Terms>
std::string List(const Terms& terms) {
  std::string out;
  for (const Term& term : terms) out += ManEntry(term.name, ManText(term.meaning));
  return out;
}

std::string Commands() {
  std::string synopsis = Section("SYNOPSIS");
  std::string commands = Section("COMMANDS");
  bool first = true;
  for (const CommandUsage& usage : CommandUsages()) {
    for (const std::string_view line : Split(usage.synopsis, '\n')) {
      synopsis += Concat(first ? "" : ".br\n", ".B muster ", config::CommandName(usage.command),
                         "\n", ManText(line), "\n");
      first = false;
    }
    commands += ManEntry(Concat("muster ", config::CommandName(usage.command)),
                         ManText(usage.what_it_does));
  }
  return Concat(
      synopsis, Section("DESCRIPTION"),
      ManText("muster starts a distributed training on the nodes of a Slurm job, gives every "
              "worker its rank, the sizes and the address of the world, starts the world anew when "
              "a worker or a node is lost, requeues the job when too few nodes are left, and says "
              "in one sentence how it ended and why."),
      "\n.PP\n",
      ManText("muster's own options end at `--`, or at the first word that is neither an option "
              "nor the value of one. All behind it is the program's."),
      "\n", commands);
}

std::string ExitStatus() {
  std::string out = Section("EXIT STATUS");
  for (const config::ExitCode& code : config::ExitCodes()) {
    const bool advice = !code.advice.empty();
    out += ManEntry(code.code,
                    Concat(ManText(code.meaning), advice ? "\n" : "", ManText(code.advice)));
  }
  return out;
}

// A worker as it is on a node with Slurm, two GPUs and two workers, so that every row is there.
std::vector<agent::Row> EveryRow() {
  agent::WorkerFacts facts;
  facts.round.world_size = 4;
  facts.round.local_world_size = 2;
  facts.round.node_count = 2;
  facts.devices = {"0", "1"};
  network::SettingFacts network;
  network.interface = "eth0";
  network.log_folder = "/tmp";
  network.ras_port = 1;
  facts.network = network::NetworkSettings(network);
  return WorkerRows(facts, {{"SLURM_JOB_ID", "1"}, {"PMI_*", ""}, {"PMIX_*", ""}, {"OMPI_*", ""}});
}

std::string RowsOf(agent::RowKind kind) {
  std::string out;
  for (const agent::Row& row : EveryRow()) {
    if (row.kind == kind) out += ManEntry(row.name, ManText(Concat(row.reason, ".")));
  }
  return out;
}

}  // namespace

std::string MusterPage() {
  return Concat(
      Head("muster", 1, "launches distributed training on Slurm and keeps its world together"),
      Commands(), config::OptionsManPage(~0U), Section("FILES"), List(kFiles), ExitStatus(),
      Section("SEE ALSO"),
      ".BR muster\\-environment (7),\n.BR sbatch (1),\n.BR srun (1),\n.BR scancel (1)\n");
}

std::string EnvironmentPage() {
  return Concat(
      Head("muster-environment", 7, "what a worker of muster finds in its environment"),
      Section("DESCRIPTION"),
      ManText("The agent of a node sets these variables for each worker that it starts, anew in "
              "every round. All else is passed on as it was."),
      "\n", Section("FACTS"),
      ManText("They describe the world and change with every round: muster's value replaces one "
              "that was there. The option --keep-env NAME keeps yours. Those of Slurm are set only "
              "inside a job."),
      "\n", RowsOf(agent::RowKind::kFact), Section("SETTINGS"),
      ManText("They tune. muster sets one only where nobody else has set it."), "\n",
      RowsOf(agent::RowKind::kSetting), Section("REMOVED"),
      ManText("A worker does not find these, whoever has set them."), "\n",
      RowsOf(agent::RowKind::kRemoved), Section("FOR YOU TO SET"),
      ManText("Every option has a variable too, such as MUSTER_LEASE for --lease: see muster(1). "
              "Beside them:"),
      "\n", List(kUserVariables), Section("SEE ALSO"), ".BR muster (1)\n");
}

}  // namespace muster::cli

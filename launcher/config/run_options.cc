#include "launcher/config/run_options.h"

namespace muster::config {

RunOptions ToRunOptions(const Settings& settings) {
  RunOptions run;
  if (settings.Get("nodes") != nullptr) run.nodes = ParseNodeRange(settings.Text("nodes")).value();
  run.spares = settings.Count("spares");
  if (settings.Get("workers-per-node") != nullptr) {
    run.workers_per_node = settings.Count("workers-per-node");
  }
  run.name = settings.Text("name");
  run.state_dir = settings.Text("state-dir");
  run.local_dir = settings.Text("local-dir");
  run.checkpoint_dir = settings.Text("checkpoint-dir");
  run.log_dir = settings.Text("log-dir");
  run.lease = settings.Time("lease");
  run.form_timeout = settings.Time("form-timeout");
  run.wait_node = settings.Time("wait-node");
  run.last_call = settings.Time("last-call");
  run.stop_grace = settings.Time("stop-grace");
  run.srun = settings.List("srun");
  run.environment = settings.List("env");
  run.keep_environment = settings.List("keep-env");
  run.hosts = settings.Text("hosts");
  if (settings.Get("local") != nullptr) run.local = ParseLocalShape(settings.Text("local")).value();
  run.again = settings.Flag("again");
  run.no_requeue = settings.Flag("no-requeue");
  run.show_all_up_to = ParseShow(settings.Text("show-output")).value();
  return run;
}

}  // namespace muster::config

#include "launcher/agent/exec_stage.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/text.h"
#include "launcher/agent/agent.h"

namespace muster::agent {
namespace {

constexpr int kNotFound = 127;     // as a shell has it
constexpr int kNotRunnable = 126;  // as a shell has it

int Fail(int code, const std::string& text) {
  std::fprintf(stderr, "muster: %s\n", text.c_str());
  return code;
}

void ResetSignals() {
  for (int signal_number = 1; signal_number < NSIG; ++signal_number) {
    signal(signal_number, SIG_DFL);  // KILL, STOP and the C library's own refuse, and may
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

Status SetCpus(const std::vector<int>& cpus) {
  if (cpus.empty()) return OkStatus();
  const int count = cpus.back() + 1;
  cpu_set_t* const set = CPU_ALLOC(static_cast<unsigned>(count));
  const std::size_t size = CPU_ALLOC_SIZE(static_cast<unsigned>(count));
  CPU_ZERO_S(size, set);
  for (const int cpu : cpus) CPU_SET_S(static_cast<unsigned>(cpu), size, set);
  const int result = sched_setaffinity(0, size, set);
  const int error = errno;
  CPU_FREE(set);
  return result == 0 ? OkStatus() : FromErrno(error, "cannot take the worker's CPUs");
}

}  // namespace

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  // Machines above 1024 CPUs need a larger set than cpu_set_t: the kernel says so with EINVAL.
  for (unsigned limit = 1024; limit <= 65536; limit *= 4) {
    cpu_set_t* const set = CPU_ALLOC(limit);
    const std::size_t size = CPU_ALLOC_SIZE(limit);
    CPU_ZERO_S(size, set);
    const bool done = sched_getaffinity(0, size, set) == 0;
    for (unsigned cpu = 0; done && cpu < limit; ++cpu) {
      if (CPU_ISSET_S(cpu, size, set)) cpus.push_back(static_cast<int>(cpu));
    }
    CPU_FREE(set);
    if (done) break;
  }
  return cpus;
}

std::vector<std::string> ToArguments(const ExecStage& stage) {
  std::vector<std::string> cpus;
  for (const int cpu : stage.cpus) cpus.push_back(std::to_string(cpu));
  std::vector<std::string> arguments = {std::to_string(stage.parent), stage.node, stage.working_dir,
                                        Join(cpus, ","), stage.slurm_task ? "1" : "0"};
  arguments.insert(arguments.end(), stage.program.begin(), stage.program.end());
  return arguments;
}

Result<ExecStage> ExecStageFromArguments(const std::vector<std::string>& arguments) {
  if (arguments.size() < 6) {
    return InvalidArgument("agent-exec is started by muster's own supervisor, not by hand");
  }
  ExecStage stage;
  MUSTER_ASSIGN_OR_RETURN(stage.parent, ParseInteger<pid_t>("parent", arguments[0], 1));
  stage.node = arguments[1];
  stage.working_dir = arguments[2];
  if (!arguments[3].empty()) {
    for (const std::string_view part : Split(arguments[3], ',')) {
      MUSTER_ASSIGN_OR_RETURN(const int cpu, ParseInteger<int>("cpu", part, 0, 65535));
      stage.cpus.push_back(cpu);
    }
  }
  stage.slurm_task = arguments[4] == "1";
  stage.program.assign(arguments.begin() + 5, arguments.end());
  return stage;
}

Result<std::string> FindProgram(const std::string& program, const std::string& path,
                                const std::string& node) {
  const auto usable = [](const std::string& file) {
    struct stat facts {};
    return stat(file.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) &&
           access(file.c_str(), X_OK) == 0;
  };
  if (program.find('/') != std::string::npos) {
    if (usable(program)) return program;
    struct stat facts {};
    if (stat(program.c_str(), &facts) == 0) {
      return PermissionDenied(Concat("cannot run ", program, " on node ", node,
                                     ": it is not an executable file (chmod +x, or start it with "
                                     "its interpreter)"));
    }
    return NotFound(
        Concat("program ", program, " is not there on node ", node, ": ", std::strerror(errno)));
  }
  for (const std::string_view folder : Split(path, ':')) {
    const std::string file = Concat(folder.empty() ? "." : folder, "/", program);
    if (usable(file)) return file;
  }
  return NotFound(Concat("program ", Quote(program), " was not found on node ", node,
                         "; its PATH there is ", path.empty() ? "(empty)" : path));
}

int ExecStageMain(std::vector<std::string> arguments) {
  Result<ExecStage> parsed = ExecStageFromArguments(arguments);
  if (!parsed.ok()) return Fail(kNotRunnable, parsed.status().message());
  const ExecStage& stage = *parsed;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != stage.parent) return Fail(kNotRunnable, "the agent died at a worker's start");
  ResetSignals();
  if (const Status status = SetCpus(stage.cpus); !status.ok()) {
    Fail(0, Concat("warning: ", status.message()));  // narrower CPUs are no reason not to run
  }
  if (!stage.working_dir.empty() && chdir(stage.working_dir.c_str()) != 0) {
    return Fail(kNotRunnable, Concat("cannot enter the working folder ", stage.working_dir,
                                     " on node ", stage.node, ": ", std::strerror(errno)));
  }
  if (stage.slurm_task) setenv("SLURM_TASK_PID", std::to_string(getpid()).c_str(), 1);
  const char* const path = std::getenv("PATH");
  const Result<std::string> file =
      FindProgram(stage.program[0], path == nullptr ? "" : path, stage.node);
  if (!file.ok()) {
    const bool missing = file.status().code() == StatusCode::kNotFound;
    return Fail(missing ? kNotFound : kNotRunnable, file.status().message());
  }
  std::vector<char*> argv;
  for (std::string& argument : parsed->program) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv(file->c_str(), argv.data());
  if (errno == ENOEXEC) {  // a script without "#!", which execvp gives to sh
    argv.insert(argv.begin(), const_cast<char*>("/bin/sh"));
    argv[1] = const_cast<char*>(file->c_str());
    execv("/bin/sh", argv.data());
  }
  const int error = errno;
  return Fail(error == ENOENT ? kNotFound : kNotRunnable,
              Concat("cannot run ", *file, " on node ", stage.node, ": ", std::strerror(error),
                     error == ENOENT ? " (its interpreter or loader is missing there)" : ""));
}

}  // namespace muster::agent

#include "launcher/agent/exec_stage.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/text.h"
#include "launcher/agent/agent.h"
#include "launcher/agent/files.h"

namespace muster::agent {
namespace {

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

std::string InFolder(const std::string& file, const std::string& folder) {
  return folder.empty() || file.starts_with('/') ? file : Concat(folder, "/", file);
}

// 0, or why the file cannot be executed.
int Usable(const std::string& file) {
  struct stat facts {};
  if (stat(file.c_str(), &facts) != 0) return errno;
  if (!S_ISREG(facts.st_mode)) return EISDIR;
  return access(file.c_str(), X_OK) == 0 ? 0 : errno;
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

bool IsCertain(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
    case ENAMETOOLONG:
    case EISDIR:
      return true;
    default:
      return false;
  }
}

Result<std::string> FindProgram(const std::string& program, const std::string& path,
                                const std::string& node, const std::string& folder) {
  if (program.find('/') != std::string::npos) {
    const std::string file = InFolder(program, folder);
    const int error = Usable(file);
    if (error == 0) return file;
    if (error == EISDIR || error == EACCES) {
      return PermissionDenied(Concat("cannot run ", file, " on node ", node,
                                     ": it is not an executable file (chmod +x, or start it with "
                                     "its interpreter)"));
    }
    std::string text =
        Concat("program ", file, " is not there on node ", node, ": ", std::strerror(error));
    return IsCertain(error) ? NotFound(std::move(text)) : Unavailable(std::move(text));
  }
  int uncertain = 0;
  for (const std::string_view entry : Split(path, ':')) {
    const std::string file = InFolder(Concat(entry.empty() ? "." : entry, "/", program), folder);
    const int error = Usable(file);
    if (error == 0) return file;
    if (!IsCertain(error)) uncertain = error;
  }
  std::string text = Concat("program ", Quote(program), " was not found on node ", node,
                            "; its PATH there is ", path.empty() ? "(empty)" : path);
  if (uncertain == 0) return NotFound(std::move(text));
  return Unavailable(Concat(text, ", where a folder gives: ", std::strerror(uncertain)));
}

Status CheckInterpreter(const std::string& file, const std::string& path, const std::string& node,
                        const std::string& folder) {
  // What the kernel looks at.
  char buffer[256];
  const Descriptor opened(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t count = opened.valid() ? read(opened.get(), buffer, sizeof(buffer)) : 0;
  if (count < 3 || buffer[0] != '#' || buffer[1] != '!') return OkStatus();
  std::string_view line(buffer + 2, static_cast<std::size_t>(count) - 2);
  line = line.substr(0, line.find('\n'));
  const auto word = [&line] {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    const std::string_view first = line.substr(0, line.find_first_of(" \t"));
    line.remove_prefix(first.size());
    return std::string(first);
  };
  const std::string interpreter = word();
  if (interpreter.empty()) return OkStatus();
  const int error = Usable(InFolder(interpreter, folder));
  if (error != 0) {
    std::string text =
        Concat("cannot run ", file, " on node ", node, ": its first line names the interpreter ",
               Quote(interpreter), ", which ",
               error == EACCES || error == EISDIR ? "is no program" : "is not there");
    return IsCertain(error) ? NotFound(std::move(text)) : Unavailable(std::move(text));
  }
  if (!interpreter.ends_with("/env")) return OkStatus();
  std::string name = word();
  if (name == "-S") name = word();
  if (name.empty() || name.starts_with('-') || name.find('=') != std::string::npos) {
    return OkStatus();
  }
  return FindProgram(name, path, node, folder)
      .status()
      .With(Concat("cannot run ", file, ", whose first line asks for ", name));
}

int ExecStageMain(std::vector<std::string> arguments) {
  Result<ExecStage> parsed = ExecStageFromArguments(arguments);
  if (!parsed.ok()) return Fail(kProgramNotRunnable, parsed.status().message());
  const ExecStage& stage = *parsed;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != stage.parent)
    return Fail(kProgramNotRunnable, "the agent died at a worker's start");
  ResetSignals();
  if (const Status status = SetCpus(stage.cpus); !status.ok()) {
    Fail(0, Concat("warning: ", status.message()));  // narrower CPUs are no reason not to run
  }
  if (!stage.working_dir.empty() && chdir(stage.working_dir.c_str()) != 0) {
    return Fail(kProgramNotRunnable, Concat("cannot enter the working folder ", stage.working_dir,
                                            " on node ", stage.node, ": ", std::strerror(errno)));
  }
  if (stage.slurm_task) setenv("SLURM_TASK_PID", std::to_string(getpid()).c_str(), 1);
  const char* const path = std::getenv("PATH");
  const Result<std::string> file =
      FindProgram(stage.program[0], path == nullptr ? kDefaultPath : path, stage.node);
  if (!file.ok()) {
    const bool missing = file.status().code() == StatusCode::kNotFound;
    return Fail(missing ? kProgramNotFound : kProgramNotRunnable, file.status().message());
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
  return Fail(error == ENOENT ? kProgramNotFound : kProgramNotRunnable,
              Concat("cannot run ", *file, " on node ", stage.node, ": ", std::strerror(error),
                     error == ENOENT ? " (its interpreter or loader is missing there)" : ""));
}

}  // namespace muster::agent

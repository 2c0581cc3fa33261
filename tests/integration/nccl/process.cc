#include "tests/integration/nccl/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <utility>

#include "common/check.h"

namespace muster::test {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment) {
  std::vector<std::string> texts = arguments, variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!environment.contains(text.substr(0, text.find('=')))) variables.push_back(text);
  }
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  const std::vector<char*> argv = Pointers(texts), envp = Pointers(variables);
  int ends[2];
  MUSTER_CHECK(pipe2(ends, O_CLOEXEC) == 0, "a pipe");
  pid_ = fork();
  MUSTER_CHECK(pid_ >= 0, "fork");
  if (pid_ == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(ends[1]);
  pipe_ = ends[0];
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pipe_(std::exchange(other.pipe_, -1)),
      output_(std::move(other.output_)),
      code_(other.code_) {}

Process::~Process() {
  if (pid_ > 0 && !code_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (pipe_ >= 0) close(pipe_);
}

void Process::Signal(int signal) const { kill(pid_, signal); }

void Process::Read(int timeout_ms) {
  pollfd entry{pipe_, POLLIN, 0};
  while (poll(&entry, 1, timeout_ms) > 0) {
    char bytes[4096];
    const ssize_t got = read(pipe_, bytes, sizeof(bytes));
    if (got <= 0) break;
    output_.append(bytes, static_cast<std::size_t>(got));
    timeout_ms = 0;
  }
}

std::string Process::output() {
  Read(0);
  return output_;
}

std::optional<int> Process::Wait(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (!code_) {
    Read(0);
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      Read(0);
    } else if (Clock::now() >= deadline) {
      return std::nullopt;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  return code_;
}

std::optional<std::string> Process::WaitForLine(const std::string& word,
                                                std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (true) {
    Read(5);
    const std::string text = "\n" + output_;
    const std::size_t begin = text.find("\n" + word);
    const std::size_t end = begin == std::string::npos ? begin : text.find('\n', begin + 1);
    if (end != std::string::npos) {
      const std::size_t rest = begin + 1 + word.size();
      return text.substr(rest, end - rest);
    }
    if (Clock::now() >= deadline) return std::nullopt;
  }
}

}  // namespace muster::test

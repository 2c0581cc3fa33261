#include "tests/integration/trainer/mini_world.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/check.h"
#include "common/random.h"
#include "proto/environment.h"

namespace muster::test {

using namespace std::chrono_literals;

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TestFolder::TestFolder() {
  std::string pattern = std::filesystem::temp_directory_path() / "muster-train-XXXXXX";
  MUSTER_CHECK(mkdtemp(pattern.data()) != nullptr, "a temporary folder");
  path_ = pattern;
}

TestFolder::~TestFolder() {
  if (::testing::Test::HasFailure()) {
    std::fprintf(stderr, "the files of this test stay in %s\n", path_.c_str());
    return;
  }
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string TestFolder::Corpus() {
  const std::filesystem::path path = path_ / "corpus.txt";
  std::ofstream file(path);
  Random random(7);
  const char* words[] = {"to", "muster", "is", "what", "armies", "do", "before", "they", "march"};
  for (int i = 0; i < 20000; ++i) file << words[random.Below(9)] << (i % 12 == 11 ? "\n" : " ");
  return path;
}

MiniWorld::MiniWorld(int size, const TestFolder& folder, std::vector<std::string> arguments)
    : agent_(static_cast<std::uint32_t>(size)),
      folder_(folder.path()),
      arguments_(std::move(arguments)),
      processes_(static_cast<std::size_t>(size)) {}

MiniWorld::~MiniWorld() { KillAll(); }

void MiniWorld::Start() {
  for (int rank = 0; rank < size(); ++rank) Spawn(rank);
  agent_.BeginRound("initial");
}

void MiniWorld::AddArguments(int rank, const std::vector<std::string>& arguments) {
  auto& more = processes_[static_cast<std::size_t>(rank)].more_arguments;
  more.insert(more.end(), arguments.begin(), arguments.end());
}

void MiniWorld::Spawn(int rank) {
  static std::atomic<int> number = 0;
  Process& process = processes_[static_cast<std::size_t>(rank)];
  const std::filesystem::path output =
      folder_ / ("rank-" + std::to_string(rank) + "." + std::to_string(++number) + ".out");
  std::vector<std::string> words{MUSTER_TRAIN};
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  words.insert(words.end(), process.more_arguments.begin(), process.more_arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  setenv(environment::kAgentSocket, agent_.socket_path().c_str(), 1);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  const int error =
      posix_spawn(&process.pid, MUSTER_TRAIN, &actions, nullptr, argv.data(), environ);
  MUSTER_CHECK(error == 0, "cannot start muster-train");
  posix_spawn_file_actions_destroy(&actions);
  unsetenv(environment::kAgentSocket);
  process.exit_code.reset();
  process.outputs.push_back(output);
  agent_.Expect(process.pid, static_cast<std::uint32_t>(rank));
}

void MiniWorld::Signal(int rank, int number) { kill(pid(rank), number); }

bool MiniWorld::Reap(Process& process, bool wait) {
  if (process.pid < 0 || process.exit_code) return true;
  int status = 0;
  if (waitpid(process.pid, &status, wait ? 0 : WNOHANG) != process.pid) return false;
  process.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

std::uint32_t MiniWorld::KillAndReform(int rank, const std::string& cause) {
  Signal(rank, SIGKILL);
  Reap(processes_[static_cast<std::size_t>(rank)], true);
  // A process that has not registered yet is no part of the round; its next one comes to it.
  auto told = agent_.EndRound(cause + ": rank " + std::to_string(rank) + " was killed by signal 9");
  told.erase(static_cast<std::uint32_t>(rank));
  Spawn(rank);
  EXPECT_TRUE(agent_.WaitQuiesced(told, 30s)) << Output(rank == 0 ? 1 : 0);
  return agent_.BeginRound(cause);
}

void MiniWorld::KillAll() {
  for (Process& process : processes_) {
    if (process.pid < 0 || process.exit_code) continue;
    kill(process.pid, SIGKILL);
    Reap(process, true);
  }
}

std::optional<std::vector<int>> MiniWorld::WaitAll(Duration timeout) {
  const TimePoint deadline = SteadyNow() + timeout;
  std::vector<int> codes;
  for (Process& process : processes_) {
    while (!Reap(process, false)) {
      if (SteadyNow() >= deadline) return std::nullopt;
      std::this_thread::sleep_for(5ms);
    }
    codes.push_back(*process.exit_code);
  }
  return codes;
}

std::string MiniWorld::Output(int rank) const {
  std::string text;
  for (const auto& path : processes_[static_cast<std::size_t>(rank)].outputs)
    text += ReadText(path);
  return text;
}

std::string MiniWorld::Digest() const {
  const std::string text = Output(0);
  const std::string label = "weights digest: ";
  const std::size_t at = text.rfind(label);
  return at == std::string::npos ? "" : text.substr(at + label.size(), 32);
}

}  // namespace muster::test

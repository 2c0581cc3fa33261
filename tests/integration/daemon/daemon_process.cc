#include "tests/integration/daemon/daemon_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

extern char** environ;

namespace muster::testing {
namespace {

constexpr int kOptionsFd = 60;
constexpr int kListenFd = 61;

int Listen(std::string* target) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  MUSTER_CHECK(bind(fd, raw, size) == 0 && listen(fd, 4096) == 0, "a socket for the daemon");
  MUSTER_CHECK(getsockname(fd, raw, &size) == 0, "its port");
  *target = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  return fd;
}

int OptionsFile(const std::string& text) {
  const int fd = memfd_create("options", MFD_CLOEXEC);
  MUSTER_CHECK(fd >= 0, "a file for the options");
  MUSTER_CHECK(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()), "written");
  lseek(fd, 0, SEEK_SET);
  return fd;
}

int CodeOf(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

std::string Version() { return MUSTER_VERSION; }

DaemonProcess::DaemonProcess(const std::vector<std::string>& nodes)
    : program(MUSTER_RENDEZVOUSD), credentials_(client::MakeRunCredentials().value()) {
  options.config.run_id = "test-run";
  options.config.version = Version();
  options.config.nodes = nodes;
  options.config.min_nodes = static_cast<std::uint32_t>(nodes.size());
  options.config.max_nodes = options.config.min_nodes;
  options.listen_fd = Listen(&target_);
  options.join_secret = credentials_.join_secret;
  options.operator_secret = credentials_.operator_secret;
  options.certificate = credentials_.certificate;
  options.private_key = credentials_.private_key;
  options.journal = folder_.path() + "/journal";
  options.state_dir = folder_.path() + "/state";
}

DaemonProcess::~DaemonProcess() {
  if (pid_ > 0) Kill(SIGKILL);
  close(options.listen_fd);
}

void DaemonProcess::Start() {
  ASSERT_LT(pid_, 0) << "already running";
  protocol::StartOptions given = options;
  given.listen_fd = kListenFd;
  const int options_fd = OptionsFile(protocol::ToJson(given));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, options_fd, kOptionsFd);
  posix_spawn_file_actions_adddup2(&actions, options.listen_fd, kListenFd);
  std::vector<std::string> words = wrapper;
  words.push_back(program);
  words.emplace_back("--options-fd");
  words.push_back(std::to_string(kOptionsFd));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int error = posix_spawnp(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(options_fd);
  ASSERT_EQ(error, 0) << arguments[0];
}

int DaemonProcess::Kill(int signal) {
  if (pid_ < 0) return -1;
  kill(pid_, signal);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return CodeOf(status);
}

int DaemonProcess::Wait(Duration limit) {
  const TimePoint end = SteadyNow() + limit;
  while (SteadyNow() < end) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return CodeOf(status);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return -1;
}

client::Options DaemonProcess::ClientOptions(const std::string& secret) const {
  client::Options out;
  out.target = target_;
  out.certificate = credentials_.certificate;
  out.secret = secret;
  return out;
}

std::unique_ptr<client::Client> DaemonProcess::Join() const {
  return client::Client::Create(ClientOptions(credentials_.join_secret)).value();
}

std::unique_ptr<client::Client> DaemonProcess::Operate() const {
  return client::Client::Create(ClientOptions(credentials_.operator_secret)).value();
}

std::string DaemonProcess::StateFile(const std::string& name) const {
  std::ifstream file(options.state_dir + "/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace muster::testing

#include "launcher/agent/process_tree.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "launcher/agent/node_lock.h"
#include "launcher/agent/worker_trees.h"

namespace muster::agent {
namespace {

// A child that starts, through two forks and a session of its own, a process that ignores TERM.
// Writes that process's pid.
pid_t StartWithDaemon(pid_t* daemon) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    if (fork() == 0) {
      setsid();
      const pid_t grandchild = fork();
      if (grandchild == 0) {
        signal(SIGTERM, SIG_IGN);
        const pid_t self = getpid();
        if (write(ends[1], &self, sizeof(self)) < 0) _exit(1);
        for (;;) pause();
      }
      _exit(0);
    }
    for (;;) pause();
  }
  const bool told = read(ends[0], daemon, sizeof(*daemon)) == sizeof(*daemon);
  close(ends[0]);
  close(ends[1]);
  return told ? child : -1;
}

bool Exists(pid_t pid) {
  const std::optional<ProcessInfo> process = ReadProcess(pid);
  return process && process->alive();
}

TEST(ProcessTree, FindsAndEndsDaemonsOfItsChildrenAndNobodyElse) {
  // In a process of its own, which is the subreaper; the stranger is its sibling.
  const pid_t stranger = fork();
  if (stranger == 0) {
    for (;;) pause();
  }
  const pid_t agent = fork();
  if (agent == 0) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t daemon = 0;
    const pid_t child = StartWithDaemon(&daemon);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    bool saw_child = false;
    bool saw_daemon = false;
    bool saw_stranger = false;
    for (const ProcessInfo& process : Descendants(getpid())) {
      saw_child = saw_child || process.pid == child;
      saw_daemon = saw_daemon || process.pid == daemon;
      saw_stranger = saw_stranger || process.pid == stranger;
    }
    const bool ended = KillDescendants(getpid(), std::chrono::seconds(5)).empty();
    const bool good =
        saw_child && saw_daemon && !saw_stranger && ended && !Exists(child) && !Exists(daemon);
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(agent, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Exists(stranger));
  kill(stranger, SIGKILL);
  waitpid(stranger, &status, 0);
}

TEST(ProcessTree, ANumberThatWasGivenToAnotherIsNotSignalled) {
  std::optional<ProcessInfo> self = ReadProcess(getpid());
  ASSERT_TRUE(self);
  ProcessInfo other = *self;
  other.start_time += 1;
  EXPECT_FALSE(SignalProcess(other, SIGKILL));  // or this test is dead
  EXPECT_TRUE(SignalProcess(*self, 0));
}

TEST(ProcessTree, KnowsWhoCatchesASignal) {
  EXPECT_FALSE(CatchesSignal(getpid(), SIGUSR1));
  signal(SIGUSR1, [](int) {});
  EXPECT_TRUE(CatchesSignal(getpid(), SIGUSR1));
  EXPECT_FALSE(CatchesSignal(getpid(), SIGUSR2));
  signal(SIGUSR1, SIG_DFL);
}

TEST(ProcessTree, StatOfHostileNames) {
  const auto parsed =
      ParseProcessStat("12 (a) R (b 1 2) S 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 987 1 2");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->name, "a) R (b 1 2");
  EXPECT_EQ(parsed->parent, 3);
  EXPECT_EQ(parsed->session, 5);
  EXPECT_EQ(parsed->start_time, 987U);
  EXPECT_FALSE(ParseProcessStat(""));
  EXPECT_FALSE(ParseProcessStat(")("));
  EXPECT_FALSE(ParseProcessStat("12 (a) S 3"));
}

ProcessInfo Info(pid_t pid, pid_t parent, pid_t session) {
  ProcessInfo info;
  info.pid = pid;
  info.parent = parent;
  info.session = session;
  info.state = 'S';
  return info;
}

TEST(WorkerTrees, OrphansFindTheirWorker) {
  const WorkerId first{0, 1};
  const WorkerId second{1, 2};
  // 1 is the supervisor; 10 lives, 20 is dead.
  const std::map<pid_t, WorkerProcess> workers = {{10, {first, "m1", true}},
                                                  {20, {second, "m2", false}}};
  const auto marks = [](pid_t pid) { return std::string(pid == 40 ? "m2" : ""); };
  const WorkerTrees trees =
      AttributeProcesses({Info(10, 1, 10), Info(11, 10, 10), Info(12, 11, 12), Info(30, 1, 20),
                          Info(31, 30, 31), Info(40, 1, 40), Info(50, 1, 50), Info(51, 50, 50)},
                         workers, marks);
  const auto pids = [](const std::vector<ProcessInfo>& processes) {
    std::vector<pid_t> out;
    for (const ProcessInfo& process : processes) out.push_back(process.pid);
    return out;
  };
  EXPECT_EQ(pids(trees.trees.at(first)), (std::vector<pid_t>{10, 11, 12}));
  EXPECT_EQ(pids(trees.trees.at(second)), (std::vector<pid_t>{30, 31, 40}));
  EXPECT_EQ(pids(trees.strays), (std::vector<pid_t>{50, 51}));
}

TEST(NodeLock, ASecondLivingAgentIsRefusedByName) {
  std::string name = "/tmp/muster-lock-XXXXXX";
  const std::string folder = std::string(mkdtemp(name.data())) + "/own";
  {
    const auto first = NodeLock::Take(folder, "run", {"n1", 0, 3});
    ASSERT_TRUE(first.ok()) << first.status().message();
    const auto second = NodeLock::Take(folder, "run", {"n1", 0, 3});
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.status().code(), StatusCode::kAlreadyExists);
    EXPECT_NE(second.status().message().find("n1/0.3"), std::string::npos);
    EXPECT_NE(second.status().message().find(std::to_string(getpid())), std::string::npos);
    EXPECT_TRUE(NodeLock::Take(folder, "run", {"n1", 0, 4}).ok());
    EXPECT_TRUE(NodeLock::Take(folder, "run2", {"n1", 0, 3}).ok());
  }
  EXPECT_TRUE(NodeLock::Take(folder, "run", {"n1", 0, 3}).ok());
  EXPECT_NE(access(folder.c_str(), F_OK), 0) << "the folder is left behind";
  rmdir(name.c_str());
}

TEST(NodeLock, AFolderThatOthersCanEnterIsRefused) {
  std::string name = "/tmp/muster-lock-XXXXXX";
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  chmod(name.c_str(), 0755);
  EXPECT_FALSE(NodeLock::Take(name, "run", {"n1", 0, 0}).ok());
  rmdir(name.c_str());
}

}  // namespace
}  // namespace muster::agent

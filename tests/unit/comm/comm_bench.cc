// Figures of the Gloo group against gloo::allreduce on the same machine, in one run: ranks are
// processes made by fork, all-reduce alternates between the two, the medians are printed.
//
//   comm_bench RANKS [REPEATS]

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/unit/session/fake_agent.h"
#include "trainer_runtime/comm/gloo_group.h"

namespace {

using namespace muster;

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

template <typename Body>
double Microseconds(Body body) {
  const TimePoint start = SteadyNow();
  body();
  return std::chrono::duration<double, std::micro>(SteadyNow() - start).count();
}

int Rank(const std::string& socket, const std::string& folder, int repeats) {
  session::Options options;
  options.socket_path = socket;
  options.can_reform = true;
  auto session = session::Session::Connect(options);
  if (!session.ok()) return 1;
  const auto round = (*session)->WaitForRound({}, std::chrono::seconds(60));
  if (!round.ok()) return 1;
  const int rank = static_cast<int>(round->rank), size = static_cast<int>(round->world_size);

  // Forming: ours, then Gloo's own on a file store, each after a barrier.
  std::vector<double> ours_forming, gloo_forming;
  std::unique_ptr<comm::ProcessGroup> group;
  std::shared_ptr<gloo::rendezvous::Context> context;
  auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
  for (int i = 0; i < 9; ++i) {
    const std::string name = "bench" + std::to_string(i);
    if (group != nullptr) group->Close();
    group.reset();
    if (!(*session)->Barrier("a" + name, std::chrono::minutes(1)).ok()) return 1;
    ours_forming.push_back(Microseconds([&] {
      comm::GlooOptions gloo_options;
      gloo_options.name = name;
      auto made = comm::CreateGlooGroup(**session, *round, gloo_options);
      if (!made.ok()) std::abort();
      group = std::move(made).value();
    }));
    context.reset();
    if (!(*session)->Barrier("b" + name, std::chrono::minutes(1)).ok()) return 1;
    gloo_forming.push_back(Microseconds([&] {
      const std::string store_folder = folder + "/" + name;
      std::filesystem::create_directories(store_folder);
      gloo::rendezvous::FileStore store(store_folder);
      context = std::make_shared<gloo::rendezvous::Context>(rank, size);
      context->connectFullMesh(store, device);
    }));
  }
  if (rank == 0) {
    std::printf("%d ranks: forming %.1f ms, Gloo's own (file store) %.1f ms\n", size,
                Median(ours_forming) / 1000, Median(gloo_forming) / 1000);
    std::printf("%12s %14s %14s %8s\n", "bytes", "ours us", "gloo us", "ratio");
  }
  for (std::size_t bytes = 4 << 10; bytes <= 64 << 20; bytes *= 4) {
    std::vector<float> values(bytes / sizeof(float), 0.0F);
    const auto ours = [&] {
      if (!group->AllReduce(values).Wait().ok()) std::abort();
    };
    const auto theirs = [&] {
      gloo::AllreduceOptions allreduce(context);
      allreduce.setOutput(values.data(), values.size());
      allreduce.setReduceFunction(
          static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
      gloo::allreduce(allreduce);
    };
    ours();
    theirs();
    std::vector<double> our_times, their_times;
    const int rounds = bytes > (4 << 20) ? repeats : repeats * 5;
    for (int i = 0; i < rounds; ++i) {
      our_times.push_back(Microseconds(ours));
      their_times.push_back(Microseconds(theirs));
    }
    if (rank == 0) {
      std::printf("%12zu %14.0f %14.0f %8.2f\n", bytes, Median(our_times), Median(their_times),
                  Median(our_times) / Median(their_times));
    }
  }
  group->Close();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 2;
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 9;
  std::string folder = std::filesystem::temp_directory_path() / "muster-bench-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 1;
  // The agent's thread starts after the forks; the children wait for its socket's path.
  int pipes[2];
  if (pipe(pipes) != 0) return 1;
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      char path[256] = {};
      if (read(pipes[0], path, sizeof(path)) != static_cast<ssize_t>(sizeof(path))) return 1;
      const int code = Rank(path, folder, repeats);
      std::fflush(stdout);
      _exit(code);
    }
    children.push_back(pid);
  }
  muster::test::FakeAgent agent(static_cast<std::uint32_t>(size));
  std::string path = agent.socket_path();
  path.resize(256);
  for (int rank = 0; rank < size; ++rank) {
    if (write(pipes[1], path.data(), path.size()) < 0) return 1;
  }
  agent.BeginRound("initial");
  int failed = 0;
  for (const pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    failed += status != 0 ? 1 : 0;
  }
  std::filesystem::remove_all(folder);
  return failed == 0 ? 0 : 1;
}

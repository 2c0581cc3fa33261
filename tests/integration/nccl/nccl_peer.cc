// A rank in a process of its own, on whatever NCCL the loader finds. Usage: nccl_peer MODE [ROUNDS]
//
//   reduce   all-reduces of many sizes; a line "hash N" of all results' bits, and "error E": the
//            largest deviation from a sum in double, in units of what rounding may do
//   loop     all-reduces until one fails, telling progress; then "failed TEXT"
//   rounds   for each of ROUNDS rounds a group, an all-reduce and an end; then a line "left D T P":
//            how many descriptors, threads and pages were gained since the fourth
//
// MUSTER_TEST_TIMEOUT_MS bounds forming. Exits 0; 3 if a group failed; 1 and 2 for the session.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "trainer_runtime/comm/nccl_group.h"
#include "trainer_runtime/session/session.h"

namespace muster {
namespace {

using std::chrono::milliseconds;

std::vector<float> Values(std::uint32_t rank, std::size_t count) {
  std::mt19937 random(rank * 7919U + static_cast<unsigned>(count));
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

int Say(const char* what, const Status& status) {
  std::printf("%s %s\n", what, status.ToString().c_str());
  std::fflush(stdout);
  return 3;
}

class Peer {
 public:
  Peer(session::Session& session, session::RoundInfo round)
      : session_(session), round_(std::move(round)) {
    if (const char* text = std::getenv("MUSTER_TEST_TIMEOUT_MS")) {
      options_.connect_timeout = milliseconds(std::atoi(text));
    }
  }

  int Reduce() {
    auto group = comm::CreateNcclGroup(session_, round_, options_);
    if (!group.ok()) return Say("forming", group.status());
    std::uint64_t hash = 1469598103934665603U;
    double error = 0;
    for (const std::size_t count : {1UL, 31UL, 8192UL, 8193UL, 70'001UL, 1'000'003UL}) {
      std::vector<float> values = Values(round_.rank, count);
      const Status status = (*group)->AllReduce(values).Wait();
      if (!status.ok()) return Say("reducing", status);
      error = std::max(error, Error(values));
      for (const float value : values) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof(bits));
        hash = (hash ^ bits) * 1099511628211U;
      }
    }
    (*group)->Close();
    std::printf("hash %llu\nerror %.3f\n", static_cast<unsigned long long>(hash), error);
    return (*group)->state().ok() ? 0 : 3;
  }

  int Loop() {
    auto group = comm::CreateNcclGroup(session_, round_, options_);
    if (!group.ok()) return Say("forming", group.status());
    std::vector<float> values(1 << 16, 1.0F);
    for (std::int64_t step = 0;; ++step) {
      const Status status = (*group)->AllReduce(values).Wait();
      std::fill(values.begin(), values.end(), 1.0F);
      if (!status.ok()) {
        Say("failed", status);
        group->reset();
        std::printf("destroyed\n");
        std::fflush(stdout);
        return 3;
      }
      if (!session_.Progress(session::Phase::kStep, step).ok()) return 4;
    }
  }

  int Rounds(int rounds) {
    std::size_t first[3] = {0, 0, 0}, last[3] = {0, 0, 0};
    for (int i = 0; i < rounds; ++i) {
      {
        auto group = comm::CreateNcclGroup(session_, round_, options_);
        if (!group.ok()) return Say("forming", group.status());
        std::vector<float> values(300'000, 1.0F);
        const Status status = (*group)->AllReduce(values).Wait();
        if (!status.ok() || values[5] != static_cast<float>(round_.world_size)) {
          return Say("reducing", status);
        }
        (void)session_.Progress(session::Phase::kStep, i);
        if (i % 2 == 0) {
          (*group)->Close();
        } else if (i + 1 < rounds) {
          // The next round ends this one.
          while ((*group)->state().ok()) std::this_thread::sleep_for(milliseconds(1));
        }
      }
      if (i == 3) Count(first);
      if (i + 1 == rounds) break;
      auto next = session_.WaitForRound(session::IdOf(round_), std::chrono::seconds(30));
      if (!next.ok()) return 2;
      round_ = *next;
    }
    std::this_thread::sleep_for(milliseconds(300));
    Count(last);
    const auto gained = [&](int i) {
      return static_cast<long>(last[i]) - static_cast<long>(first[i]);
    };
    std::printf("left %ld %ld %ld\n", gained(0), gained(1), gained(2));
    return 0;
  }

 private:
  // In units of what size - 1 additions of floats may lose.
  double Error(const std::vector<float>& values) const {
    std::vector<double> exact(values.size()), magnitude(values.size());
    for (std::uint32_t rank = 0; rank < round_.world_size; ++rank) {
      const std::vector<float> part = Values(rank, values.size());
      for (std::size_t i = 0; i < part.size(); ++i) {
        exact[i] += static_cast<double>(part[i]);
        magnitude[i] += std::fabs(static_cast<double>(part[i]));
      }
    }
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double allowed = 6e-8 * magnitude[i] * (round_.world_size - 1);
      worst = std::max(worst, std::fabs(static_cast<double>(values[i]) - exact[i]) / allowed);
    }
    return worst;
  }

  static void Count(std::size_t (&numbers)[3]) {
    const auto entries = [](const char* folder) {
      return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                                    std::filesystem::directory_iterator()));
    };
    numbers[0] = entries("/proc/self/fd");
    numbers[1] = entries("/proc/self/task");
    std::size_t total = 0;
    std::ifstream("/proc/self/statm") >> total >> numbers[2];
  }

  session::Session& session_;
  session::RoundInfo round_;
  comm::NcclOptions options_;
};

int Main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  session::Options options = session::OptionsFromEnvironment();
  options.can_reform = true;
  auto session = session::Session::Connect(options);
  if (!session.ok()) return 1;
  auto round = (*session)->WaitForRound({}, std::chrono::seconds(60));
  if (!round.ok()) return 2;
  Peer peer(**session, *round);
  if (mode == "reduce") return peer.Reduce();
  if (mode == "loop") return peer.Loop();
  if (mode == "rounds") return peer.Rounds(std::atoi(argv[2]));
  return 64;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::Main(argc, argv); }

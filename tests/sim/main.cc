// muster-sim: runs seeds of the simulation. See README.md.

#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <unistd.h>

#include "common/text.h"
#include "tests/sim/sim.h"

namespace {

using muster::sim::Planted;

char g_seed_text[64];

// An invariant that breaks aborts: say which seed it was.
void OnAbort(int) {
  const ssize_t written = write(2, g_seed_text, std::strlen(g_seed_text));
  static_cast<void>(written);
}

muster::sim::Result RunSeed(std::uint64_t seed, bool trace, Planted planted) {
  std::snprintf(g_seed_text, sizeof(g_seed_text), "in seed %llu: muster-sim --seed %llu --trace\n",
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed));
  return muster::sim::Sim(seed, trace, planted).Run();
}

struct Options {
  std::uint64_t first = 1;
  std::uint64_t seeds = 100;
  bool trace = false;
  bool self_test = false;
  std::string regression;
};

bool ParseOptions(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto number = [&](std::uint64_t* out) {
      if (i + 1 >= argc) return false;
      const auto parsed = muster::ParseInteger<std::uint64_t>(name, argv[++i]);
      if (parsed.ok()) *out = *parsed;
      return parsed.ok();
    };
    if (name == "--seed") {
      if (!number(&options->first)) return false;
      options->seeds = 1;
    } else if (name == "--first") {
      if (!number(&options->first)) return false;
    } else if (name == "--seeds") {
      if (!number(&options->seeds)) return false;
    } else if (name == "--trace") {
      options->trace = true;
    } else if (name == "--self-test") {
      options->self_test = true;
    } else if (name == "--regression" && i + 1 < argc) {
      options->regression = argv[++i];
    } else {
      return false;
    }
  }
  return true;
}

// Lines "SEED sentence"; '#' begins a comment.
std::vector<std::uint64_t> RegressionSeeds(const std::string& path) {
  std::vector<std::uint64_t> seeds;
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#') continue;
    const auto seed = muster::ParseInteger<std::uint64_t>("seed", line.substr(0, line.find(' ')));
    if (seed.ok()) seeds.push_back(*seed);
  }
  return seeds;
}

int SelfTest(const Options& options) {
  const std::map<Planted, const char*> faults = {{Planted::kLosesOrders, "loses orders"},
                                                 {Planted::kAnswersTwice, "answers twice"},
                                                 {Planted::kForgetsJournal, "forgets journal"},
                                                 {Planted::kRunsTwoRounds, "runs two rounds"},
                                                 {Planted::kRepeatsRequests, "repeats requests"}};
  int missed = 0;
  for (const auto& [planted, name] : faults) {
    std::uint64_t found = 0;
    std::string problem;
    for (std::uint64_t seed = 1; seed <= options.seeds && found == 0; ++seed) {
      problem = RunSeed(seed, false, planted).problem;
      if (!problem.empty()) found = seed;
    }
    std::printf("planted fault \"%s\": %s\n", name,
                found == 0 ? "NOT FOUND" : problem.substr(0, 100).c_str());
    missed += found == 0 ? 1 : 0;
  }
  return missed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!ParseOptions(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: muster-sim [--seeds N] [--first S] [--seed S] [--trace] [--self-test] "
                 "[--regression FILE]\n");
    return 64;
  }
  std::signal(SIGABRT, OnAbort);
  if (options.self_test) return SelfTest(options);
  std::vector<std::uint64_t> seeds = RegressionSeeds(options.regression);
  for (std::uint64_t i = 0; i < options.seeds; ++i) seeds.push_back(options.first + i);

  std::map<std::string, std::uint64_t> endings;
  std::uint64_t steps = 0;
  std::uint64_t rounds = 0;
  std::uint64_t replays = 0;
  std::uint64_t failed = 0;
  for (const std::uint64_t seed : seeds) {
    const muster::sim::Result result = RunSeed(seed, options.trace, Planted::kNone);
    steps += result.steps;
    rounds += result.rounds;
    replays += result.replays;
    ++endings[result.problem.empty() ? result.ending : "FAILED"];
    if (result.problem.empty()) continue;
    ++failed;
    std::printf("seed %llu: %s\n  again: muster-sim --seed %llu --trace\n",
                static_cast<unsigned long long>(seed), result.problem.c_str(),
                static_cast<unsigned long long>(seed));
  }
  std::printf("%zu seeds, %llu steps, %llu rounds, %llu replays\n", seeds.size(),
              static_cast<unsigned long long>(steps), static_cast<unsigned long long>(rounds),
              static_cast<unsigned long long>(replays));
  for (const auto& [ending, count] : endings) {
    std::printf("%8llu  %s\n", static_cast<unsigned long long>(count), ending.c_str());
  }
  return failed == 0 ? 0 : 1;
}

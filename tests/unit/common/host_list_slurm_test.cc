// muster's host lists against Slurm's own: `scontrol show hostnames` must say the same.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "common/host_list.h"
#include "common/random.h"
#include "common/text.h"

namespace muster {
namespace {

class HostListSlurmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/muster_slurm_conf_XXXXXX";
    const int descriptor = mkstemp(name);
    ASSERT_GE(descriptor, 0);
    close(descriptor);
    conf_ = name;
    std::ofstream(conf_) << "ClusterName=test\nSlurmctldHost=localhost\nAuthType=auth/none\n"
                            "NodeName=n1 CPUs=1\nPartitionName=p Nodes=n1\n";
    if (Hostnames("n[1-2]").value_or({}) != std::vector<std::string>{"n1", "n2"}) {
      GTEST_SKIP() << "no scontrol that works without a controller on this machine";
    }
  }
  void TearDown() override { unlink(conf_.c_str()); }

  // What scontrol says; an error if it prints nothing or fails.
  Result<std::vector<std::string>> Hostnames(const std::string& list) {
    const std::string command =
        "SLURM_CONF=" + conf_ + " scontrol show hostnames '" + list + "' 2>/dev/null";
    FILE* output = popen(command.c_str(), "r");
    if (output == nullptr) return Unavailable("popen failed");
    std::string text;
    char buffer[4096];
    for (std::size_t count; (count = fread(buffer, 1, sizeof(buffer), output)) > 0;) {
      text.append(buffer, count);
    }
    if (pclose(output) != 0) return Unavailable("scontrol failed");
    std::vector<std::string> hosts;
    for (const std::string_view line : Split(text, '\n')) {
      if (!line.empty()) hosts.emplace_back(line);
    }
    if (hosts.empty()) return Unavailable("scontrol printed nothing");
    return hosts;
  }

  std::string conf_;
};

std::string RandomNumber(Random& random) {
  std::string digits = std::to_string(random.Below(random.Chance(0.5) ? 12 : 200));
  if (random.Chance(0.4)) digits.insert(0, random.Below(3), '0');
  return digits;
}

std::string RandomBracket(Random& random) {
  std::string inside;
  for (std::uint64_t n = 1 + random.Below(3); n > 0; --n) {
    const std::uint64_t low = random.Below(120);
    std::string first = std::to_string(low);
    if (random.Chance(0.4)) first.insert(0, random.Below(3), '0');
    inside += first;
    if (random.Chance(0.6)) {
      std::string last = std::to_string(low + random.Below(15));
      while (random.Chance(0.8) && last.size() < first.size()) last.insert(0, 1, '0');
      inside += '-' + last;
    }
    inside += ',';
  }
  inside.pop_back();
  return '[' + inside + ']';
}

std::string RandomList(Random& random) {
  const std::vector<std::string> prefixes = {"n", "ml-16-node-", "gpu", "r1-", "x.y", "c9d"};
  std::string list;
  for (std::uint64_t n = 1 + random.Below(4); n > 0; --n) {
    list += prefixes[random.Below(prefixes.size())];
    switch (random.Below(4)) {
      case 0:
        break;
      case 1:
        list += RandomNumber(random);
        break;
      case 2:
        list += RandomBracket(random);
        break;
      default:
        list += RandomBracket(random) + "n" + RandomBracket(random);
        break;
    }
    list += ',';
  }
  list.pop_back();
  return list;
}

TEST_F(HostListSlurmTest, ExpandsLikeScontrol) {
  Random random(21);
  for (int round = 0; round < 150; ++round) {
    const std::string list = RandomList(random);
    const auto theirs = Hostnames(list);
    ASSERT_TRUE(theirs.ok()) << list;
    const auto ours = ExpandHostList(list);
    ASSERT_TRUE(ours.ok()) << ours.status().ToString();
    ASSERT_EQ(ours.value(), theirs.value()) << list;
  }
}

TEST_F(HostListSlurmTest, ScontrolReadsWhatWeCompress) {
  Random random(22);
  for (int round = 0; round < 100; ++round) {
    const std::vector<std::string> hosts = ExpandHostList(RandomList(random)).value();
    const std::string list = CompressHostList(hosts);
    ASSERT_EQ(Hostnames(list).value_or({}), hosts) << list;
  }
}

}  // namespace
}  // namespace muster

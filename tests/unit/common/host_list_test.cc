#include "common/host_list.h"

#include <gtest/gtest.h>

#include "common/random.h"
#include "common/text.h"

namespace muster {
namespace {

struct Case {
  const char* list;
  std::vector<std::string> hosts;
};

TEST(HostListTest, Expands) {
  const std::vector<Case> cases = {
      {"linux[1,2]", {"linux1", "linux2"}},
      {"alpha,beta,gamma", {"alpha", "beta", "gamma"}},
      {"n", {"n"}},
      {"host[001,003-004,006]", {"host001", "host003", "host004", "host006"}},
      {"h[009-010]", {"h009", "h010"}},
      {"h[099-100]", {"h099", "h100"}},
      {"h[99-101]", {"h99", "h100", "h101"}},
      {"ml-16-node-[001-002,004],ml-17-node-[001-003]",
       {"ml-16-node-001", "ml-16-node-002", "ml-16-node-004", "ml-17-node-001", "ml-17-node-002",
        "ml-17-node-003"}},
      {"host-[001-002]", {"host-001", "host-002"}},
      {"c[1-2]", {"c1", "c2"}},
      {"n[001-003,7]", {"n001", "n002", "n003", "n7"}},
      {"n[01-3]", {"n01", "n02", "n03"}},
      {"r[1-2]n[01-02]", {"r1n01", "r1n02", "r2n01", "r2n02"}},
      {"n[1-2]-ib", {"n1-ib", "n2-ib"}},
      {"r[1-2]n[1-2].x", {"r1n1.x", "r1n2.x", "r2n1.x", "r2n2.x"}},
      {"a,a", {"a", "a"}},
      {"n*2", {"n*2"}},
      {"", {}},
      {" n1,n2\n", {"n1", "n2"}},
      {"[1-2]", {"1", "2"}},
      {"n[5]", {"n5"}},
      {"node-0.cluster.example", {"node-0.cluster.example"}},
      {"10.0.0.[1-2]", {"10.0.0.1", "10.0.0.2"}},
  };
  for (const Case& c : cases) {
    const auto hosts = ExpandHostList(c.list);
    ASSERT_TRUE(hosts.ok()) << hosts.status().ToString();
    EXPECT_EQ(hosts.value(), c.hosts) << c.list;
  }
}

TEST(HostListTest, RefusesQuotingTheListAndTheWayOut) {
  for (const char* list : {"n[1-3",
                           "n1-3]",
                           "n[3-1]",
                           "a,,b",
                           ",",
                           "a,",
                           ",a",
                           "n[]",
                           "n[1,]",
                           "n[,1]",
                           "n[1-]",
                           "n[-1]",
                           "n[1-2-3]",
                           "n[a-c]",
                           "n[1[2]]",
                           "n[[1]]",
                           "n[1]]",
                           "]n[",
                           "n[1 -2]",
                           "a b",
                           "n[1-65537]",
                           "n[0-99999999999]",
                           "n[1-300]x[1-300]",
                           "n[1-256]x[1-256],y",
                           "n[1-99999999999999999999]",
                           "a\tb",
                           "n[0x1-0x3]",
                           "a\x01"
                           "b",
                           "n[1-2][",
                           "n[1-2],["}) {
    const auto hosts = ExpandHostList(list);
    ASSERT_FALSE(hosts.ok()) << list;
    EXPECT_EQ(hosts.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(hosts.status().message().find(Quote(list)), std::string::npos);
    EXPECT_NE(hosts.status().message().find("--hosts"), std::string::npos);
  }
  EXPECT_FALSE(ExpandHostList(std::string(300, 'n')).ok());
  EXPECT_FALSE(ExpandHostList(std::string(kMaxHostListBytes + 1, 'n')).ok());
  // The exponential kind: refused before it is unrolled.
  std::string product;
  for (int i = 0; i < 14; ++i) product += "[0-65535]";
  EXPECT_FALSE(ExpandHostList(product).ok());
}

TEST(HostListTest, TakesTheLargestMachine) {
  EXPECT_EQ(ExpandHostList("n[1-65536]").value().size(), kMaxHosts);
  EXPECT_EQ(ExpandHostList("n[00001-65536]").value().back(), "n65536");
}

TEST(HostListTest, Compresses) {
  EXPECT_EQ(CompressHostList({}), "");
  EXPECT_EQ(CompressHostList({"n1"}), "n1");
  EXPECT_EQ(CompressHostList({"n1", "n2", "n3", "n7", "login"}), "n[1-3,7],login");
  EXPECT_EQ(CompressHostList({"n009", "n010", "n10"}), "n[009-010,10]");
  EXPECT_EQ(CompressHostList({"n9", "n10"}), "n[9-10]");
  EXPECT_EQ(CompressHostList({"n99", "n100", "n0101"}), "n[99-100,0101]");
  EXPECT_EQ(CompressHostList({"n2", "n1", "n1"}), "n[2,1,1]");
  EXPECT_EQ(CompressHostList({"a", "b", "a"}), "a,b,a");
  EXPECT_EQ(CompressHostList({"r1n1", "r1n2", "r2n1"}), "r1n[1-2],r2n1");
  EXPECT_EQ(CompressHostList({"n1-ib", "n2-ib"}), "n1-ib,n2-ib");
  EXPECT_EQ(CompressHostList({"n1234567890123456789012"}), "n1234567890123456789012");
}

// A host set of many shapes: shared prefixes, runs, padding, gaps, duplicates, suffixes.
std::vector<std::string> RandomHosts(Random& random) {
  const std::vector<std::string> prefixes = {"n", "ml-16-node-", "r1n", "", "x.y-", "a0b"};
  std::vector<std::string> hosts;
  const std::uint64_t count = 1 + random.Below(30);
  std::string prefix = "n";
  std::uint64_t number = 0;
  std::size_t width = 0;
  while (hosts.size() < count) {
    if (random.Chance(0.2)) prefix = prefixes[random.Below(prefixes.size())];
    if (random.Chance(0.2)) number = random.Below(120);
    if (random.Chance(0.1)) width = random.Below(5);
    std::string digits = std::to_string(number);
    if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
    std::string host = prefix + digits;
    if (random.Chance(0.05)) host += "-ib";
    if (random.Chance(0.05)) host = "login";
    hosts.push_back(host);
    if (!random.Chance(0.05)) ++number;
  }
  return hosts;
}

TEST(HostListTest, RandomSetsComeBack) {
  Random random(5);
  for (int round = 0; round < 20000; ++round) {
    const std::vector<std::string> hosts = RandomHosts(random);
    const std::string list = CompressHostList(hosts);
    const auto back = ExpandHostList(list);
    ASSERT_TRUE(back.ok()) << back.status().ToString();
    ASSERT_EQ(back.value(), hosts) << list;
  }
}

TEST(HostListTest, RandomBytesNeverCrashAndNeverShrink) {
  Random random(6);
  constexpr std::string_view kBytes = "nab019[]--,,.[]0 \xff\n";
  int accepted = 0;
  for (int round = 0; round < 100000; ++round) {
    std::string list;
    for (std::uint64_t n = random.Below(16); n > 0; --n)
      list += kBytes[random.Below(kBytes.size())];
    const auto hosts = ExpandHostList(list);
    if (!hosts.ok()) continue;
    ++accepted;
    // An accepted list has at least a host for each of its commas outside brackets.
    std::size_t commas = 0;
    bool inside = false;
    for (const char c : list) {
      inside = c == '[' || (inside && c != ']');
      commas += c == ',' && !inside ? 1U : 0U;
    }
    if (Trim(list).empty()) continue;
    ASSERT_GT(hosts.value().size(), commas) << Quote(list);
    ASSERT_EQ(ExpandHostList(CompressHostList(hosts.value())).value(), hosts.value())
        << Quote(list);
  }
  EXPECT_GT(accepted, 1000);
  for (int round = 0; round < 20000; ++round) {
    std::string list;
    for (std::uint64_t n = random.Below(40); n > 0; --n) {
      list += static_cast<char>(random.Below(256));
    }
    (void)ExpandHostList(list);
  }
}

}  // namespace
}  // namespace muster

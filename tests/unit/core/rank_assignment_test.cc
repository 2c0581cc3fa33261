#include "rendezvousd/core/rank_assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/random.h"

namespace muster::core {
namespace {

using Names = std::vector<std::string>;

TEST(PlaceNodes, Table) {
  struct Case {
    const char* name;
    Names previous;
    Names candidates;
    std::uint32_t max;
    Names placed;
  };
  const std::vector<Case> cases = {
      {"first round", {}, {"n1", "n2", "n3"}, 3, {"n1", "n2", "n3"}},
      {"spares stay out", {}, {"n1", "n2", "n3"}, 2, {"n1", "n2"}},
      {"everybody is back", {"n3", "n1"}, {"n1", "n2", "n3"}, 2, {"n3", "n1"}},
      {"a spare in the lost one's place",
       {"n1", "n2", "n3"},
       {"n1", "n3", "n4", "n5"},
       3,
       {"n1", "n4", "n3"}},
      {"two lost, spares in order", {"n1", "n2", "n3"}, {"n2", "n4", "n5"}, 3, {"n4", "n2", "n5"}},
      {"no spare: close up", {"n1", "n2", "n3"}, {"n1", "n3"}, 3, {"n1", "n3"}},
      {"grown behind", {"n2", "n1"}, {"n1", "n2", "n3"}, 4, {"n2", "n1", "n3"}},
      {"nobody of the last round", {"n1"}, {"n2"}, 1, {"n2"}},
      {"none at all", {"n1"}, {}, 1, {}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    EXPECT_EQ(PlaceNodes(one.previous, one.candidates, one.max), one.placed);
  }
}

// Whatever was before: as many as can be, each once, and who was there keeps the order.
TEST(PlaceNodes, RandomRules) {
  Random random(7);
  for (int i = 0; i < 2000; ++i) {
    Names all;
    for (int n = 0; n < 12; ++n) all.push_back("n" + std::to_string(n));
    std::shuffle(all.begin(), all.end(), random);
    Names previous(all.begin(), all.begin() + random.Between(0, 6));
    Names candidates;
    for (const std::string& name : all) {
      if (random.Chance(0.6)) candidates.push_back(name);
    }
    std::sort(candidates.begin(), candidates.end());
    const auto max = static_cast<std::uint32_t>(
        random.Between(std::max<std::int64_t>(1, static_cast<std::int64_t>(previous.size())), 8));
    const Names placed = PlaceNodes(previous, candidates, max);
    ASSERT_EQ(placed.size(), std::min<std::size_t>(max, candidates.size()));
    Names sorted = placed;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
    Names kept_before;
    Names kept_after;
    for (const std::string& name : previous) {
      if (std::count(placed.begin(), placed.end(), name) > 0) kept_before.push_back(name);
    }
    for (const std::string& name : placed) {
      ASSERT_GT(std::count(candidates.begin(), candidates.end(), name), 0);
      if (std::count(previous.begin(), previous.end(), name) > 0) kept_after.push_back(name);
    }
    ASSERT_EQ(kept_before, kept_after);
    // A member of the last round is never left out for a spare.
    for (const std::string& name : previous) {
      if (std::count(candidates.begin(), candidates.end(), name) > 0) {
        ASSERT_EQ(std::count(placed.begin(), placed.end(), name), 1) << name;
      }
    }
    // Without a hole, places are kept exactly.
    if (kept_before.size() == previous.size()) {
      ASSERT_TRUE(std::equal(previous.begin(), previous.end(), placed.begin()));
    }
  }
}

TEST(AssignRanks, OneNodesRanksAreAdjacent) {
  const auto out =
      AssignRanks({{2, 2}, {4}, {2, 2}}, {.previous_world_size = 16, .restart_count = 3});
  ASSERT_EQ(out.size(), 5U);
  const std::vector<std::uint32_t> first = {0, 2, 4, 8, 10};
  const std::vector<std::uint32_t> local = {0, 2, 0, 0, 2};
  const std::vector<std::uint32_t> node = {0, 0, 1, 2, 2};
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i].first_rank, first[i]);
    EXPECT_EQ(out[i].first_local_rank, local[i]);
    EXPECT_EQ(out[i].node_rank, node[i]);
    EXPECT_EQ(out[i].node_count, 3U);
    EXPECT_EQ(out[i].world_size, 12U);
    EXPECT_EQ(out[i].local_world_size, 4U);
    EXPECT_EQ(out[i].previous_world_size, 16U);
    EXPECT_EQ(out[i].restart_count, 3U);
    EXPECT_EQ(out[i].tasks_per_node, "4(x3)");
  }
}

}  // namespace
}  // namespace muster::core

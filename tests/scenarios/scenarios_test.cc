#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "tests/scenarios/scenario.h"

namespace muster::scenario {
namespace {

std::vector<std::string> Files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_SCENARIO_DIR)) {
    if (entry.path().extension() == ".txt" && entry.path().stem() != "CMakeLists") {
      files.push_back(entry.path().stem().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

class Scenarios : public testing::TestWithParam<std::string> {};

TEST_P(Scenarios, Holds) {
  std::ifstream in(std::string(MUSTER_SCENARIO_DIR) + "/" + GetParam() + ".txt");
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(Play(text.str()), "");
}

INSTANTIATE_TEST_SUITE_P(Texts, Scenarios, testing::ValuesIn(Files()),
                         [](const auto& text) { return text.param; });

// The driver itself must be able to fail.
TEST(ScenarioDriver, NoticesAWrongExpectation) {
  const std::string text = "config nodes=n1 min=1 max=1\njoin n1\n";
  EXPECT_EQ(Play(text + "expect phase preparing\n"), "");
  EXPECT_NE(Play(text + "expect phase active\n"), "");
  EXPECT_NE(Play(text + "expect order n1 run\n"), "");
  EXPECT_NE(Play(text + "expect waiting \"n7\"\n"), "");
  EXPECT_NE(Play(text + "no such command\n"), "");
}

TEST(ScenarioDriver, HasEnoughTexts) { EXPECT_GE(Files().size(), 12U); }

}  // namespace
}  // namespace muster::scenario

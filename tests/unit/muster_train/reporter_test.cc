#include "trainer_runtime/muster_train/reporter.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/support/temporary_folder.h"

namespace muster::train_program {
namespace {

// The file is the user's and the path the file system's: neither may end a training.
TEST(Reporter, TakesAnyFileAndAnyPath) {
  const testing::TemporaryFolder folder;
  Options options;
  options.json_lines = folder.path() + "/events";
  std::ofstream(options.json_lines)
      << "{\"event\":5}\n{\"event\":\"step\",\"step\":7}\n[]\nno JSON";
  {
    Reporter reporter(options);
    reporter.EnterRound({}, 10);
    reporter.Resume("checkpoint /tmp/\xff", 3, 0.5);
  }
  std::stringstream text;
  text << std::ifstream(options.json_lines).rdbuf();
  EXPECT_NE(text.str().find("\"repeated\":4"), std::string::npos) << text.str();
}

}  // namespace
}  // namespace muster::train_program

#pragma once

// A state folder BASE = .muster/12 with one run, run1, and a home for pointers; gone after the
// test.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "launcher/slurm/environment_map.h"

namespace muster::cli {

class StateFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / "muster-cli-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    base_ = folder_ + "/.muster/12";
    MakeRun("run1");
    environment_["XDG_STATE_HOME"] = folder_ + "/home";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void MakeRun(const std::string& name) {
    std::filesystem::create_directories(base_ + "/" + name);
    std::ofstream(base_ + "/" + name + "/spec.json") << "{}";
    std::ofstream(base_ + "/runs.json") << "";
  }
  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path(base_ + "/" + name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  std::string folder_;
  std::string base_;
  slurm::EnvironmentMap environment_;
};

}  // namespace muster::cli

#include "rendezvousd/server/crash_mark.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace muster::server {
namespace {

class CrashMarkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "muster-crash-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    path_ = folder + "/mark";
  }
  void TearDown() override { std::filesystem::remove_all(path_.substr(0, path_.rfind('/'))); }
  std::unique_ptr<CrashMark> Open() { return CrashMark::Open(path_).value(); }
  void DieAt(std::uint64_t record) { Open()->Enter(record); }

  std::string path_;
};

TEST_F(CrashMarkTest, ThreeDeathsAtOneRecordSetItAside) {
  DieAt(7);
  DieAt(7);
  EXPECT_FALSE(Open()->IsSetAside(7));
  DieAt(7);
  const auto mark = Open();
  EXPECT_TRUE(mark->IsSetAside(7));
  EXPECT_FALSE(mark->IsSetAside(6));
  EXPECT_TRUE(mark->status().ok());
  EXPECT_TRUE(Open()->IsSetAside(7)) << "and it stays so";
}

TEST_F(CrashMarkTest, DeathsElsewhereOrBetweenRecordsDoNotAddUp) {
  DieAt(7);
  DieAt(8);
  DieAt(7);
  DieAt(0);
  {
    const auto mark = Open();
    mark->Enter(7);
    mark->Leave();
  }
  DieAt(7);
  const auto mark = Open();
  EXPECT_FALSE(mark->IsSetAside(7));
  EXPECT_FALSE(mark->IsSetAside(8));
}

TEST_F(CrashMarkTest, GivesUpAfterTooMany) {
  for (std::uint64_t record = 0; record < 17; ++record) {
    for (int i = 0; i < 3; ++i) DieAt(record);
  }
  EXPECT_EQ(Open()->status().code(), StatusCode::kResourceExhausted);
}

TEST_F(CrashMarkTest, ForeignBytesAreForgotten) {
  std::ofstream(path_) << "not a mark, but long enough to be read as one: ...................";
  EXPECT_TRUE(Open()->status().ok());
  EXPECT_FALSE(Open()->IsSetAside(0));
}

}  // namespace
}  // namespace muster::server

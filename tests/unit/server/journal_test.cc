#include "rendezvousd/server/journal.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/text.h"

namespace muster::server {
namespace {

namespace fs = std::filesystem;

class JournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "muster-journal-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    path_ = folder_ + "/journal";
    head_.boot_id = "boot";
    head_.config.run_id = "run";
    head_.config.version = "1";
    head_.config.nodes = {"n0"};
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A journal with three records, the second with the first's bytes inside it.
  void Write() {
    auto journal = Journal::Open(path_, head_).value();
    for (const char* payload : {"one", "two", "three"}) {
      journal->Add(TimePoint(Duration(1000)), payload);
      offsets_.push_back(Size());
      ASSERT_TRUE(journal->Commit().ok());
    }
    offsets_.push_back(Size());
  }
  std::uint64_t Size() const { return fs::file_size(path_); }
  std::string Bytes() const {
    std::ifstream file(path_, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void SetBytes(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  // Payloads of the records after opening, or the error.
  Result<std::vector<std::string>> Records() {
    auto journal = Journal::Open(path_, head_);
    if (!journal.ok()) return journal.status();
    std::vector<std::string> out;
    MUSTER_RETURN_IF_ERROR((*journal)->Replay([&](const JournalRecord& record) {
      out.emplace_back(record.payload);
      return OkStatus();
    }));
    return out;
  }

  std::string folder_;
  std::string path_;
  JournalHead head_;
  std::vector<std::uint64_t> offsets_;  // where each record begins, and the end
};

using Payloads = std::vector<std::string>;

TEST_F(JournalTest, GivesBackWhatWasWritten) {
  Write();
  EXPECT_EQ(Records().value(), (Payloads{"one", "two", "three"}));
  auto journal = Journal::Open(path_, head_).value();
  EXPECT_EQ(journal->Add(TimePoint(Duration(2000)), std::string("\0four", 5)), 3U);
  ASSERT_TRUE(journal->Commit().ok());
  EXPECT_FALSE(Journal::Open(path_, head_).ok()) << "one process at a time";
  journal.reset();
  EXPECT_EQ(Records().value().at(3), std::string("\0four", 5));
}

TEST_F(JournalTest, ATailTornAtAnyByteIsCut) {
  Write();
  const std::string whole = Bytes();
  for (std::uint64_t size = offsets_[0]; size < whole.size(); ++size) {
    SetBytes(whole.substr(0, size));
    Payloads expected;
    if (size >= offsets_[1]) expected.emplace_back("one");
    if (size >= offsets_[2]) expected.emplace_back("two");
    const auto records = Records();
    ASSERT_TRUE(records.ok()) << size << ": " << records.status().ToString();
    EXPECT_EQ(*records, expected) << size;
    // It was cut, and takes new records.
    auto journal = Journal::Open(path_, head_).value();
    EXPECT_EQ(journal->scan().torn_bytes, 0U);
    EXPECT_EQ(journal->Add(TimePoint(), "new"), expected.size());
    ASSERT_TRUE(journal->Commit().ok());
    journal.reset();
    expected.emplace_back("new");
    EXPECT_EQ(Records().value(), expected);
  }
}

TEST_F(JournalTest, AHeadTornAtAnyByteIsWrittenAnew) {
  Write();
  const std::string whole = Bytes();
  for (std::uint64_t size = 0; size < offsets_[0]; ++size) {
    SetBytes(whole.substr(0, size));
    EXPECT_EQ(Records().value(), Payloads()) << size;
  }
}

TEST_F(JournalTest, AFlippedByteIsNeverTaken) {
  Write();
  const std::string whole = Bytes();
  constexpr std::size_t kFlags = 12;  // four bytes without a checksum, tested on their own
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (at >= kFlags && at < kFlags + 4) continue;
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
    SetBytes(bytes);
    const auto records = Records();
    if (at < offsets_[2]) {
      // A head of another length ends beyond the file and reads as torn: nothing is taken.
      if (records.ok()) {
        EXPECT_EQ(*records, Payloads()) << at;
      } else if (at >= offsets_[0]) {
        EXPECT_EQ(records.status().code(), StatusCode::kDataLoss) << at;
        const std::uint64_t record = at < offsets_[1] ? offsets_[0] : offsets_[1];
        EXPECT_NE(records.status().message().find(Concat("offset ", record)), std::string::npos)
            << records.status().message();
      }
    } else {
      ASSERT_TRUE(records.ok()) << at;
      EXPECT_EQ(*records, (Payloads{"one", "two"})) << at;
    }
  }
}

TEST_F(JournalTest, RefusesWhatIsNotItsOwn) {
  Write();
  JournalHead other = head_;
  other.config.attempt = 1;
  EXPECT_EQ(Journal::Open(path_, other).status().code(), StatusCode::kFailedPrecondition);
  other = head_;
  other.config.run_id = "other";
  EXPECT_EQ(Journal::Open(path_, other).status().code(), StatusCode::kFailedPrecondition);
  std::string newer = Bytes();
  newer[8] = 2;
  SetBytes(newer);
  EXPECT_EQ(Records().status().code(), StatusCode::kFailedPrecondition);
  SetBytes("this is a diary");
  EXPECT_EQ(Records().status().code(), StatusCode::kDataLoss);
}

TEST_F(JournalTest, AFullDiskMarksItAsIncomplete) {
  Write();
  auto journal = Journal::Open(path_, head_).value();
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = Size() + 10;
  setrlimit(RLIMIT_FSIZE, &small);
  journal->Add(TimePoint(), std::string(100, 'x'));
  const Status full = journal->Commit();
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(full.ok());
  EXPECT_TRUE(journal->failed());
  journal->Add(TimePoint(), "lost");
  EXPECT_TRUE(journal->Commit().ok()) << "said once";
  journal.reset();
  const auto records = Records();
  EXPECT_EQ(records.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(records.status().message().find("incomplete"), std::string::npos);
}

TEST_F(JournalTest, AValueThatLooksLikeAJournalIsAValue) {
  Write();
  const std::string records = Bytes().substr(offsets_[0]);
  {
    auto journal = Journal::Open(path_, head_).value();
    journal->Add(TimePoint(), records);
    ASSERT_TRUE(journal->Commit().ok());
  }
  EXPECT_EQ(Records().value().at(3), records);
  // Torn within it: the copies inside have earlier indices and are no records.
  SetBytes(Bytes().substr(0, Size() - 1));
  EXPECT_EQ(Records().value(), (Payloads{"one", "two", "three"}));
}

}  // namespace
}  // namespace muster::server

#include "launcher/host/register.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/random.h"
#include "launcher/agent/process_tree.h"

namespace muster::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RunIdentity Start(const std::string& command, std::uint32_t restart = 0, int pid = 1) {
  RunIdentity identity;
  identity.job = "12";
  identity.restart = restart;
  identity.command = command;
  identity.host = "n1";
  identity.pid = pid;
  return identity;
}

bool Dead(const RegisterEntry&) { return false; }
bool Living(const RegisterEntry&) { return true; }

RegisterEntry Entered(RegisterBook* book, const RunIdentity& identity) {
  Result<RegisterEntry*> entry = book->Enter(identity, Dead);
  EXPECT_TRUE(entry.ok()) << entry.status().ToString();
  return entry.ok() ? **entry : RegisterEntry();
}

TEST(Register, RunsAreNumberedInTheirOrder) {
  RegisterBook book;
  EXPECT_EQ(Entered(&book, Start("a")).name, "run1");
  EXPECT_EQ(Entered(&book, Start("b")).name, "run2");
  EXPECT_EQ(Entered(&book, Start("a")).name, "run3");
}

// After a requeue runs side by side may reach the file in another order.
TEST(Register, ARequeuedRunKeepsItsNameWhateverTheOrder) {
  RegisterBook book;
  EXPECT_EQ(Entered(&book, Start("a")).name, "run1");
  EXPECT_EQ(Entered(&book, Start("b")).name, "run2");
  EXPECT_EQ(Entered(&book, Start("a")).name, "run3");
  const RegisterEntry b = Entered(&book, Start("b", 1));
  EXPECT_EQ(b.name, "run2");
  EXPECT_EQ(b.attempt, 1U);
  EXPECT_EQ(Entered(&book, Start("a", 1)).name, "run1");
  EXPECT_EQ(Entered(&book, Start("a", 1)).name, "run3");
  EXPECT_EQ(Entered(&book, Start("c", 1)).name, "run4");
  EXPECT_EQ(Entered(&book, Start("a", 2)).name, "run1");
}

TEST(Register, AnotherJobInTheSameFolderHasRunsOfItsOwnUnlessNamed) {
  RegisterBook book;
  RunIdentity first = Start("a");
  EXPECT_EQ(Entered(&book, first).name, "run1");
  RunIdentity second = Start("a");
  second.job = "13";
  EXPECT_EQ(Entered(&book, second).name, "run2");
  first.name = "long";
  EXPECT_EQ(Entered(&book, first).attempt, 0U);
  second.name = "long";
  const RegisterEntry resumed = Entered(&book, second);
  EXPECT_EQ(resumed.name, "long");
  EXPECT_EQ(resumed.attempt, 1U);
}

TEST(Register, AttemptsOfANameGrowAlsoWithinOneStartOfTheJob) {
  RegisterBook book;
  RunIdentity identity = Start("a");
  identity.name = "x";
  EXPECT_EQ(Entered(&book, identity).attempt, 0U);
  EXPECT_EQ(Entered(&book, identity).attempt, 1U);
  identity.restart = 1;
  EXPECT_EQ(Entered(&book, identity).attempt, 2U);
  identity.restart = 7;
  EXPECT_EQ(Entered(&book, identity).attempt, 7U);
}

TEST(Register, ALivingRunOfTheSameNameIsRefused) {
  RegisterBook book;
  RunIdentity identity = Start("a", 0, 77);
  identity.name = "x";
  ASSERT_TRUE(book.Enter(identity, Living).ok());
  const auto again = book.Enter(identity, Living);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.status().code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(again.status().message(), HasSubstr("process 77 on n1"));
  // The earlier start of the same job cannot live any more, whatever its record says.
  identity.restart = 1;
  EXPECT_TRUE(book.Enter(identity, Living).ok());
}

TEST(Register, ClaimsAreThoseOfLivingRunsOfThisStart) {
  RegisterBook book;
  const auto enter = [&](const RunIdentity& identity, const char* node) {
    (*book.Enter(identity, Dead))->nodes = {node};
  };
  enter(Start("old", 0, 1), "n1");
  enter(Start("a", 1, 2), "n2");
  enter(Start("b", 1, 3), "n3");
  enter(Start("ended", 1, 4), "n4");
  book.Find("run4", 1)->ended = true;
  RunIdentity other = Start("c", 1, 5);
  other.job = "13";
  enter(other, "n5");
  const auto claims = book.Claims(Start("b", 1, 3), Living);
  ASSERT_EQ(claims.size(), 1U);
  EXPECT_EQ(claims[0].run_name, "run2");
  EXPECT_THAT(claims[0].nodes, ElementsAre("n2"));
  EXPECT_TRUE(book.Claims(Start("b", 1, 3), Dead).empty());
}

TEST(Register, WithoutAJobEveryStartIsARunOfItsOwn) {
  RegisterBook book;
  RunIdentity identity = Start("a");
  identity.job = "";
  EXPECT_EQ(Entered(&book, identity).name, "run1");
  EXPECT_EQ(Entered(&book, identity).name, "run2");
}

TEST(Register, IsReadBackAsWritten) {
  RegisterBook book;
  Entered(&book, Start("a"));
  (*book.Enter(Start("b", 3, 9), Dead))->nodes = {"n1", "n2"};
  const auto read = RegisterBook::Read(book.Text());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->Text(), book.Text());
  EXPECT_EQ(read->entries().size(), 2U);
}

TEST(Register, DamageIsAnErrorAndNeverACrash) {
  Random random(3);
  RegisterBook book;
  Entered(&book, Start("a"));
  const std::string good = book.Text();
  for (int i = 0; i < 2000; ++i) {
    std::string text = good;
    for (std::uint64_t n = 1 + random.Below(3); n > 0; --n) {
      text[random.Below(text.size())] = static_cast<char>(random.Below(256));
    }
    if (random.Chance(0.3)) text.resize(random.Below(text.size()));
    const auto read = RegisterBook::Read(text);
    if (!read.ok()) {
      EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
    }
  }
}

TEST(Register, IsLockedWhileOpenAndKeptInItsFile) {
  std::string folder = (std::filesystem::temp_directory_path() / "muster-register-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  {
    auto opened = Register::Open(folder);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    ASSERT_TRUE(opened->book().Enter(Start("a"), Dead).ok());
    ASSERT_TRUE(opened->Save().ok());
  }
  auto again = Register::Open(folder);
  ASSERT_TRUE(again.ok()) << "the lock was given back";
  EXPECT_EQ(again->book().entries().size(), 1U);
  std::filesystem::remove_all(folder);
}

TEST(Register, LivesIsAboutTheVeryProcess) {
  RegisterEntry entry;
  entry.host = "here";
  entry.pid = getpid();
  const auto self = agent::ReadProcess(getpid());
  ASSERT_TRUE(self.has_value());
  entry.start_time = self->start_time;
  EXPECT_TRUE(EntryLives(entry, "here"));
  entry.start_time += 1;  // the number was given to another process
  EXPECT_FALSE(EntryLives(entry, "here"));
  EXPECT_TRUE(EntryLives(entry, "elsewhere"));
  entry.ended = true;
  EXPECT_FALSE(EntryLives(entry, "elsewhere"));
}

}  // namespace
}  // namespace muster::host

#include "trainer_runtime/muster_train/checkpointer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/names.h"
#include "checkpoint/writer.h"
#include "tests/support/temporary_folder.h"

namespace muster::train_program {
namespace {

// A process that is killed while it writes leaves as much as a whole checkpoint, again and again.
TEST(Checkpointer, ASaveRemovesWhatDeadWritersOfTheRunLeftBelowIt) {
  const testing::TemporaryFolder folder;
  auto& files = checkpoint::SystemFiles();
  const auto dead = checkpoint::CreateTemporary(files, folder.path(), "run1", 3).value();
  const auto foreign = checkpoint::CreateTemporary(files, folder.path(), "run2", 3).value();
  const auto later = checkpoint::CreateTemporary(files, folder.path(), "run1", 9).value();

  Options options;
  options.checkpoint_dir = folder.path();
  const auto config = models::FindGptPreset("tiny").value();
  auto replica = Replica::Create(options, config, checkpoint::Digest{}).value();
  replica.Initialize();
  training::TrainingProgress progress = replica.progress();
  progress.step = 5;
  replica.SetState(progress, 0);
  Checkpointer checkpointer(options, "run1", [](const Saved&) {});
  checkpointer.Save(replica, 1);
  ASSERT_TRUE(checkpointer.WaitSaved().ok());
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_TRUE(std::filesystem::exists(foreign));
  EXPECT_TRUE(std::filesystem::exists(later));
}

// Two runs that share a folder: the second must not take the first one's entry for its own.
TEST(Checkpointer, AnotherRunsEntryOfThatStepIsNoSave) {
  const testing::TemporaryFolder folder;
  Options options;
  options.checkpoint_dir = folder.path();
  const auto config = models::FindGptPreset("tiny").value();
  auto replica = Replica::Create(options, config, checkpoint::Digest{}).value();
  replica.Initialize();
  for (const char* run : {"run1", "run2"}) {
    Checkpointer checkpointer(options, run, [](const Saved&) {});
    checkpointer.Save(replica, 1);
    const Status saved = checkpointer.WaitSaved();
    EXPECT_EQ(saved.ok(), std::string(run) == "run1") << saved.ToString();
    EXPECT_EQ(checkpointer.newest_durable().has_value(), saved.ok());
  }
}

}  // namespace
}  // namespace muster::train_program

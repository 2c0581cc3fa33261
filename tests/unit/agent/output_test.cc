#include "launcher/agent/output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <future>

#include "common/random.h"
#include "common/text.h"

namespace muster::agent {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = fs::temp_directory_path() / "muster-output-XXXXXX";
    path = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  std::string path;
};

std::string Contents(const std::string& path) {
  return ReadSmallFile(path, 1U << 30U).value_or("(missing)");
}

TEST(LineCutter, LinesAreTheSameHoweverTheBytesCome) {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (std::uint64_t i = random.Below(60); i > 0; --i) bytes += "ab\r\n"[random.Below(4)];
    const auto cut = [&bytes](auto piece_size) {
      LineCutter cutter;
      std::string raw;
      std::vector<std::string> lines;
      const LineCutter::Sink sink = [&](std::string_view text, std::string_view piece,
                                        LineEnd end) {
        raw += piece;
        lines.push_back(Concat(text, "/", static_cast<int>(end)));
      };
      for (std::size_t at = 0; at < bytes.size();) {
        const std::size_t size = piece_size();
        cutter.Append(std::string_view(bytes).substr(at, size), sink);
        at += size;
      }
      cutter.Flush(sink);
      EXPECT_EQ(raw, bytes);
      return lines;
    };
    const auto whole = cut([] { return std::size_t{1000}; });
    EXPECT_EQ(cut([] { return std::size_t{1}; }), whole);
    EXPECT_EQ(cut([&random] { return std::size_t{1} + random.Below(9); }), whole);
    for (const std::string& line : whole) EXPECT_EQ(line.find('\n'), std::string::npos);
  }
}

TEST(LineCutter, ALineWithoutEndIsCutAndHoldsNoMemory) {
  LineCutter cutter;
  std::size_t bytes = 0;
  std::size_t longest = 0;
  for (int i = 0; i < 1000; ++i) {
    cutter.Append(std::string(1000, 'x'), [&](std::string_view text, auto, LineEnd end) {
      bytes += text.size();
      longest = std::max(longest, text.size());
      EXPECT_EQ(end, LineEnd::kCut);
    });
  }
  EXPECT_GT(bytes, 900'000U);
  EXPECT_LE(longest, kLineBytesMax);
}

TEST(BoundedLog, KeepsTheHeadAndTheNewestParts) {
  const Folder folder;
  const LogLimits limits{1000, 100, 3};
  BoundedLog log(folder.path + "/rank-0.log", limits);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(log.Append(Concat("line ", 1000 + i, "\n")).ok());
  }
  std::uint64_t total = 0;
  std::string newest;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path)) {
    total += entry.file_size();
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  ASSERT_EQ(names.size(), 4U) << "the head and three parts";
  const std::string head = Contents(folder.path + "/rank-0.log");
  EXPECT_TRUE(head.starts_with("line 1000\nline 1001\n"));
  EXPECT_THAT(head, testing::HasSubstr("rank-0.log.part-00001"));
  const std::string tail = Contents(folder.path + "/" + names.back());
  EXPECT_TRUE(tail.ends_with("line 1999\n")) << tail;
  EXPECT_TRUE(tail.starts_with("line ")) << "lines are never torn over files";
  // Between the oldest kept part and the end nothing is missing.
  std::string kept;
  for (std::size_t i = 1; i < names.size(); ++i) kept += Contents(folder.path + "/" + names[i]);
  int expected = std::stoi(kept.substr(5, 4));
  for (const std::string_view line : Split(kept, '\n')) {
    if (line.empty()) continue;
    EXPECT_EQ(line, Concat("line ", expected++));
  }
  EXPECT_LE(total, 1000U + 300U + 300U);
}

TEST(BoundedLog, TheDefaultIsAtMost64MiB) {
  const LogLimits limits;
  EXPECT_EQ(limits.head_bytes, 8U << 20U);
  EXPECT_EQ(limits.head_bytes + limits.parts * limits.part_bytes, 64U << 20U);
}

TEST(WriterThread, RefusesWhatDoesNotFitAndSaysSoAtOnce) {
  WriterThread writer(100);
  std::promise<void> open;
  std::shared_future<void> gate = open.get_future().share();
  ASSERT_TRUE(writer.Push(60, [gate] { gate.wait(); }));
  EXPECT_FALSE(writer.Push(60, [] {}));
  EXPECT_TRUE(writer.Push(40, [] {}));
  open.set_value();
  EXPECT_TRUE(writer.Stop(std::chrono::seconds(5)));
  EXPECT_FALSE(writer.Push(1, [] {}));
}

TEST(WriterThread, AThreadThatHangsDoesNotHangItsOwner) {
  auto open = std::make_shared<std::promise<void>>();
  const std::shared_future<void> gate = open->get_future().share();
  {
    WriterThread writer(100);
    writer.Push(1, [gate] { gate.wait(); });
    writer.Push(1, [] {});
    EXPECT_FALSE(writer.Stop(std::chrono::milliseconds(50)));
  }
  open->set_value();
}

class OutputTest : public testing::Test {
 protected:
  void SetUp() override {
    out_ = Open("out");
    err_ = Open("err");
  }
  int Open(const std::string& name) {
    return open((folder_.path + "/" + name).c_str(), O_CREAT | O_RDWR | O_APPEND, 0600);
  }
  void TearDown() override {
    close(out_);
    close(err_);
  }
  OutputOptions Base() {
    OutputOptions options;
    options.local_folder = folder_.path + "/local";
    options.shared_folder = folder_.path + "/shared";
    options.agent_name = "n1";
    options.out_descriptor = out_;
    options.err_descriptor = err_;
    return options;
  }
  static local::RoundInfo Round(std::uint32_t rank, std::uint32_t world, std::uint32_t round = 1) {
    local::RoundInfo info;
    info.rank = rank;
    info.world_size = world;
    info.round = round;
    return info;
  }
  std::string Out() { return Contents(folder_.path + "/out"); }
  std::string Err() { return Contents(folder_.path + "/err"); }
  std::string Log(const std::string& name) {
    const std::string shared = Contents(folder_.path + "/shared/attempt-0/" + name);
    EXPECT_EQ(Contents(folder_.path + "/local/attempt-0/" + name), shared);
    return shared;
  }

  const Folder folder_;
  int out_ = -1;
  int err_ = -1;
  const TimePoint now_{std::chrono::seconds(100)};
};

TEST_F(OutputTest, ASmallWorldIsShownWithRanksInWholeLines) {
  Output output(Base());
  const WorkerId first{0, 1};
  const WorkerId second{1, 2};
  output.BeginRound(first, Round(4, 8));
  output.BeginRound(second, Round(5, 8));
  output.Append(first, Stream::kOut, "hel", now_);
  output.Append(second, Stream::kOut, "world\n", now_);
  output.Append(first, Stream::kOut, "lo\nno end", now_);
  output.Append(first, Stream::kErr, "oops\n", now_);
  output.EndOfWorker(first, now_);
  EXPECT_TRUE(output.Finish(std::chrono::seconds(5)));
  EXPECT_EQ(Out(), "[rank 5] world\n[rank 4] hello\n[rank 4] no end\n");
  EXPECT_EQ(Err(), "[rank 4] oops\n");
  EXPECT_EQ(Log("rank-4.round-1.log"), "hello\noops\nno end\n");
  EXPECT_EQ(Log("rank-5.round-1.log"), "world\n");
}

TEST_F(OutputTest, AWorldOfOneHasNoPrefix) {
  Output output(Base());
  output.BeginRound({0, 1}, Round(0, 1));
  output.Append({0, 1}, Stream::kOut, "loss 3\n", now_);
  output.Finish(std::chrono::seconds(5));
  EXPECT_EQ(Out(), "loss 3\n");
}

TEST_F(OutputTest, ALargeWorldShowsRankZeroAndFailures) {
  Output output(Base());
  output.BeginRound({0, 1}, Round(0, 9));
  output.BeginRound({1, 2}, Round(1, 9));
  output.Append({0, 1}, Stream::kOut, "epoch 1\n", now_);
  output.Append({1, 2}, Stream::kOut, "quiet\nValueError: bad\n", now_);
  output.ShowFailure({0, 1});
  output.ShowFailure({1, 2});
  output.Finish(std::chrono::seconds(5));
  EXPECT_EQ(Out(), "epoch 1\n");
  EXPECT_EQ(Err(), "[rank 1] quiet\n[rank 1] ValueError: bad\n");
}

TEST_F(OutputTest, ProgressBarsAreThinnedInTheViewAndWholeInTheFile) {
  Output output(Base());
  output.BeginRound({0, 1}, Round(0, 1));
  std::string all;
  for (int i = 0; i < 100; ++i) {
    const std::string state = Concat("\r", i, "%");
    all += state;
    output.Append({0, 1}, Stream::kErr, state, now_ + std::chrono::milliseconds(50) * i);
  }
  output.Append({0, 1}, Stream::kErr, "\n", now_ + std::chrono::seconds(9));
  output.Finish(std::chrono::seconds(5));
  const std::string shown = Err();
  EXPECT_THAT(shown, testing::EndsWith("99%\n"));
  EXPECT_LT(std::count(shown.begin(), shown.end(), '\n'), 9);
  EXPECT_EQ(shown.find('\r'), std::string::npos);
  EXPECT_EQ(Log("rank-0.round-1.log"), all + "\n");
}

TEST_F(OutputTest, ANewRoundHasANewFile) {
  Output output(Base());
  output.BeginRound({0, 1}, Round(3, 4, 1));
  output.Append({0, 1}, Stream::kOut, "one\n", now_);
  output.BeginRound({0, 1}, Round(2, 3, 2));
  output.Append({0, 1}, Stream::kOut, "two\n", now_);
  output.Finish(std::chrono::seconds(5));
  EXPECT_EQ(Log("rank-3.round-1.log"), "one\n");
  EXPECT_EQ(Log("rank-2.round-2.log"), "two\n");
}

TEST_F(OutputTest, VeryLargeWorldsHaveOneFileAnAgent) {
  Output output(Base());
  output.BeginRound({0, 1}, Round(70, 128));
  output.BeginRound({1, 2}, Round(71, 128));
  output.Append({0, 1}, Stream::kOut, "a\n", now_);
  output.Append({1, 2}, Stream::kOut, "b\n", now_);
  output.Finish(std::chrono::seconds(5));
  EXPECT_EQ(Log("n1.round-1.log"), "[rank 70] a\n[rank 71] b\n");
}

TEST_F(OutputTest, RemembersTheLastLines) {
  Output output(Base());
  output.BeginRound({0, 1}, Round(0, 1));
  for (int i = 0; i < 200; ++i) output.Append({0, 1}, Stream::kOut, Concat(i, "\n\n"), now_);
  const std::vector<std::string> lines = output.LastLines({0, 1});
  ASSERT_EQ(lines.size(), kLastLines);
  EXPECT_EQ(lines.front(), "150");
  EXPECT_EQ(lines.back(), "199");
}

// A terminal that nobody reads (here a full pipe) must not stop workers, and what was lost is said.
TEST_F(OutputTest, AStalledPlaceLosesCountedBytesAndNoTime) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  OutputOptions options = Base();
  options.out_descriptor = ends[1];
  options.queue_bytes_max = 200'000;
  Output output(options);
  output.BeginRound({0, 1}, Round(0, 1));
  const std::string line(999, 'x');
  const TimePoint began = SteadyNow();
  // More than the pipe and the queue hold together.
  for (int i = 0; i < 1000; ++i) output.Append({0, 1}, Stream::kOut, line + "\n", now_);
  EXPECT_LT(SteadyNow() - began, std::chrono::seconds(5));
  // Somebody reads again: the pipe is emptied until the note has come.
  std::string read_back;
  std::array<char, 65536> buffer;
  bool told = false;
  for (int i = 0; i < 2000 && !told; ++i) {
    output.Append({0, 1}, Stream::kOut, line + "\n", now_);
    const ssize_t count = read(ends[0], buffer.data(), buffer.size());
    ASSERT_GT(count, 0);
    read_back.append(buffer.data(), static_cast<std::size_t>(count));
    told = read_back.find("bytes of output are missing here") != std::string::npos;
  }
  EXPECT_TRUE(told);
  std::thread reader([&] {
    while (read(ends[0], buffer.data(), buffer.size()) > 0) {
    }
  });
  output.Finish(std::chrono::seconds(10));
  close(ends[1]);
  reader.join();
  close(ends[0]);
}

TEST_F(OutputTest, AFolderThatCannotBeWrittenIsNoReasonToStop) {
  OutputOptions options = Base();
  options.shared_folder = "/proc/nothing/here";
  Output output(options);
  output.BeginRound({0, 1}, Round(0, 1));
  output.Append({0, 1}, Stream::kOut, "still\n", now_);
  EXPECT_FALSE(output.Finish(std::chrono::seconds(5))) << "the shared folder has not everything";
  EXPECT_EQ(Out(), "still\n");
  EXPECT_EQ(Contents(folder_.path + "/local/attempt-0/rank-0.round-1.log"), "still\n");
}

}  // namespace
}  // namespace muster::agent

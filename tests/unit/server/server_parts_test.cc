// Small parts of the daemon, each on its own.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "rendezvousd/server/authorization.h"
#include "rendezvousd/server/call_table.h"
#include "rendezvousd/server/event_codec.h"
#include "rendezvousd/server/inbox.h"
#include "rendezvousd/server/machine_clock.h"
#include "rendezvousd/server/state_writer.h"
#include "rendezvousd/server/view_json.h"
#include "tests/unit/protocol/conversion_samples.h"

namespace muster::server {
namespace {

using namespace std::chrono_literals;

TEST(Authorize, OpensEachDoorWithItsOwnSecretOnly) {
  const Secrets secrets{"aaaa", "bbbb"};
  const auto code = [&](std::string_view path, std::string_view header) {
    return Authorize(secrets, path, header).code();
  };
  constexpr auto kNo = StatusCode::kUnauthenticated;
  EXPECT_EQ(code("/muster.v1.Rendezvous/Attend", "Bearer aaaa"), StatusCode::kOk);
  EXPECT_EQ(code("/muster.v1.Host/Serve", "Bearer bbbb"), StatusCode::kOk);
  EXPECT_EQ(code("/muster.v1.Operator/View", "Bearer bbbb"), StatusCode::kOk);
  EXPECT_EQ(code("/muster.v1.Rendezvous/Attend", "Bearer bbbb"), kNo);
  EXPECT_EQ(code("/muster.v1.Host/Serve", "Bearer aaaa"), kNo);
  EXPECT_EQ(code("/muster.v1.Operator/Operate", "Bearer aaaa"), kNo);
  for (const char* header : {"", "Bearer ", "Bearer", "bearer aaaa", "aaaa", "Bearer aaaab",
                             "Bearer aaa", "Basic aaaa", "Bearer AAAA"}) {
    EXPECT_EQ(code("/muster.v1.Rendezvous/Attend", header), kNo) << header;
  }
  // A method that nobody thought of is closed, whatever is sent.
  for (const char* path : {"", "/", "/muster.v1.Future/Do", "/grpc.health.v1.Health/Check",
                           "/muster.v1.RendezvousX/Attend", "muster.v1.Host/Serve"}) {
    EXPECT_EQ(code(path, "Bearer aaaa"), kNo) << path;
    EXPECT_EQ(code(path, "Bearer bbbb"), kNo) << path;
  }
  EXPECT_EQ(Authorize({}, "/muster.v1.Host/Serve", "Bearer ").code(), kNo);
}

TEST(EventCodec, RoundTripsEveryJournalledEvent) {
  using namespace muster::testing;
  std::vector<core::Event> events{
      core::AgentDetached{SampleAgent()},
      core::AgentSuspect{SampleAgent(), "silent\xFF"},
      core::AgentBack{SampleAgent()},
      core::AgentDead{SampleAgent(), protocol::Cause::kAgent, "cut in a letter \xE2\x82"},
      core::KeyCall{7, SampleKeyRequest()},
      core::BarrierCall{8, SampleBarrierRequest()},
      core::DeadlinePassed{},
      core::Restarted{}};
  for (const auto& one : SampleUpwards()) events.emplace_back(core::AgentMessage{one});
  for (const auto& one : SampleHostUps()) events.emplace_back(core::HostMessage{one});
  for (const core::Event& event : events) {
    const std::string bytes = EncodeEvent(event);
    const auto back = DecodeEvent(bytes);
    ASSERT_TRUE(back.ok()) << back.status().ToString();
    EXPECT_EQ(back->index(), event.index());
    EXPECT_EQ(EncodeEvent(*back), bytes);
  }
  EXPECT_FALSE(DecodeEvent("").ok());
  EXPECT_FALSE(DecodeEvent("\xFF\xFF").ok());
}

TEST(MachineClock, GoesOnFromTheJournalsLastRecord) {
  const TimePoint last(100s);
  const MachineClock same(true, last, TimePoint(130s));
  EXPECT_EQ(same.ToMachine(TimePoint(131s)), TimePoint(131s));
  const MachineClock rebooted(false, last, TimePoint(5s));
  EXPECT_EQ(rebooted.ToMachine(TimePoint(6s)), TimePoint(101s));
  EXPECT_EQ(rebooted.ToSteady(TimePoint(101s)), TimePoint(6s));
  const MachineClock earlier(true, last, TimePoint(50s));
  EXPECT_EQ(earlier.ToMachine(TimePoint(50s)), last);
}

struct CountingReply : KeyReply {
  void Send(const protocol::KeyAnswer& answer) override {
    ++count;
    last = answer;
  }
  int count = 0;
  protocol::KeyAnswer last;
};

TEST(CallTable, AnswersEachTokenOnceWhateverHappens) {
  const auto first = std::make_shared<CountingReply>();
  const auto second = std::make_shared<CountingReply>();
  {
    CallTable calls;
    calls.Open(1, first, TimePoint(10s));
    calls.Open(2, second, TimePoint(5s));
    EXPECT_EQ(calls.NextDue(), TimePoint(5s));
    EXPECT_EQ(calls.TakeDue(TimePoint(4s)), std::vector<core::Token>());
    EXPECT_EQ(calls.TakeDue(TimePoint(5s)), std::vector<core::Token>{2});
    EXPECT_EQ(calls.NextDue(), TimePoint(10s)) << "given once";
    EXPECT_TRUE(calls.IsOpen(2));
    calls.Answer(1, protocol::KeyAnswer{OkStatus(), "v", 0});
    calls.Answer(1, protocol::KeyAnswer{OkStatus(), "w", 0});
    calls.Fail(1, Internal("late"));
    EXPECT_EQ(calls.NextDue(), std::nullopt);
  }
  EXPECT_EQ(first->count, 1);
  EXPECT_EQ(first->last.value, "v");
  EXPECT_EQ(second->count, 1) << "who was left is told at the end";
  EXPECT_EQ(second->last.status.code(), StatusCode::kUnavailable);
}

TEST(Inbox, GivesEverythingInOrderAndWaitsNoLongerThanAsked) {
  Inbox inbox;
  const TimePoint start = SteadyNow();
  EXPECT_TRUE(inbox.TakeAll(start + 30ms).empty());
  EXPECT_GE(SteadyNow() - start, 30ms);
  std::thread poster([&] {
    for (core::Token token = 1; token <= 1000; ++token) inbox.Post(CallGone{token});
  });
  core::Token next = 1;
  while (next <= 1000) {
    for (const Input& input : inbox.TakeAll(std::nullopt)) {
      EXPECT_EQ(std::get<CallGone>(input).token, next++);
    }
  }
  poster.join();
}

TEST(ViewJson, HoldsAnyBytes) {
  protocol::EventRecord record;
  record.kind = "worker exited";
  record.text = "\xFF\n\"";
  const auto json = nlohmann::json::parse(EventJson(record));
  EXPECT_EQ(json["text"], "\xEF\xBF\xBD\n\"");
  EXPECT_EQ(EventJson(record).find('\n'), std::string::npos) << "one line";
  const auto status = nlohmann::json::parse(StatusJson(muster::testing::SampleRunView(), 5));
  EXPECT_EQ(status["agents"][1]["last_step"], 98);
  EXPECT_EQ(status["verdict"]["outcome"], "stopped");
  const auto handover = nlohmann::json::parse(HandoverJson(muster::testing::SampleRunView(), 5));
  EXPECT_EQ(handover["suspects"][0]["node"], "n2");
}

TEST(StateWriter, WritesAndAppendsAndSaysWhatIsWrong) {
  std::string folder = ::testing::TempDir() + "muster-state-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  {
    StateWriter writer(folder + "/state", 3);
    protocol::EventRecord record;
    record.text = "first";
    writer.AppendEvent(record);
    EXPECT_TRUE(writer.Flush(5s));
    record.text = "second";
    writer.AppendEvent(record);
    writer.WriteVerdict(muster::testing::SampleRunView());
    EXPECT_TRUE(writer.Flush(5s));
    EXPECT_TRUE(writer.Trouble().ok());
  }
  EXPECT_TRUE(std::filesystem::exists(folder + "/state/verdict-3.json"));
  EXPECT_GT(std::filesystem::file_size(folder + "/state/events-3.jsonl"), 100U);
  {
    StateWriter writer("/proc/no-such-folder/state", 0);
    writer.WriteStatus(muster::testing::SampleRunView());
    EXPECT_FALSE(writer.Flush(5s));
    EXPECT_NE(writer.Trouble().message().find("/proc/no-such-folder"), std::string::npos);
  }
  StateWriter nowhere("", 0);
  nowhere.WriteStatus(muster::testing::SampleRunView());
  EXPECT_TRUE(nowhere.Flush(1s));
  std::filesystem::remove_all(folder);
}

// A folder that is full or read-only for a moment costs nothing but that moment.
TEST(StateWriter, WhatCouldNotBeWrittenIsWrittenLater) {
  std::string folder = ::testing::TempDir() + "muster-state-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string place = folder + "/state";
  std::ofstream(place) << "a file where the folder should be";
  {
    StateWriter writer(place, 3);
    protocol::EventRecord record;
    record.text = "first";
    writer.AppendEvent(record);
    writer.WriteVerdict(muster::testing::SampleRunView());
    EXPECT_FALSE(writer.Flush(5s));
    EXPECT_FALSE(writer.Trouble().ok());
    std::filesystem::remove(place);
    const TimePoint end = SteadyNow() + 10s;
    while (!writer.Trouble().ok() && SteadyNow() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_TRUE(writer.Trouble().ok()) << writer.Trouble().ToString();
    EXPECT_TRUE(writer.Flush(5s));
  }
  EXPECT_TRUE(std::filesystem::exists(place + "/verdict-3.json"));
  std::ifstream events(place + "/events-3.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(events, line));
  EXPECT_NE(line.find("first"), std::string::npos);
  EXPECT_FALSE(std::getline(events, line));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace muster::server

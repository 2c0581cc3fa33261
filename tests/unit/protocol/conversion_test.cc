#include "rendezvousd/protocol/conversion.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include "common/random.h"
#include "muster/v1/rendezvous.pb.h"
#include "tests/unit/protocol/conversion_samples.h"

namespace muster::protocol {
namespace {

using namespace muster::testing;

// The value as bytes, through the wire and back and as bytes again: equal bytes mean that no field
// was lost, since every field of the samples differs from its default (held by the next test).
template <typename Wire, typename Value>
void RoundTrip(const Value& value) {
  Wire wire;
  ToProto(value, &wire);
  const std::string bytes = wire.SerializeAsString();
  Wire parsed;
  ASSERT_TRUE(parsed.ParseFromString(bytes));
  const auto back = FromProto(parsed);
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  Wire again;
  ToProto(*back, &again);
  EXPECT_EQ(again.SerializeAsString(), bytes) << again.DebugString();
}

TEST(Conversion, RoundTripsEveryMessage) {
  for (const Upward& one : SampleUpwards()) RoundTrip<v1::Upward>(one);
  for (const Downward& one : SampleDownwards()) RoundTrip<v1::Downward>(one);
  for (const HostUp& one : SampleHostUps()) RoundTrip<v1::HostUp>(one);
  RoundTrip<v1::Wishes>(SampleWishes());
  RoundTrip<v1::KeyRequest>(SampleKeyRequest());
  RoundTrip<v1::KeyAnswer>(KeyAnswer{NotFound("no such key"), std::string("\0v", 2), -3});
  RoundTrip<v1::BarrierRequest>(SampleBarrierRequest());
  RoundTrip<v1::RunView>(SampleRunView());
  RoundTrip<v1::OperatorRequest>(OperatorRequest{OperatorAction::kCancel, "enough"});
  RoundTrip<v1::AgentId>(SampleAgent());
}

// Names every singular field that a message has on the wire and the sample left at its default.
void ListDefaults(const google::protobuf::Message& message, std::vector<std::string>* missing) {
  const auto* descriptor = message.GetDescriptor();
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* field = descriptor->field(i);
    if (field->containing_oneof() != nullptr && !reflection->HasField(message, field)) continue;
    const bool there = field->is_repeated() ? reflection->FieldSize(message, field) > 0
                                            : reflection->HasField(message, field);
    if (!there) missing->push_back(field->full_name());
    if (!there || field->cpp_type() != field->CPPTYPE_MESSAGE || field->is_repeated()) continue;
    ListDefaults(reflection->GetMessage(message, field), missing);
  }
}

template <typename Wire, typename Value>
void ExpectFull(const Value& value) {
  Wire wire;
  ToProto(value, &wire);
  std::vector<std::string> missing;
  ListDefaults(wire, &missing);
  EXPECT_EQ(missing, std::vector<std::string>());
}

// A field that is added to a .proto file and forgotten in the conversion fails here.
TEST(Conversion, WritesEveryField) {
  for (const Upward& one : SampleUpwards()) ExpectFull<v1::Upward>(one);
  for (const Downward& one : SampleDownwards()) ExpectFull<v1::Downward>(one);
  for (const HostUp& one : SampleHostUps()) ExpectFull<v1::HostUp>(one);
  ExpectFull<v1::Wishes>(SampleWishes());
  ExpectFull<v1::KeyRequest>(SampleKeyRequest());
  ExpectFull<v1::KeyAnswer>(KeyAnswer{NotFound("no such key"), "v", 3});
  ExpectFull<v1::BarrierRequest>(SampleBarrierRequest());
  ExpectFull<v1::RunView>(SampleRunView());
}

TEST(Conversion, MendsTextThatIsNoUtf8OrTooLong) {
  const std::pair<std::string, std::string> cases[] = {
      {"plain \xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80",
       "plain \xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80"},
      {"a\xFFz", "a?z"},
      {"cut \xE2\x82", "cut ??"},
      {"overlong \xC0\xAF", "overlong ??"},
      {"surrogate \xED\xA0\x80", "surrogate ???"},
      {"beyond \xF4\x90\x80\x80", "beyond ????"},
      {std::string("nul\0x", 5), std::string("nul\0x", 5)}};
  for (const auto& [in, out] : cases) {
    v1::Upward wire;
    ToProto(Upward{SampleAgent(), 1, Goodbye{in}}, &wire);
    EXPECT_EQ(wire.goodbye().reason(), out);
    v1::Upward parsed;
    EXPECT_TRUE(parsed.ParseFromString(wire.SerializeAsString()));
  }
  v1::Upward wire;
  ToProto(Upward{SampleAgent(), 1, Goodbye{std::string(1 << 20, 'x')}}, &wire);
  EXPECT_TRUE(FromProto(wire).ok()) << "what we send is what we accept";
  EXPECT_TRUE(wire.goodbye().reason().ends_with("xxx..."));
}

// Sets one thing that the wire cannot promise; the answer names the field.
TEST(Conversion, RefusesWhatIsWrongByName) {
  const auto expect_named = [](const auto& wire, std::string_view name) {
    const auto result = FromProto(wire);
    ASSERT_FALSE(result.ok()) << name;
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(result.status().message().find(name), std::string::npos) << result.status().message();
  };
  v1::Upward exited;
  ToProto(SampleUpwards()[2], &exited);
  exited.mutable_worker_exited()->set_cause(12);
  expect_named(exited, "cause");
  v1::Upward progress;
  ToProto(SampleUpwards()[4], &progress);
  progress.mutable_worker_progress()->set_phase(3);
  expect_named(progress, "phase");
  v1::Upward request;
  ToProto(SampleUpwards()[5], &request);
  request.mutable_worker_request()->set_kind(3);
  expect_named(request, "kind");
  v1::Upward nobody;
  ToProto(SampleUpwards()[0], &nobody);
  nobody.mutable_agent()->set_incarnation(0);
  expect_named(nobody, "incarnation");
  nobody.mutable_agent()->set_incarnation(1);
  nobody.mutable_agent()->clear_node();
  expect_named(nobody, "node");
  nobody.mutable_agent()->set_node("n1\n");
  expect_named(nobody, "node");
  v1::Upward empty;
  ToProto(SampleAgent(), empty.mutable_agent());
  expect_named(empty, "body");
  expect_named(v1::Downward(), "body");
  expect_named(v1::HostUp(), "body");
  v1::Downward order;
  ToProto(SampleDownwards()[0], &order);
  order.mutable_order()->set_kind(4);
  expect_named(order, "kind");
  order.mutable_order()->set_kind(0);
  order.mutable_order()->set_master_port(65536);
  expect_named(order, "master_port");
  v1::KeyRequest key;
  ToProto(SampleKeyRequest(), &key);
  key.set_operation(4);
  expect_named(key, "operation");
  v1::OperatorRequest operate;
  operate.set_action(3);
  expect_named(operate, "action");
  v1::Upward long_text;
  ToProto(SampleUpwards()[6], &long_text);
  long_text.mutable_goodbye()->set_reason(std::string(1 << 20, 'x'));
  expect_named(long_text, "reason");
}

// Parses hostile bytes as a message and converts whatever came out.
template <typename Wire>
void Feed(const std::string& bytes, int* converted) {
  Wire wire;
  if (!wire.ParseFromString(bytes)) return;
  if (FromProto(wire).ok()) ++*converted;
}

TEST(Conversion, HostileBytesNeverAbort) {
  // Protobuf says on stderr what it thinks of each.
  google::protobuf::LogSilencer silence;
  std::vector<std::string> seeds;
  for (const Upward& one : SampleUpwards()) {
    v1::Upward wire;
    ToProto(one, &wire);
    seeds.push_back(wire.SerializeAsString());
  }
  for (const Downward& one : SampleDownwards()) {
    v1::Downward wire;
    ToProto(one, &wire);
    seeds.push_back(wire.SerializeAsString());
  }
  for (const HostUp& one : SampleHostUps()) {
    v1::HostUp wire;
    ToProto(one, &wire);
    seeds.push_back(wire.SerializeAsString());
  }
  v1::RunView view;
  ToProto(SampleRunView(), &view);
  seeds.push_back(view.SerializeAsString());
  Random random(20261130);
  int converted = 0;
  for (int i = 0; i < 30'000; ++i) {
    std::string bytes = seeds[random.Below(seeds.size())];
    for (std::int64_t change = random.Between(0, 4); change > 0; --change) {
      const std::size_t at = random.Below(bytes.size());
      if (random.Chance(0.2)) bytes.erase(at, random.Below(8));
      if (bytes.empty()) bytes = "x";
      bytes[random.Below(bytes.size())] = static_cast<char>(random.Below(256));
    }
    Feed<v1::Upward>(bytes, &converted);
    Feed<v1::Downward>(bytes, &converted);
    Feed<v1::HostUp>(bytes, &converted);
    Feed<v1::RunView>(bytes, &converted);
    Feed<v1::Wishes>(bytes, &converted);
    Feed<v1::KeyRequest>(bytes, &converted);
    Feed<v1::KeyAnswer>(bytes, &converted);
    Feed<v1::BarrierRequest>(bytes, &converted);
  }
  EXPECT_GT(converted, 1000) << "the mutations must reach the conversion, not only the parser";
}

TEST(Conversion, AnUnknownCodeIsStillAnAnswer) {
  v1::BarrierAnswer barrier;
  ToProto(FailedPrecondition("round 3 runs"), &barrier);
  EXPECT_EQ(BarrierStatus(barrier), FailedPrecondition("round 3 runs"));
  barrier.set_code(99);
  EXPECT_EQ(BarrierStatus(barrier).code(), StatusCode::kUnknown);
  barrier.set_code(0);
  EXPECT_TRUE(BarrierStatus(barrier).ok());
}

}  // namespace
}  // namespace muster::protocol

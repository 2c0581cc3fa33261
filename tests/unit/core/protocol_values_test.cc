#include <gtest/gtest.h>

#include <set>
#include <string>

#include "rendezvousd/protocol/config.h"
#include "rendezvousd/protocol/start_options.h"

namespace muster::protocol {
namespace {

using std::chrono::seconds;

Config Valid() {
  Config config;
  config.run_id = "run1";
  config.version = "0.1";
  config.nodes = {"n1", "n2"};
  config.min_nodes = config.max_nodes = 2;
  return config;
}

TEST(Config, ContradictionsAreNamedWithBothValues) {
  struct Case {
    const char* wanted;
    void (*spoil)(Config*);
  };
  const Case cases[] = {
      {"min_nodes 3 is above max_nodes 2", [](Config* c) { c->min_nodes = 3; }},
      {"min_nodes is 0", [](Config* c) { c->min_nodes = 0; }},
      {"max_nodes is 3 but only 2 nodes", [](Config* c) { c->max_nodes = 3; }},
      {"names \"n1\" twice", [](Config* c) { c->nodes[1] = "n1"; }},
      {"empty name", [](Config* c) { c->nodes[1] = ""; }},
      {"1 counts for 2 nodes", [](Config* c) { c->agents_per_node = {1}; }},
      {"0 for n2",
       [](Config* c) {
         c->agents_per_node = {1, 0};
       }},
      {"lease 2s is not above two beats of 1s", [](Config* c) { c->lease = seconds(2); }},
      {"beat is 0 ns", [](Config* c) { c->beat = {}; }},
      {"last_call is -1 ns", [](Config* c) { c->last_call = Duration(-1); }},
      {"workers_per_agent is 0", [](Config* c) { c->workers_per_agent = 0; }},
      {"run_id is empty", [](Config* c) { c->run_id = ""; }},
      {"version is empty", [](Config* c) { c->version = ""; }},
  };
  EXPECT_TRUE(Validate(Valid()).ok());
  for (const Case& one : cases) {
    Config config = Valid();
    one.spoil(&config);
    const Status status = Validate(config);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << one.wanted;
    EXPECT_NE(status.message().find(one.wanted), std::string::npos) << status.message();
  }
}

TEST(Config, ACauseWithoutABudgetHasItsDefault) {
  Config config = Valid();
  EXPECT_EQ(RestartsAllowed(config, Cause::kCode), 3U);
  EXPECT_EQ(RestartsAllowed(config, Cause::kPreemption), kUnboundedRestarts);
  config.budgets[Cause::kCode] = {7};
  EXPECT_EQ(RestartsAllowed(config, Cause::kCode), 7U);
  EXPECT_EQ(RestartsAllowed(config, Cause::kMemory), 1U);
}

StartOptions Options() {
  StartOptions options;
  options.config = Valid();
  options.config.attempt = 4'000'000'000U;
  options.config.agents_per_node = {2, 1};
  options.config.lease = std::chrono::milliseconds(7777);
  options.config.can_requeue = true;
  options.config.budgets[Cause::kTimeLimit] = {kUnboundedRestarts};
  options.config.batch_node = "n1";
  options.listen_fd = 5;
  options.join_secret = "ab";
  options.operator_secret = "cd";
  options.certificate = "-----BEGIN\nx";
  options.private_key = "key";
  options.journal = "/tmp/a \"b\"";
  options.state_dir = "";
  return options;
}

TEST(StartOptions, RoundTrip) {
  const StartOptions options = Options();
  const auto again = StartOptionsFromJson(ToJson(options));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(ToJson(*again), ToJson(options));
  EXPECT_EQ(again->config.attempt, options.config.attempt);
  EXPECT_EQ(again->config.lease, options.config.lease);
  EXPECT_EQ(again->config.budgets.at(Cause::kTimeLimit).restarts, kUnboundedRestarts);
  EXPECT_EQ(again->journal, options.journal);
  const auto config = ConfigFromJson(ToJson(options.config));
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(ToJson(*config), ToJson(options.config));
  EXPECT_EQ(ToJson(options.config).find("secret"), std::string::npos);
}

TEST(StartOptions, WhatIsWrongIsNamedAndSecretsAreNot) {
  const std::string good = ToJson(Options());
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t place = text.find(from);
    EXPECT_NE(place, std::string::npos) << from;
    return text.replace(place, from.size(), to);
  };
  struct Case {
    std::string json;
    const char* wanted;
  };
  const Case cases[] = {
      {"", "not JSON"},
      {good.substr(0, good.size() / 2), "not JSON"},
      {"[]", "not a JSON object"},
      {replaced("\"listen_fd\":5", "\"listen_fd\":\"5\""), "\"listen_fd\" is not an integer"},
      {replaced("\"listen_fd\":5", "\"listen_fd\":99999999999"), "\"listen_fd\""},
      {replaced("\"attempt\":4000000000", "\"attempt\":-1"), "\"attempt\""},
      {replaced("\"min_nodes\":2", "\"min_nodes\":2.5"), "\"min_nodes\""},
      {replaced("\"min_nodes\":2", "\"min_nodes\":3"), "min_nodes 3 is above"},
      {replaced("\"time_limit\":", "\"time_limits\":"), "time_limits"},
      {replaced("\"journal\":", "\"jornal\":"), "\"journal\""},
      {replaced("\"can_requeue\":true", "\"can_requeue\":1"),
       "\"can_requeue\" is not true or false"},
      {replaced("{", "{\"extra\":1,"), "unknown field \"extra\""},
  };
  for (const Case& one : cases) {
    const auto result = StartOptionsFromJson(one.json);
    ASSERT_FALSE(result.ok()) << one.wanted;
    EXPECT_NE(result.status().message().find(one.wanted), std::string::npos)
        << result.status().message();
    EXPECT_EQ(result.status().message().find("\"ab\""), std::string::npos);
  }
}

TEST(Names, AreUnique) {
  std::set<std::string_view> causes;
  for (int i = 0; i <= static_cast<int>(Cause::kGrow); ++i) {
    EXPECT_TRUE(causes.insert(ToString(static_cast<Cause>(i))).second);
  }
  EXPECT_EQ(ToString(Fence{1, 3}), "attempt 1 round 3");
  EXPECT_EQ(ToString(AgentKey{"n3", 0, 2}), "n3/0.2");
}

}  // namespace
}  // namespace muster::protocol

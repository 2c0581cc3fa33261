// The manifest's round trip, and what a stranger may put into one.

#include "checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace muster::checkpoint {
namespace {

using Json = nlohmann::json;

Manifest Example() {
  Manifest manifest{.run = "job 12 run1", .step = 42, .world_size = 2, .scalars = {}, .shards = {}};
  manifest.scalars = {
      {"seed", ~std::uint64_t{0}}, {"rate", 3e-4}, {"one", 1.0}, {"note", "\u00e4"}};
  ShardRecord first{.name = "rank-0.shard", .bytes = 32, .digest = {}, .tensors = {}};
  first.digest.bytes[3] = 0xab;
  first.tensors = {{"w", ElementType::kFloat32, {2, 3}, 0, 4, 0},
                   {"b", ElementType::kInt64, {}, 0, 1, 16}};
  ShardRecord second{.name = "rank-1.shard", .bytes = 8, .digest = {}, .tensors = {}};
  second.tensors = {{"w", ElementType::kFloat32, {2, 3}, 4, 2, 0}};
  manifest.shards = {first, second};
  return manifest;
}

// A stranger can compute digests too: seal what he wrote.
std::string Seal(Json json) {
  json.erase("digest");
  const std::string text = json.dump();
  json["digest"] = DigestOf(std::as_bytes(std::span(text))).ToHex();
  return json.dump();
}

TEST(Manifest, RoundTrip) {
  const auto text = SerializeManifest(Example());
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  const auto parsed = ParseManifest(*text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(*parsed, Example());
  // The seal of this test is the library's, so the hostile ones below get past it.
  EXPECT_EQ(*ParseManifest(Seal(Json::parse(*text))), Example());
}

TEST(Manifest, HostileValuesAreRefused) {
  const Json good = Json::parse(*SerializeManifest(Example()));
  const std::vector<std::pair<std::string, std::function<void(Json&)>>> cases = {
      {"format", [](Json& j) { j["format"] = "other"; }},
      {"no format", [](Json& j) { j.erase("format"); }},
      {"version 0", [](Json& j) { j["version"] = 0; }},
      {"no digest", [](Json& j) { j["digest"] = nullptr; }},
      {"run empty", [](Json& j) { j["run"] = ""; }},
      {"run a number", [](Json& j) { j["run"] = 7; }},
      {"run with a line end", [](Json& j) { j["run"] = "a\nb"; }},
      {"run long", [](Json& j) { j["run"] = std::string(100'000, 'r'); }},
      {"step negative", [](Json& j) { j["step"] = -1; }},
      {"step a fraction", [](Json& j) { j["step"] = 1.5; }},
      {"step with point", [](Json& j) { j["step"] = 42.0; }},
      {"step huge", [](Json& j) { j["step"] = ~std::uint64_t{0}; }},
      {"step a text", [](Json& j) { j["step"] = "42"; }},
      {"world 0", [](Json& j) { j["world_size"] = 0; }},
      {"world huge", [](Json& j) { j["world_size"] = 1ull << 40; }},
      {"scalars a list", [](Json& j) { j["scalars"] = Json::array({1}); }},
      {"scalar an object", [](Json& j) { j["scalars"]["x"] = Json::object(); }},
      {"scalar negative", [](Json& j) { j["scalars"]["x"] = -5; }},
      {"scalar without name", [](Json& j) { j["scalars"][""] = 5; }},
      {"no shards", [](Json& j) { j["shards"] = Json::array(); }},
      {"shards an object", [](Json& j) { j["shards"] = Json::object(); }},
      {"shard a number", [](Json& j) { j["shards"][0] = 1; }},
      {"shard twice", [](Json& j) { j["shards"].push_back(j["shards"][0]); }},
      {"path up", [](Json& j) { j["shards"][0]["name"] = "../rank-0.shard"; }},
      {"path absolute", [](Json& j) { j["shards"][0]["name"] = "/etc/passwd"; }},
      {"path down", [](Json& j) { j["shards"][0]["name"] = "a/b"; }},
      {"dots", [](Json& j) { j["shards"][0]["name"] = ".."; }},
      {"hidden", [](Json& j) { j["shards"][0]["name"] = ".rank-0"; }},
      {"zero byte", [](Json& j) { j["shards"][0]["name"] = std::string("a\0b", 3); }},
      {"the manifest", [](Json& j) { j["shards"][0]["name"] = "manifest.json"; }},
      {"long name", [](Json& j) { j["shards"][0]["name"] = std::string(255, 'a'); }},
      {"bytes huge", [](Json& j) { j["shards"][0]["bytes"] = ~std::uint64_t{0}; }},
      {"digest short", [](Json& j) { j["shards"][0]["digest"] = "ab"; }},
      {"digest no hex", [](Json& j) { j["shards"][0]["digest"] = std::string(32, 'x'); }},
      {"no tensors", [](Json& j) { j["shards"][0].erase("tensors"); }},
      {"tensor a list", [](Json& j) { j["shards"][0]["tensors"][0] = Json::array(); }},
      {"tensor type", [](Json& j) { j["shards"][0]["tensors"][0]["type"] = "object"; }},
      {"tensor name", [](Json& j) { j["shards"][0]["tensors"][0]["name"] = ""; }},
      {"offset past end", [](Json& j) { j["shards"][0]["tensors"][1]["offset"] = 25; }},
      {"offset wraps", [](Json& j) { j["shards"][0]["tensors"][1]["offset"] = ~0ull - 3; }},
      {"overlap in file", [](Json& j) { j["shards"][0]["tensors"][1]["offset"] = 12; }},
      {"count too large", [](Json& j) { j["shards"][0]["tensors"][0]["count"] = 7; }},
      {"count wraps", [](Json& j) { j["shards"][0]["tensors"][0]["count"] = ~0ull; }},
      {"first wraps", [](Json& j) { j["shards"][0]["tensors"][0]["first"] = ~0ull; }},
      {"shape overflows",
       [](Json& j) {
         for (std::size_t s = 0; s < 2; ++s) {
           j["shards"][s]["tensors"][0]["shape"] = {1ull << 40, 1ull << 40};
         }
       }},
      {"shape deep",
       [](Json& j) { j["shards"][0]["tensors"][1]["shape"] = {1, 1, 1, 1, 1, 1, 1, 1, 1}; }},
      {"shape of texts",
       [](Json& j) {
         j["shards"][0]["tensors"][0]["shape"] = {"2", "3"};
       }},
      {"shape of two minds",
       [](Json& j) {
         j["shards"][1]["tensors"][0]["shape"] = {3, 2};
       }},
      {"type of two minds", [](Json& j) { j["shards"][1]["tensors"][0]["type"] = "int32"; }},
      {"elements missing", [](Json& j) { j["shards"][1]["tensors"][0]["count"] = 1; }},
      {"elements missing in the middle",
       [](Json& j) {
         j["shards"][1]["tensors"][0]["first"] = 5;
         j["shards"][1]["tensors"][0]["count"] = 1;
       }},
      {"elements twice", [](Json& j) { j["shards"][1]["tensors"][0]["first"] = 3; }},
      {"shard left out", [](Json& j) { j["shards"].erase(1); }},
  };
  for (const auto& [name, change] : cases) {
    Json json = good;
    change(json);
    const auto parsed = ParseManifest(name == "no digest" ? json.dump() : Seal(json));
    EXPECT_EQ(parsed.status().code(), StatusCode::kDataLoss)
        << name << ": " << parsed.status().ToString();
  }
}

TEST(Manifest, ANewerVersionIsNotDamage) {
  Json json = Json::parse(*SerializeManifest(Example()));
  json["version"] = 2;
  EXPECT_EQ(ParseManifest(Seal(json)).status().code(), StatusCode::kFailedPrecondition);
}

TEST(Manifest, NotJsonAtAll) {
  const std::string good = *SerializeManifest(Example());
  for (const std::string& text :
       {std::string(), std::string("null"), std::string("[]"), std::string("42"),
        std::string(100'000, '['), std::string(100'000, '{'), "\xff" + good, good + good,
        std::string("{\"format\":\"muster-checkpoint\"}"), std::string("\0\0\0", 3)}) {
    EXPECT_EQ(ParseManifest(text).status().code(), StatusCode::kDataLoss) << text.substr(0, 40);
  }
  EXPECT_EQ(ParseManifest(std::string(kManifestBytesMax + 1, ' ')).status().code(),
            StatusCode::kDataLoss);
  // Each bracket pair would cost some forty bytes of memory.
  std::string many = "[";
  for (int i = 0; i < 10'000'000; ++i) many += "[],";
  EXPECT_NE(ParseManifest(many).status().message().find("too many values"), std::string::npos);
}

TEST(Manifest, CutAtAnyPlaceItIsRefused) {
  const std::string text = *SerializeManifest(Example());
  const std::size_t brace = text.find_last_of('}');
  for (std::size_t size = 0; size <= brace; ++size) {
    EXPECT_FALSE(ParseManifest(std::string_view(text).substr(0, size)).ok()) << size;
  }
}

TEST(Manifest, FlippedBitsNeverGiveAnotherManifest) {
  const std::string text = *SerializeManifest(Example());
  for (std::size_t place = 0; place < text.size(); ++place) {
    for (std::size_t bit : {place % 8, (place + 5) % 8}) {
      std::string flipped = text;
      flipped[place] = static_cast<char>(flipped[place] ^ static_cast<char>(1u << bit));
      const auto parsed = ParseManifest(flipped);
      if (parsed.ok()) {
        EXPECT_EQ(*parsed, Example()) << "byte " << place << " bit " << bit;
      }
    }
  }
}

TEST(Manifest, RandomDamageNeverGivesAnotherManifest) {
  const std::string text = *SerializeManifest(Example());
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    for (std::size_t change = 0; change <= random() % 4; ++change) {
      const std::size_t place = random() % damaged.size();
      switch (random() % 3) {
        case 0:
          damaged[place] = static_cast<char>(random());
          break;
        case 1:
          damaged.erase(place, random() % 20);
          break;
        case 2:
          damaged.insert(place, text.substr(random() % text.size(), random() % 20));
          break;
      }
    }
    const auto parsed = ParseManifest(damaged);
    if (parsed.ok()) {
      EXPECT_EQ(*parsed, Example()) << damaged;
    }
  }
}

TEST(Manifest, WhatWouldBeRefusedIsNotWritten) {
  Manifest bad = Example();
  bad.shards[0].name = "../x";
  EXPECT_EQ(SerializeManifest(bad).status().code(), StatusCode::kInvalidArgument);
  bad = Example();
  bad.scalars["x"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(SerializeManifest(bad).status().code(), StatusCode::kInvalidArgument);
  bad = Example();
  bad.scalars["x"] = "\xff\xfe";
  EXPECT_EQ(SerializeManifest(bad).status().code(), StatusCode::kInvalidArgument);
  bad = Example();
  bad.shards.pop_back();
  EXPECT_NE(SerializeManifest(bad).status().message().find("elements 4 to 6 of tensor w"),
            std::string::npos);
}

TEST(Digest, KnownValueAndPieces) {
  // The published value for no bytes at all.
  EXPECT_EQ(DigestOf({}).ToHex(), "99aa06d3014798d86001c324468d497f");
  const std::string text = "muster";
  const Digest digest = DigestOf(std::as_bytes(std::span(text)));
  DigestStream stream;
  stream.Update(std::as_bytes(std::span(text).first(2)));
  stream.Update({});
  stream.Update(std::as_bytes(std::span(text).subspan(2)));
  EXPECT_EQ(stream.Value(), digest);
  EXPECT_EQ(*Digest::FromHex(digest.ToHex()), digest);
  EXPECT_FALSE(Digest::FromHex("00").ok());
}

}  // namespace
}  // namespace muster::checkpoint

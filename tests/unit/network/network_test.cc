#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "launcher/network/address.h"
#include "launcher/network/held_port.h"
#include "launcher/network/settings.h"
#include "launcher/network/socket_address.h"

namespace muster::network {
namespace {

TEST(Endpoint, NumericOnly) {
  EXPECT_EQ(ParseEndpoint("10.0.0.1:4711")->address, "10.0.0.1");
  EXPECT_EQ(ParseEndpoint("10.0.0.1:4711")->port, 4711);
  EXPECT_EQ(ParseEndpoint("[fd00::1]:80")->address, "fd00::1");
  for (const char* text : {"", ":", "host:80", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0",
                           "10.0.0.1:65536", "10.0.0.1:x", "fd00::1:80", "[10.0.0.1]:80", "[]:80",
                           "1:80", "010.0.0.1:80", "10.0.0.1 :80", "[fd00::1:80"}) {
    EXPECT_FALSE(ParseEndpoint(text).ok()) << text;
  }
  EXPECT_EQ(FormatEndpoint("fd00::1", 80), "[fd00::1]:80");
  EXPECT_EQ(FormatEndpoint("10.0.0.1", 80), "10.0.0.1:80");
}

TEST(OwnAddress, TowardsLoopbackIsLoopback) {
  const Result<OwnAddress> own = ChooseOwnAddress({"127.0.0.1:9"});
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(own->address, "127.0.0.1");
  EXPECT_EQ(own->interface, "lo");
}

TEST(OwnAddress, TowardsAnAddressOfThisMachineIsThatAddress) {
  for (const Interface& interface : ListInterfaces()) {
    if (interface.loopback || !interface.up || interface.address.find('%') != std::string::npos) {
      continue;
    }
    const Result<OwnAddress> own = ChooseOwnAddress({FormatEndpoint(interface.address, 9)});
    ASSERT_TRUE(own.ok()) << own.status().message();
    EXPECT_EQ(own->address, interface.address);
  }
}

TEST(OwnAddress, TheFirstEndpointWithARouteCounts) {
  EXPECT_FALSE(ChooseOwnAddress({}).ok());
  EXPECT_FALSE(ChooseOwnAddress({"name:9"}).ok());
  // The unspecified broadcast address has no route for an ordinary socket.
  const Result<OwnAddress> own = ChooseOwnAddress({"255.255.255.255:9", "127.0.0.1:9"});
  ASSERT_TRUE(own.ok()) << own.status().message();
  EXPECT_EQ(own->endpoint, "127.0.0.1:9");
}

int Listen(const std::string& address, std::uint16_t port, bool reuse) {
  const Result<SocketAddress> target = SocketAddress::FromNumeric(address, port);
  const int descriptor = socket(target->family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (reuse) setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(descriptor, target->raw(), target->size()) != 0 || listen(descriptor, 1) != 0) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

TEST(HeldPort, AServerWithReuseTakesItAndNobodyByChance) {
  const Result<HeldPort> held = HeldPort::Bind("127.0.0.1", Taker::kReuseAddress);
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(Listen("127.0.0.1", held->port(), false), -1) << "a server without SO_REUSEADDR";
  // As TCPStore and gRPC listen: on all addresses, with SO_REUSEADDR.
  for (const char* address : {"127.0.0.1", "0.0.0.0"}) {
    const int server = Listen(address, held->port(), true);
    EXPECT_GE(server, 0) << address;
    close(server);
  }
  std::set<std::uint16_t> ports = {held->port()};
  std::vector<HeldPort> more;
  for (int i = 0; i < 200; ++i) {
    more.push_back(HeldPort::Bind("127.0.0.1", Taker::kReuseAddress).value());
    EXPECT_TRUE(ports.insert(more.back().port()).second) << "given out twice";
  }
}

TEST(HeldPort, NothingAnswersWhileItIsHeld) {
  const Result<HeldPort> held = HeldPort::Bind("127.0.0.1", Taker::kReuseAddress);
  const Result<SocketAddress> target = SocketAddress::FromNumeric("127.0.0.1", held->port());
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_NE(connect(descriptor, target->raw(), target->size()), 0);
  EXPECT_EQ(errno, ECONNREFUSED);
  close(descriptor);
}

TEST(Settings, TheTable) {
  const auto settings = NetworkSettings({"eth0", "/tmp/logs", 4711, true});
  std::set<std::string> names;
  for (const Setting& setting : settings) {
    EXPECT_TRUE(names.insert(setting.name).second);
    EXPECT_FALSE(setting.reason.empty());
    for (const char* never : {"NCCL_P2P_LEVEL", "NCCL_ALGO", "NCCL_PROTO", "NCCL_COMM_ID"}) {
      EXPECT_NE(setting.name, never);
    }
    if (setting.name == "NCCL_RAS_ADDR") {
      EXPECT_EQ(setting.value, "localhost:4711");
    }
    if (setting.name == "NCCL_SOCKET_IFNAME") {
      EXPECT_EQ(setting.kind, SettingKind::kAdvice);
    }
  }
  EXPECT_TRUE(names.contains("GLOO_SOCKET_IFNAME"));
  EXPECT_TRUE(names.contains("NCCL_DEBUG"));
}

TEST(Settings, WhatIsNotKnownIsNotSet) {
  for (const Setting& setting : NetworkSettings({})) {
    EXPECT_NE(setting.name, "GLOO_SOCKET_IFNAME");
    EXPECT_NE(setting.name, "NCCL_RAS_ADDR");
    EXPECT_NE(setting.name, "NCCL_DEBUG") << "without a file it would flood the terminal";
  }
}

}  // namespace
}  // namespace muster::network

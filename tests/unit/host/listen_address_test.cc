#include "launcher/host/listen_address.h"

#include <gtest/gtest.h>

#include <string>

namespace muster::host {
namespace {

TEST(ListenAddress, AJobOnThisMachineAloneNeedsNoNetwork) {
  EXPECT_EQ(ChooseListenAddress({"n1"}, "n1").value(), "127.0.0.1");
  EXPECT_EQ(ChooseListenAddress({}, "").value(), "127.0.0.1");
}

TEST(ListenAddress, ANodeThatDoesNotResolveOrIsLoopbackIsNamed) {
  const auto unknown = ChooseListenAddress({"n1", "no-such-host.invalid"}, "n1");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("no-such-host.invalid"), std::string::npos);
  EXPECT_NE(unknown.status().message().find("n1"), std::string::npos);
  const auto loopback = ChooseListenAddress({"n1", "localhost"}, "n1");
  ASSERT_FALSE(loopback.ok());
  EXPECT_NE(loopback.status().message().find("loopback"), std::string::npos)
      << loopback.status().message();
}

TEST(ListenAddress, TwoListenersHaveTwoPorts) {
  const auto one = Listen("127.0.0.1");
  const auto two = Listen("127.0.0.1");
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE(one->endpoint, two->endpoint);
  EXPECT_TRUE(one->endpoint.starts_with("127.0.0.1:"));
  EXPECT_FALSE(Listen("192.0.2.1").ok()) << "an address that is not ours";
  EXPECT_FALSE(Listen("localhost").ok()) << "a name is no address";
}

}  // namespace
}  // namespace muster::host

#pragma once

// The address under which other nodes of the job reach this one.
//
// It is the source address of the route to the daemon, asked of the kernel: every agent has proven
// that network by attending. Host names are never resolved (they often name loopback), and a
// daemon on this same node gives the address that the other nodes dial. Linux only; no packet is
// sent.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace muster::network {

struct Endpoint {
  std::string address;  // numeric, without brackets
  std::uint16_t port = 0;
};

// "10.0.0.1:4711" or "[fd00::1]:4711"; numeric only.
Result<Endpoint> ParseEndpoint(std::string_view text);
// The other way round; brackets around IPv6.
std::string FormatEndpoint(const std::string& address, std::uint32_t port);

struct OwnAddress {
  std::string address;    // numeric
  std::string interface;  // that holds it; "" if none is found
  std::string endpoint;   // the one that has a route
};

// The own address towards the first endpoint that has a route. Unavailable if none has, or if the
// way there would leave through loopback although the endpoint is not loopback.
Result<OwnAddress> ChooseOwnAddress(const std::vector<std::string>& endpoints);

struct Interface {
  std::string name;
  std::string address;
  bool up = false;
  bool loopback = false;
};
// One entry for each IPv4 and IPv6 address of this machine.
std::vector<Interface> ListInterfaces();

}  // namespace muster::network

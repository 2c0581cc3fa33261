#pragma once

// Which address of this host to listen on, by NCCL's variables. Pure but for reading the system.

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <optional>
#include <string>

namespace muster::standin {

// An IPv4 or IPv6 address with its port.
struct Address {
  sockaddr_in6 bytes{};  // room for both
  sa_family_t family() const { return raw()->sa_family; }
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&bytes); }
  socklen_t size() const {
    return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  }
};
std::string ToString(const Address& address);

// NCCL_SOCKET_IFNAME (prefixes; "=" exact names; "^" all but these), else the first interface that
// is up and neither a loopback nor a bridge of containers, else the loopback. NCCL_SOCKET_FAMILY
// chooses a family, else IPv4 comes first. Port 0. Nothing if no interface fits.
std::optional<Address> ChooseAddress();

}  // namespace muster::standin

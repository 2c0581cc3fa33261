#pragma once

// An IPv4 or IPv6 address with a port, for system calls. Numeric only: nothing is ever resolved.

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "common/status.h"

namespace muster::network {

class SocketAddress {
 public:
  static Result<SocketAddress> FromNumeric(const std::string& address, std::uint16_t port);
  // InvalidArgument for other families.
  static Result<SocketAddress> FromRaw(const sockaddr& raw);
  static Result<SocketAddress> OfSocket(int descriptor);

  int family() const { return storage_.ss_family; }
  const sockaddr* raw() const;
  socklen_t size() const;
  std::uint16_t port() const;
  std::string Numeric() const;  // without port and brackets, with a scope where there is one
  bool IsLoopback() const;

 private:
  sockaddr_storage storage_{};
};

}  // namespace muster::network

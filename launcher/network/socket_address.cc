#include "launcher/network/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "common/text.h"

namespace muster::network {

Result<SocketAddress> SocketAddress::FromNumeric(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  // getaddrinfo reads scopes ("fe80::1%eth0") too, and with these flags asks nobody. It would also
  // take "1" and "010.1.1.1", which are not what anybody means.
  in_addr four{};
  const bool strict =
      address.find(':') != std::string::npos || inet_pton(AF_INET, address.c_str(), &four) == 1;
  if (!strict || address.find('\0') != std::string::npos ||
      getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return InvalidArgument(Concat(Quote(address), " is not a numeric address"));
  }
  SocketAddress result;
  std::memcpy(&result.storage_, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return result;
}

Result<SocketAddress> SocketAddress::FromRaw(const sockaddr& raw) {
  SocketAddress result;
  if (raw.sa_family == AF_INET) {
    std::memcpy(&result.storage_, &raw, sizeof(sockaddr_in));
  } else if (raw.sa_family == AF_INET6) {
    std::memcpy(&result.storage_, &raw, sizeof(sockaddr_in6));
  } else {
    return InvalidArgument("neither an IPv4 nor an IPv6 address");
  }
  return result;
}

Result<SocketAddress> SocketAddress::OfSocket(int descriptor) {
  SocketAddress result;
  socklen_t size = sizeof(result.storage_);
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&result.storage_), &size) != 0) {
    return FromErrno(errno, "cannot read a socket's address");
  }
  return result;
}

const sockaddr* SocketAddress::raw() const { return reinterpret_cast<const sockaddr*>(&storage_); }

socklen_t SocketAddress::size() const {
  return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

std::uint16_t SocketAddress::port() const {
  if (family() == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
}

std::string SocketAddress::Numeric() const {
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(raw(), size(), text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  return text.data();
}

bool SocketAddress::IsLoopback() const {
  if (family() == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(&storage_);
    return (ntohl(four->sin_addr.s_addr) >> 24U) == 127U;
  }
  const auto* six = reinterpret_cast<const sockaddr_in6*>(&storage_);
  return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) != 0;
}

}  // namespace muster::network

#include "launcher/network/held_port.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/text.h"
#include "launcher/network/socket_address.h"

namespace muster::network {

Result<HeldPort> HeldPort::Bind(const std::string& address, Taker taker) {
  MUSTER_ASSIGN_OR_RETURN(const SocketAddress wanted, SocketAddress::FromNumeric(address, 0));
  const int descriptor = socket(wanted.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return FromErrno(errno, "cannot make a socket");
  HeldPort held(descriptor, 0);
  const int on = 1;
  // Bound without options first: with SO_REUSEADDR alone the kernel may hand out a port that
  // another holder has bound in the same way.
  if (taker == Taker::kReusePort) {
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
  }
  if (bind(descriptor, wanted.raw(), wanted.size()) != 0) {
    return FromErrno(errno, Concat("cannot bind a port at ", address));
  }
  if (setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) {
    return FromErrno(errno, "cannot set SO_REUSEADDR");
  }
  MUSTER_ASSIGN_OR_RETURN(const SocketAddress bound, SocketAddress::OfSocket(descriptor));
  held.port_ = bound.port();
  return held;
}

HeldPort::~HeldPort() {
  if (descriptor_ >= 0) close(descriptor_);
}

HeldPort::HeldPort(HeldPort&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), port_(other.port_) {}

HeldPort& HeldPort::operator=(HeldPort&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(port_, other.port_);
  return *this;
}

}  // namespace muster::network

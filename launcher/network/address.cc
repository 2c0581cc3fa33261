#include "launcher/network/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "common/text.h"
#include "launcher/network/socket_address.h"

namespace muster::network {

Result<Endpoint> ParseEndpoint(std::string_view text) {
  const auto refuse = [&text] {
    return InvalidArgument(
        Concat(Quote(text), " is not a numeric ADDRESS:PORT (as 10.0.0.1:4711 or [fd00::1]:4711)"));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return refuse();
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!bracketed && host.find(':') != std::string_view::npos) return refuse();
  const Result<std::uint16_t> port = ParseInteger<std::uint16_t>("port", text.substr(colon + 1), 1);
  const Endpoint endpoint{std::string(host), port.value_or(0)};
  const Result<SocketAddress> parsed = SocketAddress::FromNumeric(endpoint.address, endpoint.port);
  if (!port.ok() || !parsed.ok() || bracketed != (parsed->family() == AF_INET6)) return refuse();
  return endpoint;
}

std::string FormatEndpoint(const std::string& address, std::uint32_t port) {
  const bool six = address.find(':') != std::string::npos;
  return six ? Concat("[", address, "]:", port) : Concat(address, ":", port);
}

std::vector<Interface> ListInterfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const Result<SocketAddress> address = SocketAddress::FromRaw(*entry->ifa_addr);
    if (!address.ok()) continue;
    found.push_back({entry->ifa_name, address->Numeric(), (entry->ifa_flags & IFF_UP) != 0U,
                     (entry->ifa_flags & IFF_LOOPBACK) != 0U});
  }
  freeifaddrs(list);
  return found;
}

namespace {

// A datagram socket that is connected asks the routing table and sends nothing.
Result<SocketAddress> SourceTowards(const SocketAddress& target) {
  const int socket_fd = socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) return FromErrno(errno, "cannot make a socket");
  Result<SocketAddress> source = Unavailable("");
  if (connect(socket_fd, target.raw(), target.size()) != 0) {
    source = FromErrno(errno, Concat("no route to ", target.Numeric()));
  } else {
    source = SocketAddress::OfSocket(socket_fd);
  }
  close(socket_fd);
  return source;
}

}  // namespace

Result<OwnAddress> ChooseOwnAddress(const std::vector<std::string>& endpoints) {
  Status last = InvalidArgument("no endpoint of the daemon is given");
  for (const std::string& text : endpoints) {
    const Result<Endpoint> endpoint = ParseEndpoint(text);
    if (!endpoint.ok()) return endpoint.status();
    const Result<SocketAddress> target =
        SocketAddress::FromNumeric(endpoint->address, endpoint->port);
    if (!target.ok()) return target.status();
    const Result<SocketAddress> source = SourceTowards(*target);
    if (!source.ok()) {
      last = source.status();
      continue;
    }
    if (source->IsLoopback() && !target->IsLoopback()) {
      last = Unavailable(Concat("the way to the daemon at ", text, " leaves through loopback ",
                                source->Numeric(), "; other nodes could not reach this one there"));
      continue;
    }
    OwnAddress own{source->Numeric(), "", text};
    for (const Interface& interface : ListInterfaces()) {
      if (interface.address == own.address) own.interface = interface.name;
    }
    return own;
  }
  return last;
}

}  // namespace muster::network

#include "launcher/host/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "common/text.h"
#include "launcher/network/address.h"
#include "launcher/network/socket_address.h"

namespace muster::host {
namespace {

// All agents of a large job connect within a second.
constexpr int kBacklog = 4096;
// Any port does: no packet is sent, only the route is asked for.
constexpr std::uint16_t kAnyPort = 9;

Result<std::string> SourceTowards(const addrinfo& entry) {
  MUSTER_ASSIGN_OR_RETURN(const network::SocketAddress remote,
                          network::SocketAddress::FromRaw(*entry.ai_addr));
  if (remote.IsLoopback()) {
    return Unavailable(Concat("it resolves to the loopback address ", remote.Numeric()));
  }
  agent::Descriptor probe(socket(remote.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.valid()) return FromErrno(errno, "no socket");
  if (connect(probe.get(), remote.raw(), remote.size()) != 0) {
    return FromErrno(errno, Concat("no route to ", remote.Numeric()));
  }
  MUSTER_ASSIGN_OR_RETURN(const network::SocketAddress own,
                          network::SocketAddress::OfSocket(probe.get()));
  return own.Numeric();
}

Result<std::string> SourceTowardsNode(const std::string& node) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(kAnyPort);
  if (const int error = getaddrinfo(node.c_str(), port.c_str(), &hints, &found); error != 0) {
    return Unavailable(Concat("its name does not resolve: ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  Status last = Unavailable("its name has no address");
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    Result<std::string> source = SourceTowards(*entry);
    if (source.ok()) return source;
    last = source.status();
  }
  return last;
}

}  // namespace

Result<std::string> ChooseListenAddress(const std::vector<std::string>& nodes,
                                        const std::string& this_node) {
  std::string problems;
  // A few tell as much as all; each may cost a name server's time-out.
  int tries = 3;
  for (const std::string& node : nodes) {
    if (node == this_node || tries-- == 0) continue;
    Result<std::string> address = SourceTowardsNode(node);
    if (address.ok()) return address;
    problems += Concat(problems.empty() ? "" : "; ", node, ": ", address.status().message());
  }
  if (problems.empty()) return std::string("127.0.0.1");
  return Unavailable(Concat("this machine", this_node.empty() ? "" : Concat(" (", this_node, ")"),
                            " has no address on the job's network: ", problems,
                            "; check the host names in DNS or /etc/hosts"));
}

Result<Listener> Listen(const std::string& address) {
  MUSTER_ASSIGN_OR_RETURN(const network::SocketAddress wanted,
                          network::SocketAddress::FromNumeric(address, 0));
  Listener listener;
  listener.socket =
      agent::Descriptor(socket(wanted.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.socket.valid()) return FromErrno(errno, "no socket for the daemon");
  if (bind(listener.socket.get(), wanted.raw(), wanted.size()) != 0 ||
      listen(listener.socket.get(), kBacklog) != 0) {
    return FromErrno(errno, Concat("cannot listen on ", address));
  }
  MUSTER_ASSIGN_OR_RETURN(const network::SocketAddress bound,
                          network::SocketAddress::OfSocket(listener.socket.get()));
  listener.endpoint = network::FormatEndpoint(address, bound.port());
  return listener;
}

}  // namespace muster::host

#include "launcher/host/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "common/text.h"
#include "launcher/network/address.h"
#include "launcher/network/socket_address.h"
#include "launcher/slurm/run_command.h"

namespace muster::host {
namespace {

// All agents of a large job connect within a second.
constexpr int kBacklog = 4096;
// Any port does: no packet is sent, only the route is asked for.
constexpr std::uint16_t kAnyPort = 9;
// A name server that does not answer is tried twice within that.
constexpr Duration kResolveDeadline = std::chrono::seconds(12);

Result<std::string> SourceTowards(const std::string& address) {
  MUSTER_ASSIGN_OR_RETURN(const network::SocketAddress remote,
                          network::SocketAddress::FromNumeric(address, kAnyPort));
  if (remote.IsLoopback()) {
    return Unavailable(Concat("it resolves to the loopback address ", address));
  }
  agent::Descriptor probe(socket(remote.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.valid()) return FromErrno(errno, "no socket");
  if (connect(probe.get(), remote.raw(), remote.size()) != 0) {
    return FromErrno(errno, Concat("no route to ", address));
  }
  MUSTER_ASSIGN_OR_RETURN(const network::SocketAddress own,
                          network::SocketAddress::OfSocket(probe.get()));
  return own.Numeric();
}

// The machine's own resolver, through its own program: a static program that loads another system's
// name service modules crashes in them.
Result<std::vector<std::string>> ResolveByGetent(const std::string& node) {
  slurm::Command command;
  MUSTER_ASSIGN_OR_RETURN(
      const std::string program,
      slurm::FindTool("getent", {{"PATH", "/usr/bin:/bin:/usr/local/bin"}}, ""));
  command.arguments = {program, "ahosts", node};
  command.environment = {{"LC_ALL", "C"}};
  command.deadline = kResolveDeadline;
  MUSTER_ASSIGN_OR_RETURN(const slurm::CommandResult result, slurm::RunCommand(command));
  std::vector<std::string> addresses;
  for (const std::string_view line : Split(result.output, '\n')) {
    const std::string address(line.substr(0, line.find(' ')));
    if (address.empty()) continue;
    if (std::ranges::find(addresses, address) == addresses.end()) addresses.push_back(address);
  }
  return addresses;
}

Result<std::vector<std::string>> ResolveByLibrary(const std::string& node) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(node.c_str(), nullptr, &hints, &found); error != 0) {
    return Unavailable(Concat("its name does not resolve: ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    const auto address = network::SocketAddress::FromRaw(*entry->ai_addr);
    if (address.ok()) addresses.push_back(address->Numeric());
  }
  return addresses;
}

Result<std::string> SourceTowardsNode(const std::string& node) {
  Result<std::vector<std::string>> addresses = ResolveByGetent(node);
  if (!addresses.ok() && addresses.status().code() == StatusCode::kNotFound) {
    addresses = ResolveByLibrary(node);
  }
  if (!addresses.ok()) return addresses.status();
  Status last = Unavailable("its name does not resolve to an address");
  for (const std::string& address : *addresses) {
    Result<std::string> source = SourceTowards(address);
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

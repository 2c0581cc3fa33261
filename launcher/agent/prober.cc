#include "launcher/agent/prober.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "common/text.h"
#include "launcher/agent/files.h"
#include "launcher/network/socket_address.h"

namespace muster::agent {
namespace {

struct Probing {
  Descriptor socket;
  EventLoop::Id watch = 0;
  EventLoop::Id timer = 0;
  std::string target;
  std::function<void(ProbeResult)> done;
};

ProbeResult Judge(int error, const std::string& target) {
  if (error == 0) return {true, Concat(target, " accepted a connection")};
  if (error == ECONNREFUSED) return {true, Concat(target, " refused, so its kernel is alive")};
  return {false, Concat(target, ": ", std::strerror(error))};
}

}  // namespace

void ProbeAddress(EventLoop* loop, const std::string& address, std::uint16_t port, Duration timeout,
                  std::function<void(ProbeResult)> done) {
  const Result<network::SocketAddress> target = network::SocketAddress::FromNumeric(address, port);
  if (!target.ok()) {
    done({false, target.status().message()});
    return;
  }
  auto probing = std::make_shared<Probing>();
  probing->target = Concat(address, " port ", port);
  probing->socket =
      Descriptor(socket(target->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!probing->socket.valid()) {
    done({false, Concat("no socket for a probe: ", std::strerror(errno))});
    return;
  }
  if (connect(probing->socket.get(), target->raw(), target->size()) == 0 || errno != EINPROGRESS) {
    done(Judge(errno == EINPROGRESS ? 0 : errno, probing->target));
    return;
  }
  probing->done = std::move(done);
  probing->watch = loop->WhenWritable(probing->socket.get(), [loop, probing] {
    loop->CancelTimer(probing->timer);
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(probing->socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    probing->done(Judge(error, probing->target));
  });
  probing->timer = loop->After(timeout, [loop, probing, timeout] {
    loop->Unwatch(probing->watch);
    probing->done(
        {false, Concat(probing->target, " did not answer within ", DescribeDuration(timeout))});
  });
}

}  // namespace muster::agent

#include "rendezvousd/server/acceptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "common/log.h"
#include "common/text.h"

namespace muster::server {
namespace {

// After an error that will not go away by itself at once.
constexpr int kPauseMs = 20;

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

Status CheckListening(int fd) {
  int listening = 0;
  socklen_t size = sizeof(listening);
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0) {
    return FromErrno(errno, Concat("descriptor ", fd, " is not a socket"));
  }
  if (listening == 0) return InvalidArgument(Concat("the socket ", fd, " does not listen"));
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return FromErrno(errno, "cannot make the listening socket non-blocking");
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::Start(int listen_fd, int descriptor_limit,
                                                  std::function<void(int)> take) {
  MUSTER_RETURN_IF_ERROR(CheckListening(listen_fd));
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return FromErrno(errno, "cannot make an eventfd");
  return std::unique_ptr<Acceptor>(
      new Acceptor(listen_fd, wake_fd, descriptor_limit, std::move(take)));
}

Acceptor::Acceptor(int listen_fd, int wake_fd, int descriptor_limit, std::function<void(int)> take)
    : listen_fd_(listen_fd),
      wake_fd_(wake_fd),
      descriptor_limit_(descriptor_limit),
      take_(std::move(take)),
      spare_fd_(OpenSpare()),
      thread_([this] { Run(); }) {}

Acceptor::~Acceptor() {
  ending_ = true;
  const std::uint64_t one = 1;
  const ssize_t written = write(wake_fd_, &one, sizeof(one));
  MUSTER_CHECK(written == sizeof(one), "an eventfd takes a one");
  thread_.join();
  close(wake_fd_);
  if (spare_fd_ >= 0) close(spare_fd_);
}

void Acceptor::Run() {
  while (!ending_) {
    std::array<pollfd, 2> waits{pollfd{listen_fd_, POLLIN, 0}, pollfd{wake_fd_, POLLIN, 0}};
    if (poll(waits.data(), waits.size(), -1) < 0) continue;
    while (!ending_ && AcceptOne()) {
    }
  }
}

bool Acceptor::AcceptOne() {
  const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) {
    ++accepted_;
    if (fd >= descriptor_limit_ - kReservedDescriptors) {
      close(fd);
      if (shed_++ == 0) {
        LogError(Concat("connections are turned away: only ", descriptor_limit_,
                        " files may be open (ulimit -n); raise the hard limit"));
      }
      return true;
    }
    const int on = 1;
    static_cast<void>(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
    take_(fd);
    return true;
  }
  switch (errno) {
    case EAGAIN:  // the queue is empty
      return false;
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case EPERM:  // refused by a packet filter
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
    case EOPNOTSUPP:
    case ENOPROTOOPT:  // errors of the one connection
      return true;
    case EMFILE:
    case ENFILE:
      ShedOne();
      return true;
    default:  // ENOBUFS, ENOMEM and what may come: try again, but do not spin
      static_cast<void>(poll(nullptr, 0, kPauseMs));
      return false;
  }
}

void Acceptor::ShedOne() {
  if (spare_fd_ >= 0) close(spare_fd_);
  const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd >= 0) {
    close(fd);
    ++shed_;
  } else {
    static_cast<void>(poll(nullptr, 0, kPauseMs));  // the whole system has none left
  }
  spare_fd_ = OpenSpare();
}

Result<int> RaiseDescriptorLimit(std::uint64_t connections) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return FromErrno(errno, "cannot read ulimit -n");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return FromErrno(errno, "cannot raise ulimit -n");
  const std::uint64_t needed = connections + kReservedDescriptors;
  if (limit.rlim_max < needed) {
    return ResourceExhausted(Concat("the run needs ", connections, " connections and thus ", needed,
                                    " open files, but the hard limit (ulimit -Hn) is ",
                                    limit.rlim_max, ": raise it, or ask for fewer nodes"));
  }
  return static_cast<int>(std::min<std::uint64_t>(limit.rlim_max, std::numeric_limits<int>::max()));
}

}  // namespace muster::server

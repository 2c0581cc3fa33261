#include "launcher/agent/event_loop.h"

#include <fcntl.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>

#include "common/text.h"

namespace muster::agent {

namespace asio = boost::asio;

struct EventLoop::State {
  // Of a copy of the descriptor: epoll takes one number once only, and a connection may wait for
  // reading and writing at the same time.
  struct Watched {
    Watched(asio::io_context& context, int descriptor)
        : stream(context, fcntl(descriptor, F_DUPFD_CLOEXEC, 0)) {}
    asio::posix::stream_descriptor stream;
    std::function<void()> work;
    bool once = false;
  };
  struct Timer {
    explicit Timer(asio::io_context& context) : timer(context) {}
    asio::steady_timer timer;
    std::function<void()> work;
  };

  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard{context.get_executor()};
  std::map<Id, std::shared_ptr<Watched>> watched;
  std::map<Id, std::shared_ptr<Timer>> timers;
  Id next = 1;

  void Wait(Id id, const std::shared_ptr<Watched>& entry) {
    const auto kind = entry->once ? asio::posix::stream_descriptor::wait_write
                                  : asio::posix::stream_descriptor::wait_read;
    entry->stream.async_wait(kind, [this, id](const boost::system::error_code& error) {
      const auto found = watched.find(id);
      if (error == asio::error::operation_aborted || found == watched.end()) return;
      const std::shared_ptr<Watched> alive = found->second;
      if (alive->once) watched.erase(found);
      alive->work();
      if (!alive->once && watched.contains(id)) Wait(id, alive);
    });
  }
};

EventLoop::EventLoop() : state_(std::make_unique<State>()) {}
EventLoop::~EventLoop() = default;

void EventLoop::Post(std::function<void()> work) { asio::post(state_->context, std::move(work)); }

EventLoop::Id EventLoop::WatchReadable(int descriptor, std::function<void()> work) {
  const Id id = state_->next++;
  auto entry = std::make_shared<State::Watched>(state_->context, descriptor);
  entry->work = std::move(work);
  state_->watched[id] = entry;
  state_->Wait(id, entry);
  return id;
}

EventLoop::Id EventLoop::WhenWritable(int descriptor, std::function<void()> work) {
  const Id id = state_->next++;
  auto entry = std::make_shared<State::Watched>(state_->context, descriptor);
  entry->work = std::move(work);
  entry->once = true;
  state_->watched[id] = entry;
  state_->Wait(id, entry);
  return id;
}

void EventLoop::Unwatch(Id id) { state_->watched.erase(id); }

EventLoop::Id EventLoop::At(TimePoint when, std::function<void()> work) {
  const Id id = state_->next++;
  auto entry = std::make_shared<State::Timer>(state_->context);
  entry->work = std::move(work);
  entry->timer.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(when));
  state_->timers[id] = entry;
  State* const state = state_.get();
  entry->timer.async_wait([state, id](const boost::system::error_code& error) {
    const auto found = state->timers.find(id);
    if (error || found == state->timers.end()) return;
    const std::shared_ptr<State::Timer> alive = found->second;
    state->timers.erase(found);
    alive->work();
  });
  return id;
}

EventLoop::Id EventLoop::After(Duration delay, std::function<void()> work) {
  return At(SteadyNow() + delay, std::move(work));
}

void EventLoop::CancelTimer(Id id) { state_->timers.erase(id); }

Status EventLoop::Run() {
  try {
    state_->context.restart();
    state_->context.run();
    return OkStatus();
  } catch (const std::exception& error) {
    return Internal(Concat("the agent's loop failed: ", error.what()));
  }
}

void EventLoop::Stop() { state_->context.stop(); }

}  // namespace muster::agent

#include "launcher/agent/writer_thread.h"

#include <condition_variable>
#include <deque>
#include <mutex>

namespace muster::agent {

struct WriterThread::Shared {
  struct Job {
    std::size_t bytes = 0;
    std::function<void()> work;
  };

  std::mutex mutex;
  std::condition_variable filled;
  std::condition_variable emptied;
  std::deque<Job> jobs;
  std::size_t bytes = 0;
  std::size_t bytes_max = 0;
  bool busy = false;
  bool stop = false;

  void Run() {
    std::unique_lock lock(mutex);
    while (true) {
      filled.wait(lock, [this] { return stop || !jobs.empty(); });
      if (jobs.empty()) break;
      const Job job = std::move(jobs.front());
      jobs.pop_front();
      busy = true;
      lock.unlock();
      job.work();
      lock.lock();
      busy = false;
      bytes -= job.bytes;
      if (jobs.empty()) emptied.notify_all();
    }
    emptied.notify_all();
  }
};

WriterThread::WriterThread(std::size_t bytes_max) : shared_(std::make_shared<Shared>()) {
  shared_->bytes_max = bytes_max;
  thread_ = std::thread([shared = shared_] { shared->Run(); });
}

WriterThread::~WriterThread() { Stop(Duration::zero()); }

bool WriterThread::Push(std::size_t bytes, std::function<void()> work) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->stop) return false;
  if (shared_->bytes != 0 && shared_->bytes + bytes > shared_->bytes_max) return false;
  shared_->bytes += bytes;
  shared_->jobs.push_back({bytes, std::move(work)});
  shared_->filled.notify_one();
  return true;
}

bool WriterThread::Stop(Duration limit) {
  if (!thread_.joinable()) return true;
  bool done = false;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->stop = true;
    shared_->filled.notify_all();
    done = shared_->emptied.wait_for(lock, limit,
                                     [this] { return shared_->jobs.empty() && !shared_->busy; });
    if (!done) shared_->jobs.clear();
  }
  if (done) {
    thread_.join();
  } else {
    thread_.detach();
  }
  return done;
}

}  // namespace muster::agent

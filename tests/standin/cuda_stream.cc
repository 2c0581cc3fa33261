#include "tests/standin/cuda_stream.h"

#include <pthread.h>

#include <map>
#include <utility>
#include <vector>

namespace muster::standin {
namespace {

// Never destroyed: streams may run while the process ends.
struct Tables {
  std::mutex mutex;
  std::map<comm::cuda::Stream, std::shared_ptr<CudaStream>> streams;
  std::map<int, std::shared_ptr<CudaStream>> defaults;  // by device
  std::map<comm::cuda::Event, std::shared_ptr<CudaEvent>> events;
};
Tables& TheTables() {
  static auto* const tables = new Tables;
  return *tables;
}

}  // namespace

void CudaStream::Start(const std::shared_ptr<CudaStream>& stream) {
  const std::lock_guard lock(stream->mutex_);
  stream->thread_ = std::make_unique<std::thread>([stream] { stream->Run(); });
  pthread_setname_np(stream->thread_->native_handle(), "standin-stream");
}

void CudaStream::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return finished_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
    ++run_;
    changed_.notify_all();
  }
}

void CudaStream::Push(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  ++pushed_;
  changed_.notify_all();
}

std::uint64_t CudaStream::pushed() {
  const std::lock_guard lock(mutex_);
  return pushed_;
}

bool CudaStream::HasRun(std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  return run_ >= count;
}

void CudaStream::WaitUntilRun(std::uint64_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return run_ >= count; });
}

void CudaStream::Finish() {
  std::unique_ptr<std::thread> thread;
  bool idle = false;
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    idle = run_ == pushed_;
    thread = std::move(thread_);
    changed_.notify_all();
  }
  if (idle) {
    thread->join();
  } else {
    thread->detach();
  }
}

std::shared_ptr<CudaStream> FindStream(comm::cuda::Stream handle, int current_device) {
  Tables& tables = TheTables();
  const std::lock_guard lock(tables.mutex);
  if (handle != nullptr) {
    const auto place = tables.streams.find(handle);
    return place != tables.streams.end() ? place->second : nullptr;
  }
  auto& stream = tables.defaults[current_device];
  if (stream == nullptr) {
    stream = std::make_shared<CudaStream>(current_device);
    CudaStream::Start(stream);
  }
  return stream;
}

comm::cuda::Stream NewStream(int device) {
  const auto stream = std::make_shared<CudaStream>(device);
  CudaStream::Start(stream);
  const auto handle = reinterpret_cast<comm::cuda::Stream>(stream.get());
  Tables& tables = TheTables();
  const std::lock_guard lock(tables.mutex);
  tables.streams[handle] = stream;
  return handle;
}

Code DestroyStream(comm::cuda::Stream handle) {
  std::shared_ptr<CudaStream> stream;
  {
    Tables& tables = TheTables();
    const std::lock_guard lock(tables.mutex);
    const auto place = tables.streams.find(handle);
    if (place == tables.streams.end()) return Code::kInvalidResourceHandle;
    stream = std::move(place->second);
    tables.streams.erase(place);
  }
  stream->Finish();
  return Code::kSuccess;
}

void SynchronizeDevice(int device) {
  std::vector<std::shared_ptr<CudaStream>> streams;
  {
    Tables& tables = TheTables();
    const std::lock_guard lock(tables.mutex);
    for (const auto& [handle, stream] : tables.streams) streams.push_back(stream);
    for (const auto& [number, stream] : tables.defaults) streams.push_back(stream);
  }
  for (const auto& stream : streams) {
    if (stream->device() == device) stream->Synchronize();
  }
}

std::shared_ptr<CudaEvent> FindEvent(comm::cuda::Event handle) {
  Tables& tables = TheTables();
  const std::lock_guard lock(tables.mutex);
  const auto place = tables.events.find(handle);
  return place != tables.events.end() ? place->second : nullptr;
}

comm::cuda::Event NewEvent() {
  const auto event = std::make_shared<CudaEvent>();
  const auto handle = reinterpret_cast<comm::cuda::Event>(event.get());
  Tables& tables = TheTables();
  const std::lock_guard lock(tables.mutex);
  tables.events[handle] = event;
  return handle;
}

Code DestroyEvent(comm::cuda::Event handle) {
  Tables& tables = TheTables();
  const std::lock_guard lock(tables.mutex);
  return tables.events.erase(handle) != 0 ? Code::kSuccess : Code::kInvalidResourceHandle;
}

}  // namespace muster::standin

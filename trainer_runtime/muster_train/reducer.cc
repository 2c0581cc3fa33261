#include "trainer_runtime/muster_train/reducer.h"

#include <utility>

namespace muster::train_program {

Reducer::Reducer(comm::ProcessGroup& group, std::span<float> gradients, training::BucketPlan plan)
    : group_(group), gradients_(gradients), progress_(std::move(plan)) {
  works_.reserve(progress_.plan().buckets.size());
}

void Reducer::Add(std::size_t first, std::size_t count) {
  progress_.Report(first, count, [this](std::size_t index) {
    const training::Bucket& bucket = progress_.plan().buckets[index];
    works_.push_back(group_.AllReduce(gradients_.subspan(bucket.first, bucket.count)));
  });
}

Status Reducer::Wait() {
  Status first;
  for (const comm::Work& work : works_) {
    Status status = work.Wait();
    if (first.ok()) first = std::move(status);
  }
  works_.clear();
  progress_.Reset();
  return first;
}

}  // namespace muster::train_program

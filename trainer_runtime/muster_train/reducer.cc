#include "trainer_runtime/muster_train/reducer.h"

#include <algorithm>

#include "common/check.h"

namespace muster::train_program {

Reducer::Reducer(comm::ProcessGroup& group, std::span<float> gradients, std::size_t bucket_bytes)
    : group_(group),
      gradients_(gradients),
      bucket_floats_(std::max<std::size_t>(bucket_bytes / sizeof(float), 1)),
      bucket_begin_(gradients.size()),
      bucket_end_(gradients.size()) {}

void Reducer::Add(std::size_t first, std::size_t count) {
  MUSTER_CHECK(first + count == bucket_begin_, "gradients become final from the end to the start");
  bucket_begin_ = first;
  if (bucket_end_ - bucket_begin_ >= bucket_floats_) Launch();
}

void Reducer::Launch() {
  if (bucket_begin_ == bucket_end_) return;
  works_.push_back(
      group_.AllReduce(gradients_.subspan(bucket_begin_, bucket_end_ - bucket_begin_)));
  bucket_end_ = bucket_begin_;
}

Status Reducer::Wait() {
  Launch();
  Status first;
  for (const comm::Work& work : works_) {
    Status status = work.Wait();
    if (first.ok()) first = std::move(status);
  }
  works_.clear();
  bucket_begin_ = bucket_end_ = gradients_.size();
  return first;
}

}  // namespace muster::train_program

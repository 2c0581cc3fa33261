#include "trainer_runtime/train/bucket_plan.h"

#include <utility>

#include "common/check.h"

namespace muster::training {

BucketPlan MakeBuckets(std::span<const models::Tensor> tensors, std::size_t first_bucket_bytes,
                       std::size_t bucket_bytes) {
  BucketPlan plan;
  bool open = false;
  for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
    if (!open) plan.buckets.push_back({tensor->offset + tensor->count, 0});
    Bucket& bucket = plan.buckets.back();
    bucket.first = tensor->offset;
    bucket.count += tensor->count;
    const std::size_t limit = plan.buckets.size() == 1 ? first_bucket_bytes : bucket_bytes;
    open = bucket.count * sizeof(float) < limit;
  }
  return plan;
}

BucketProgress::BucketProgress(BucketPlan plan) : plan_(std::move(plan)) { Reset(); }

void BucketProgress::Reset() {
  end_ = plan_.buckets.empty() ? 0 : plan_.buckets.front().first + plan_.buckets.front().count;
  next_bucket_ = 0;
}

void BucketProgress::Report(std::size_t first, std::size_t count,
                            const std::function<void(std::size_t)>& ready) {
  MUSTER_CHECK(first + count == end_, "gradients are reported from the end of the buffer, once");
  end_ = first;
  while (next_bucket_ < plan_.buckets.size() && plan_.buckets[next_bucket_].first >= end_) {
    ready(next_bucket_++);
  }
}

}  // namespace muster::training

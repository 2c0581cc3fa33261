#pragma once

// How gradients are cut into buckets for reduction while backward still runs.
//
// Buckets come in backward order: the first ends at the flat buffer's end. Cuts are between
// tensors; the first bucket is small, so that the first reduction starts early (as in Li et al.,
// "PyTorch Distributed", 2020, section 4.2). A pure function of the table and two sizes: all ranks
// get the same plan, and the run keeps the sizes, since they decide the order of summation.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "common/status.h"
#include "trainer_runtime/models/tensor_table.h"

namespace muster::training {

struct Bucket {
  std::size_t first = 0;  // elements [first, first + count) of the flat buffer
  std::size_t count = 0;

  friend bool operator==(const Bucket&, const Bucket&) = default;
};

struct BucketPlan {
  std::vector<Bucket> buckets;

  friend bool operator==(const BucketPlan&, const BucketPlan&) = default;
};

// Tensors are gathered, the last first, until a bucket has reached its size in bytes of float; a
// bucket thus exceeds it by less than one tensor. A size of 0 gives one tensor a bucket.
BucketPlan MakeBuckets(std::span<const models::Tensor> tensors, std::size_t first_bucket_bytes,
                       std::size_t bucket_bytes);

// Says which buckets are complete as a model reports its gradients (BasicModel's GradientHook).
// Thread-compatible; allocates nothing.
class BucketProgress {
 public:
  explicit BucketProgress(BucketPlan plan);

  const BucketPlan& plan() const { return plan_; }
  // For the next backward pass.
  void Reset();
  // Calls ready(index of the bucket) for each bucket that this range completes, in plan order.
  // REQUIRES ranges in backward order: each ends where the one before it began.
  void Report(std::size_t first, std::size_t count, const std::function<void(std::size_t)>& ready);
  // Whether every bucket was reported.
  bool done() const { return next_bucket_ == plan_.buckets.size(); }

 private:
  const BucketPlan plan_;
  std::size_t end_ = 0;  // gradients from here on are final
  std::size_t next_bucket_ = 0;
};

}  // namespace muster::training

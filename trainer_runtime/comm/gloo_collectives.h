#pragma once

// Collectives on a GlooMesh, with a fixed order of summation (summation_order.h).
//
// One thread uses one object; all ranks make the same calls in the same order. Scratch memory is
// kept between calls: fresh memory is many times slower to write than memory that is there.

#include <cstddef>
#include <span>
#include <vector>

#include "common/status.h"
#include "trainer_runtime/comm/gloo_mesh.h"

namespace muster::comm {

class GlooCollectives {
 public:
  // The mesh must be connected, and outlive this.
  explicit GlooCollectives(GlooMesh& mesh) : mesh_(mesh) {}

  Status AllReduce(std::span<float> values);
  Status Broadcast(std::span<std::byte> bytes, int root);
  Status AllGather(std::span<const std::byte> own, std::span<std::byte> all);
  Status Barrier();

 private:
  Status DirectAllReduce(std::span<float> values);
  Status RingAllReduce(std::span<float> values);

  GlooMesh& mesh_;
  std::vector<float> scratch_;
};

}  // namespace muster::comm

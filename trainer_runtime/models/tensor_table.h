#pragma once

// The table of a model's parameters inside its one flat buffer.
//
// Tensors stand in forward order, one after the other without gaps: tensor i+1 begins where tensor
// i ends, the first at 0. Gradients, optimizer moments and checkpoints use the same table. Anybody
// may read it; it never changes after the model is made.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace muster::models {

struct Tensor {
  std::string name;                // "layer3.attention.qkv.weight"
  std::vector<std::size_t> shape;  // row-major; a matrix is [outputs, inputs]
  std::size_t offset = 0;          // elements from the start of the flat buffer
  std::size_t count = 0;           // elements: the product of shape

  friend bool operator==(const Tensor&, const Tensor&) = default;
};

class TensorTable {
 public:
  // Adds a tensor behind the last one and returns its offset.
  std::size_t Add(std::string name, std::vector<std::size_t> shape);

  std::span<const Tensor> tensors() const { return tensors_; }
  // Elements of the whole flat buffer.
  std::size_t count() const { return count_; }

 private:
  std::vector<Tensor> tensors_;
  std::size_t count_ = 0;
};

}  // namespace muster::models

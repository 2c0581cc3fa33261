#include "trainer_runtime/models/tensor_table.h"

#include <utility>

namespace muster::models {

std::size_t TensorTable::Add(std::string name, std::vector<std::size_t> shape) {
  std::size_t count = 1;
  for (std::size_t size : shape) count *= size;
  const std::size_t offset = count_;
  tensors_.push_back({std::move(name), std::move(shape), offset, count});
  count_ += count;
  return offset;
}

}  // namespace muster::models

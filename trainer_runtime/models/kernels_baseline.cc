#include "trainer_runtime/models/kernels_body.h"

namespace muster::models {

template <>
const Kernels<float>& BaselineKernels<float>() {
  static constexpr Kernels<float> kernels = MakeKernels<float>("baseline");
  return kernels;
}

template <>
const Kernels<double>& BaselineKernels<double>() {
  static constexpr Kernels<double> kernels = MakeKernels<double>("baseline");
  return kernels;
}

template <>
const Kernels<float>& BestKernels<float>() {
  const Kernels<float>* wide = Avx2Kernels();
  return wide != nullptr ? *wide : BaselineKernels<float>();
}

template <>
const Kernels<double>& BestKernels<double>() {
  return BaselineKernels<double>();
}

}  // namespace muster::models

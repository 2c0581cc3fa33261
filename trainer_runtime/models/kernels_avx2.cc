#include "trainer_runtime/models/kernels_body.h"

namespace muster::models {

// Compiled with -mavx2 on x86-64; elsewhere __AVX2__ is unset and there is no such build.
const Kernels<float>* Avx2Kernels() {
#if defined(__AVX2__)
  static constexpr Kernels<float> kernels = MakeKernels<float>("avx2");
  return __builtin_cpu_supports("avx2") ? &kernels : nullptr;
#else
  return nullptr;
#endif
}

}  // namespace muster::models

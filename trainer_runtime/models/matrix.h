#pragma once

// Matrix products, row-major, by OpenBLAS; and the number of threads it may use.
//
// The order of summation, hence the bits of a product, depends on the processor's OpenBLAS kernel
// and may depend on the number of threads: fix it once per run. Calls from several threads at a
// time are OpenBLAS's to serialise; SetMatrixThreads is for the start of the program.

#include <cstddef>

namespace muster::models {

// Sets OpenBLAS's threads for the whole process (at least 1). Until it is called the first product
// sets 1, never the number of cores: a node runs several workers.
void SetMatrixThreads(int threads);
int MatrixThreads();
// "Zen", "SkylakeX": the kernel OpenBLAS chose; part of what decides the bits.
const char* MatrixKernelName();

template <typename Scalar>
struct Operand {
  const Scalar* data = nullptr;
  std::size_t stride = 0;   // elements between rows as stored
  bool transposed = false;  // use the transpose of what is stored
};

// c[m, n] = alpha * a[m, k] * b[k, n] + beta * c; sizes are those after transposition. With beta 0
// the old contents of c are not read. Any of m, n, k may be 0.
void MatrixProduct(std::size_t m, std::size_t n, std::size_t k, float alpha, Operand<float> a,
                   Operand<float> b, float beta, float* c, std::size_t c_stride);
void MatrixProduct(std::size_t m, std::size_t n, std::size_t k, double alpha, Operand<double> a,
                   Operand<double> b, double beta, double* c, std::size_t c_stride);

}  // namespace muster::models

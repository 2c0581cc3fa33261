#include "trainer_runtime/models/matrix.h"

#include <cblas.h>

#include <climits>

#include "common/check.h"

namespace muster::models {

namespace {

bool threads_are_set = false;

// Products of the model are far below this; a larger one is a mistake in sizes.
blasint Size(std::size_t value) {
  MUSTER_CHECK(value <= INT_MAX, "a matrix dimension beyond OpenBLAS's integers");
  return static_cast<blasint>(value);
}

CBLAS_TRANSPOSE Orientation(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

void EnsureThreads() {
  if (!threads_are_set) [[unlikely]]
    SetMatrixThreads(1);
}

}  // namespace

void SetMatrixThreads(int threads) {
  MUSTER_CHECK(threads >= 1, "OpenBLAS needs at least one thread");
  openblas_set_num_threads(threads);
  threads_are_set = true;
}

int MatrixThreads() {
  EnsureThreads();
  return openblas_get_num_threads();
}

const char* MatrixKernelName() { return openblas_get_corename(); }

void MatrixProduct(std::size_t m, std::size_t n, std::size_t k, float alpha, Operand<float> a,
                   Operand<float> b, float beta, float* c, std::size_t c_stride) {
  if (m == 0 || n == 0) return;
  EnsureThreads();
  cblas_sgemm(CblasRowMajor, Orientation(a.transposed), Orientation(b.transposed), Size(m), Size(n),
              Size(k), alpha, a.data, Size(a.stride), b.data, Size(b.stride), beta, c,
              Size(c_stride));
}

void MatrixProduct(std::size_t m, std::size_t n, std::size_t k, double alpha, Operand<double> a,
                   Operand<double> b, double beta, double* c, std::size_t c_stride) {
  if (m == 0 || n == 0) return;
  EnsureThreads();
  cblas_dgemm(CblasRowMajor, Orientation(a.transposed), Orientation(b.transposed), Size(m), Size(n),
              Size(k), alpha, a.data, Size(a.stride), b.data, Size(b.stride), beta, c,
              Size(c_stride));
}

}  // namespace muster::models

#include "trainer_runtime/train/scalar_math.h"

namespace muster::training {

double PowerOf(double base, std::uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if ((exponent & 1) != 0) result *= base;
  }
  return result;
}

double CosinePi(double x) {
  constexpr double kPi = 3.14159265358979323846;
  // cos(pi x) = sin(pi (1/2 - x)), whose argument stays within +-pi/2: Taylor's series to x^21.
  const double angle = kPi * (0.5 - x);
  const double square = angle * angle;
  double sum = 0;
  for (int power = 21; power > 1; power -= 2) {
    sum = (1 + sum) * (-square / (power * (power - 1)));
  }
  return angle * (1 + sum);
}

}  // namespace muster::training

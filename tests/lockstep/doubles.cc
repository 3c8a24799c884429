// Double and float arithmetic, the math library, conversions, printing and parsing of doubles.

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <limits>

namespace {

using Function = double (*)(double);
using FloatFunction = float (*)(float);

constexpr Function kFunctions[] = {sin,   cos,   tan,   asin,  acos, atan, exp,   exp2, log,
                                   log2,  log10, log1p, expm1, sinh, cosh, tanh,  sqrt, cbrt,
                                   floor, ceil,  round, trunc, rint, erf,  lgamma};
constexpr FloatFunction kFloatFunctions[] = {sinf, cosf, expf, logf, sqrtf, floorf, tanf};

double Operators(double a, double b) {
  volatile double x = a, y = b;
  double sum = (x + y) * (x - y) / (y * y + 1);
  sum += x < y ? 1 : 2;
  sum += x == y ? 4 : x > y ? 8 : 16;
  sum += std::fmin(x, y) + std::fmax(x, y) + std::copysign(x, y) + std::fabs(y);
  return sum;
}

double Conversions(double a) {
  volatile double x = a;
  volatile auto i32 = static_cast<int32_t>(x);
  volatile auto i64 = static_cast<int64_t>(x * 1e6);
  volatile auto u64 = static_cast<uint64_t>(std::fabs(x) * 1e18);
  volatile auto single = static_cast<float>(x);
  return static_cast<double>(i32) + static_cast<double>(i64) + static_cast<double>(u64) +
         static_cast<double>(single) + static_cast<double>(lrint(x)) + nearbyint(x);
}

double PrintedAndParsed(double value, char* text, size_t size) {
  static constexpr const char* kFormats[] = {"%.17g", "%f", "%.3e", "%a", "%10.2f", "%g"};
  double sum = 0;
  for (const char* format : kFormats) {
    std::snprintf(text, size, format, value);
    sum += std::strtod(text, nullptr);
  }
  return sum;
}

}  // namespace

int main() {
  char text[512];
  double sum = 0;
  constexpr double kValues[] = {0.5,     -1.25, 3.14159,  1e-7, 123456.789, 1e22,
                                -1e-310, 7e100, 0.999999, 2.0,  -17.5};
  for (double value : kValues) {
    for (Function function : kFunctions) {
      const double result = function(value);
      if (std::isfinite(result)) sum += result;
    }
    for (FloatFunction function : kFloatFunctions) {
      const float result = function(static_cast<float>(value));
      if (std::isfinite(result)) sum += static_cast<double>(result);
    }
    sum += std::pow(std::fabs(value), 1.37) + std::fmod(value, 0.7) + std::hypot(value, 3) +
           std::atan2(value, 2) + std::remainder(value, 0.3);
    sum += Operators(value, sum) + Conversions(std::fmod(value, 1000));
    sum += PrintedAndParsed(value, text, sizeof(text));
    sum += std::fma(value, 1.1, -value);
  }
  for (int mode : {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO, FE_TONEAREST}) {
    std::fesetround(mode);
    sum += Operators(1.1, 3.3) + std::sin(0.7) + std::rint(2.5);
    std::snprintf(text, sizeof(text), "%.5f", 2.0 / 3);
  }
  const double infinity = std::numeric_limits<double>::infinity();
  sum += std::isnan(infinity - infinity) + std::isinf(1 / infinity);
  std::printf("%.17g\n", sum);
  return 0;
}

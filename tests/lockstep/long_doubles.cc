// x87: long double arithmetic, comparison, conversion, the math library, rounding, printing.

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace {

long double Operators(long double a, long double b) {
  volatile long double x = a, y = b;
  long double sum = (x + y) * (x - y) / (y * y + 1);
  sum += x < y ? 1 : 2;
  sum += x == y ? 4 : x >= y ? 8 : 16;
  return -sum + fabsl(x) + sqrtl(fabsl(y)) + copysignl(x, y);
}

long double Conversions(long double a) {
  volatile long double x = a;
  volatile auto i16 = static_cast<int16_t>(x);
  volatile auto i32 = static_cast<int32_t>(x);
  volatile auto i64 = static_cast<int64_t>(x * 1000);
  volatile auto u64 = static_cast<uint64_t>(fabsl(x));
  volatile auto wide = static_cast<double>(x);
  volatile auto single = static_cast<float>(x);
  return static_cast<long double>(i16) + i32 + i64 + u64 + wide + single + lrintl(x);
}

long double Functions(long double x) {
  return floorl(x) + ceill(x) + rintl(x) + sinl(x) + cosl(x) + expl(-fabsl(x)) +
         logl(fabsl(x) + 1) + atanl(x) + powl(fabsl(x), 0.3L) + fmodl(x, 0.7L) + log10l(2 + x * x) +
         ldexpl(x, 3) + truncl(x);
}

long double PrintedAndParsed(long double value) {
  static constexpr const char* kFormats[] = {"%.20Lg", "%Lf", "%.3Le", "%La"};
  char text[512];
  long double sum = 0;
  for (const char* format : kFormats) {
    std::snprintf(text, sizeof(text), format, value);
    sum += std::strtold(text, nullptr);
  }
  return sum;
}

// What compilers rarely emit.
long double Stack(long double x) {
  long double result;
  asm("fld1\n\tfxch\n\tfaddp\n\tfldz\n\tfcomi %%st(1), %%st\n\tfcmovb %%st(1), %%st\n\t"
      "fstp %%st(1)\n\tfabs\n\tfsqrt\n\tfrndint\n\tfchs"
      : "=t"(result)
      : "0"(x)
      : "cc");
  return result;
}

}  // namespace

int main() {
  long double sum = 0;
  constexpr long double kValues[] = {
      0.5L, -1.25L, 3.14159265358979323846L, 1e-7L, 12345.678L, -17.5L, 2.0L, 7e-20L};
  for (int mode : {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    for (long double value : kValues) {
      for (int i = 0; i < 6; ++i) sum += Operators(value * i, sum);
      sum += Conversions(value) + Stack(value);
      if (mode == FE_TONEAREST) sum += Functions(value) + PrintedAndParsed(value);
    }
  }
  std::fesetround(FE_TONEAREST);
  std::printf("%.20Lg\n", sum);
  return 0;
}

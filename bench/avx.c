// A loop of 256-bit vector instructions, about two million of them.
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>

__attribute__((target("avx2,fma"))) static float run(const float* values, int count, int rounds) {
  __m256 sums[4];
  for (int i = 0; i < 4; i++) sums[i] = _mm256_set1_ps((float)i);
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i + 32 <= count; i += 32) {
      for (int j = 0; j < 4; j++) {
        const __m256 x = _mm256_loadu_ps(values + i + j * 8);
        sums[j] = _mm256_fmadd_ps(sums[j], _mm256_set1_ps(0.999f), _mm256_mul_ps(x, x));
      }
    }
  }
  float out[8];
  _mm256_storeu_ps(out,
                   _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3])));
  return out[0] + out[5];
}

int main(void) {
  static float values[8192];
  for (int i = 0; i < 8192; i++) values[i] = (float)(i % 97) * 0.25f;
  printf("%g\n", (double)run(values, 8192, 650));
  return 0;
}

// AVX, AVX2, FMA and F16C, whatever cpuid reports: to be run only where the processor has them.
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define KERNEL __attribute__((target("avx2,fma,f16c"), noinline))

enum { kCount = 4096 };

static uint32_t numbers[kCount];
static float floats[kCount];
static double doubles[kCount];

static uint64_t hash(const void* bytes, size_t size) {
  uint64_t result = 14695981039346656037u;
  for (size_t i = 0; i < size; i++) {
    result = (result ^ ((const unsigned char*)bytes)[i]) * 1099511628211u;
  }
  return result;
}

static void report(const char* what, const void* bytes, size_t size) {
  printf("%s: %016llx\n", what, (unsigned long long)hash(bytes, size));
}

KERNEL static void integers(void) {
  __m256i sum = _mm256_setzero_si256(), mixed = _mm256_set1_epi32(0x9e3779b9);
  const __m256i order = _mm256_setr_epi32(3, 1, 7, 5, 0, 2, 6, 4);
  for (int i = 0; i < kCount; i += 8) {
    const __m256i x = _mm256_loadu_si256((const __m256i*)(numbers + i));
    sum = _mm256_add_epi64(sum, _mm256_mul_epu32(x, _mm256_permutevar8x32_epi32(x, order)));
    mixed = _mm256_shuffle_epi8(_mm256_xor_si256(mixed, x), _mm256_set1_epi64x(0x0102030405060700));
    mixed =
        _mm256_add_epi32(mixed, _mm256_srlv_epi32(x, _mm256_and_si256(x, _mm256_set1_epi32(31))));
    mixed = _mm256_blendv_epi8(mixed, sum, _mm256_cmpgt_epi8(x, mixed));
  }
  __m256i both[2] = {sum, mixed};
  report("integers", both, sizeof(both));
}

KERNEL static void real_numbers(void) {
  __m256 low = _mm256_set1_ps(1), high = _mm256_setzero_ps();
  __m256d wide = _mm256_setzero_pd();
  for (int i = 0; i < kCount; i += 8) {
    const __m256 x = _mm256_loadu_ps(floats + i);
    low = _mm256_fmadd_ps(low, _mm256_set1_ps(0.5f), x);
    high = _mm256_fnmadd_ps(x, low, high);
    high = _mm256_max_ps(_mm256_div_ps(high, _mm256_set1_ps(1.7f)), _mm256_sqrt_ps(x));
    wide = _mm256_fmsub_pd(wide, _mm256_set1_pd(0.25), _mm256_loadu_pd(doubles + i % kCount));
    wide =
        _mm256_round_pd(_mm256_hadd_pd(wide, wide), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  __m256 both[2] = {low, high};
  report("floats", both, sizeof(both));
  report("doubles", &wide, sizeof(wide));
}

KERNEL static void gathers_and_masks(void) {
  float out[8] = {0};
  int stored[16] = {0};
  __m256 sum = _mm256_setzero_ps();
  for (int i = 0; i < kCount; i += 8) {
    const __m256i x = _mm256_loadu_si256((const __m256i*)(numbers + i));
    const __m256i index = _mm256_and_si256(x, _mm256_set1_epi32(kCount - 1));
    sum = _mm256_add_ps(sum, _mm256_i32gather_ps(floats, index, 4));
    _mm256_maskstore_epi32(stored + i % 9, x, index);  // lanes whose top bit is clear: none
    _mm256_maskstore_epi32(stored + i % 9, index, x);
  }
  _mm256_storeu_ps(out, sum);
  report("gathers", out, sizeof(out));
  report("masked stores", stored, sizeof(stored));
}

KERNEL static void half_precision(void) {
  uint64_t result = 0;
  for (int i = 0; i < kCount; i += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(floats + i), _MM_FROUND_TO_NEAREST_INT);
    const __m256 back = _mm256_cvtph_ps(half);
    result = result * 31 + hash(&half, sizeof(half)) + hash(&back, sizeof(back));
  }
  report("half precision", &result, sizeof(result));
}

// The upper halves live across calls and clears.
KERNEL static void upper_halves(void) {
  __m256i value = _mm256_set_epi64x(4, 3, 2, 1);
  __asm__ volatile("vmovdqu %0, %%ymm9" : : "m"(value) : "xmm9");
  printf("between\n");
  __m256i filled, cleared;
  __asm__ volatile("vmovdqu %2, %%ymm9\n vmovdqu %%ymm9, %0\n vzeroupper\n vmovdqu %%ymm9, %1"
                   : "=m"(filled), "=m"(cleared)
                   : "m"(value)
                   : "xmm9");
  report("upper halves", &filled, sizeof(filled));
  report("cleared", &cleared, sizeof(cleared));
}

int main(void) {
  uint32_t state = 1;
  for (int i = 0; i < kCount; i++) {
    state = state * 1664525 + 1013904223;
    numbers[i] = state;
    floats[i] = (float)(state >> 8) / 65536.0f;
    doubles[i] = (double)state / 3.0;
  }
  integers();
  real_numbers();
  gathers_and_masks();
  half_precision();
  upper_halves();
  return 0;
}

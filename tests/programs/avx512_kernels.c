// AVX-512 (F, BW, DQ, VL), whatever cpuid reports: to be run only where the processor has it.
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define KERNEL __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"), noinline))

enum { kCount = 4096 };

static uint32_t numbers[kCount];
static float floats[kCount];

static void report(const char* what, const void* bytes, size_t size) {
  uint64_t result = 14695981039346656037u;
  for (size_t i = 0; i < size; i++) {
    result = (result ^ ((const unsigned char*)bytes)[i]) * 1099511628211u;
  }
  printf("%s: %016llx\n", what, (unsigned long long)result);
}

KERNEL static void integers(void) {
  __m512i sum = _mm512_setzero_si512(), mixed = _mm512_set1_epi32(0x1234567);
  for (int i = 0; i < kCount; i += 16) {
    const __m512i x = _mm512_loadu_si512(numbers + i);
    const __mmask16 odd = _mm512_test_epi32_mask(x, _mm512_set1_epi32(1));
    sum = _mm512_mask_add_epi32(sum, odd, sum, _mm512_rolv_epi32(x, mixed));
    mixed = _mm512_ternarylogic_epi32(mixed, x, sum, 0x96);
    mixed = _mm512_mask_permutexvar_epi32(mixed, (__mmask16)~odd, x, mixed);
    const __mmask64 bytes = _mm512_cmpgt_epi8_mask(x, sum);
    sum = _mm512_mask_sub_epi8(sum, bytes, sum, mixed);
    sum = _mm512_mullo_epi64(sum, _mm512_set1_epi64(0x9e3779b97f4a7c15));
  }
  const __m512i both[2] = {sum, mixed};
  report("integers", both, sizeof(both));
}

KERNEL static void real_numbers(void) {
  __m512 sum = _mm512_setzero_ps();
  float added = 0;
  for (int i = 0; i < kCount; i += 16) {
    const __m512 x = _mm512_loadu_ps(floats + i);
    const __mmask16 small = _mm512_cmp_ps_mask(x, _mm512_set1_ps(100), _CMP_LT_OQ);
    sum = _mm512_mask3_fmadd_ps(x, _mm512_set1_ps(0.5f), sum, small);
    sum = _mm512_maskz_div_round_ps((__mmask16)(small | 0x5555), sum, _mm512_set1_ps(3),
                                    _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    sum = _mm512_scalef_ps(_mm512_getmant_ps(sum, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src),
                           _mm512_set1_ps(2));
    added += _mm512_reduce_add_ps(x);
  }
  report("floats", &sum, sizeof(sum));
  report("added", &added, sizeof(added));
}

KERNEL static void compress_and_scatter(void) {
  static uint32_t out[kCount + 16], scattered[1024];
  int count = 0;
  for (int i = 0; i < kCount; i += 16) {
    const __m512i x = _mm512_loadu_si512(numbers + i);
    const __mmask16 some = _mm512_cmplt_epu32_mask(x, _mm512_set1_epi32(0x60000000));
    _mm512_mask_compressstoreu_epi32(out + count, some, x);
    count += __builtin_popcount(some);
    const __m512i index = _mm512_and_si512(x, _mm512_set1_epi32(1023));
    _mm512_mask_i32scatter_epi32(scattered, some, index, x, 4);
    const __m512i expanded = _mm512_maskz_expandloadu_epi32(some, out);
    count += _mm512_cmpeq_epi32_mask(expanded, index) != 0;
  }
  printf("kept %d\n", count);
  report("kept", out, sizeof(out));
  report("scattered", scattered, sizeof(scattered));
}

// Registers 16 to 31 and the masks live across calls that do not use them.
KERNEL static void upper_registers(void) {
  const __m512i value = _mm512_set_epi64(8, 7, 6, 5, 4, 3, 2, 1);
  __m512i result;
  uint64_t mask = 0;
  for (int i = 0; i < 2000; i++) {
    __asm__ volatile(
        "vmovdqu64 %2, %%zmm27\n"
        "kmovq %3, %%k5\n"
        "vpaddq %%zmm27, %%zmm27, %%zmm31%{%%k5%}%{z%}\n"
        "vprolq $3, %%zmm31, %%zmm20\n"
        "vmovdqu64 %%zmm20, %0\n"
        "knotq %%k5, %%k6\n"
        "kmovq %%k6, %1"
        : "=m"(result), "=r"(mask)
        : "m"(value), "r"((uint64_t)i * 0x10001)
        : "xmm27", "xmm31", "xmm20", "k5", "k6");
  }
  report("upper registers", &result, sizeof(result));
  printf("mask %016llx\n", (unsigned long long)mask);
}

int main(void) {
  uint32_t state = 7;
  for (int i = 0; i < kCount; i++) {
    state = state * 1664525 + 1013904223;
    numbers[i] = state;
    floats[i] = (float)(state >> 8) / 65536.0f;
  }
  integers();
  real_numbers();
  compress_and_scatter();
  upper_registers();
  return 0;
}

// AVX-512 as compilers emit it: vectorized loops, masks, embedded broadcast and rounding, compress
// and expand, gathers and scatters, instructions on opmask registers.

#include <immintrin.h>

#include <cstdint>
#include <cstdio>

#define AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd"), optimize("O3"), noinline))

namespace {

constexpr int kNumbers = 219;
float floats[kNumbers];
double doubles[kNumbers];
int32_t integers[kNumbers], targets[kNumbers];
uint8_t bytes[kNumbers];

AVX512 float Polynomial(float x) {
  float sum = 0;
  for (int i = 0; i < kNumbers; ++i) sum += (floats[i] * x + 1) * x - floats[i];
  return sum;
}

AVX512 int Clamp(int32_t low) {
  int changed = 0;
  for (int i = 0; i < kNumbers; ++i) {
    if (integers[i] < low) {
      targets[i] = low;
      ++changed;
    }
  }
  return changed;
}

// Every size of tail, at the end of the array.
AVX512 double Tails(int n) {
  const __mmask16 mask = static_cast<__mmask16>((1u << n) - 1);
  const __m512 tail = _mm512_maskz_loadu_ps(mask, floats + kNumbers - n);
  _mm512_mask_storeu_ps(floats + kNumbers - n, mask, _mm512_mul_ps(tail, _mm512_set1_ps(0.5f)));
  const __m512 rounded = _mm512_add_round_ps(tail, tail, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  return _mm512_mask_reduce_add_ps(mask, _mm512_mask_sqrt_ps(rounded, mask, tail));
}

AVX512 int64_t Pack(int32_t limit) {
  const __m512i all = _mm512_loadu_si512(integers);
  const __mmask16 mask = _mm512_cmpgt_epi32_mask(all, _mm512_set1_epi32(limit));
  _mm512_mask_compressstoreu_epi32(targets + 3, mask, all);
  const __m512i back = _mm512_maskz_expandloadu_epi32(mask, targets + 3);
  const __m512i index = _mm512_and_si512(all, _mm512_set1_epi32(127));
  const __m512 gathered = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, index, floats, 4);
  _mm512_mask_i32scatter_ps(floats, mask, index, _mm512_add_ps(gathered, gathered), 4);
  return _mm512_reduce_add_epi32(back) + static_cast<int64_t>(_mm512_reduce_add_ps(gathered));
}

AVX512 uint64_t Masks(const uint8_t* at, const uint8_t* other) {
  const __mmask64 less = _mm512_cmplt_epu8_mask(_mm512_loadu_si512(at), _mm512_loadu_si512(other));
  const __mmask64 equal = _kxor_mask64(_kshiftli_mask64(less, 3), _knot_mask64(less));
  const __m512i sum = _mm512_mask_add_epi8(_mm512_loadu_si512(at), _kand_mask64(less, equal),
                                           _mm512_loadu_si512(at), _mm512_loadu_si512(other));
  return less + equal + _mm512_reduce_add_epi64(_mm512_conflict_epi64(sum)) +
         _kortestz_mask64_u8(less, equal);
}

AVX512 double Narrow(double by) {
  const __m512d wide = _mm512_mul_pd(_mm512_loadu_pd(doubles), _mm512_set1_pd(by));
  const __m256i rounded = _mm512_cvtpd_epi32(wide);
  _mm512_mask_cvtepi32_storeu_epi8(bytes, 0x5a5a, _mm512_loadu_si512(integers));
  const __m256d high = _mm512_extractf64x4_pd(
      _mm512_permutexvar_pd(_mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7), wide), 1);
  return _mm256_cvtsd_f64(high) + _mm256_extract_epi32(rounded, 5);
}

}  // namespace

int main() {
  uint64_t seed = 88172645463325252;
  auto next = [&seed] {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
  };
  for (int i = 0; i < kNumbers; ++i) {
    floats[i] = static_cast<float>(next() % 1000) / 7;
    doubles[i] = static_cast<double>(next() % 100000) / 3;
    integers[i] = static_cast<int32_t>(next());
    bytes[i] = static_cast<uint8_t>(next());
  }
  double sum = 0;
  for (int i = 0; i < 17; ++i) {
    sum += Polynomial(0.01f * static_cast<float>(i)) + Clamp(i << 24) + Tails(i % 17);
    sum += static_cast<double>(Pack(i << 26)) + Narrow(0.3 * i);
    sum += static_cast<double>(Masks(bytes + i, bytes + 70 + i));
  }
  std::printf("%g\n", sum);
  return 0;
}

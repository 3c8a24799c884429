// AVX, AVX2, FMA, F16C and BMI as compilers emit them: vectorized loops, intrinsics, gathers,
// masked loads and stores, between SSE code that must leave the upper halves alone.

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstdio>

#define AVX2                                                                                 \
  __attribute__((target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt,movbe,pclmul"), optimize("O3"), \
                 noinline))

namespace {

constexpr int kNumbers = 203;  // no multiple of a vector
float floats[kNumbers], more_floats[kNumbers];
double doubles[kNumbers];
int32_t integers[kNumbers];
uint8_t bytes[kNumbers];

AVX2 float Dot() {
  float sum = 0;
  for (int i = 0; i < kNumbers; ++i) sum = std::fma(floats[i], more_floats[i], sum);
  return sum;
}

AVX2 void Scale(double by) {
  for (int i = 0; i < kNumbers; ++i) doubles[i] = std::sqrt(doubles[i] * by + floats[i]) / 3;
}

AVX2 int64_t Count(int32_t limit) {
  int64_t count = 0;
  for (int i = 0; i < kNumbers; ++i) count += integers[i] > limit ? integers[i] * 3 : bytes[i];
  return count;
}

AVX2 __m256i Integers(__m256i a, __m256i b) {
  __m256i sum = _mm256_add_epi8(_mm256_shuffle_epi8(a, b), _mm256_mullo_epi32(a, b));
  sum = _mm256_xor_si256(sum, _mm256_permutevar8x32_epi32(a, b));
  sum = _mm256_add_epi64(sum, _mm256_mul_epu32(a, b));
  sum = _mm256_xor_si256(sum, _mm256_sllv_epi64(a, _mm256_srli_epi64(b, 58)));
  sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, b));
  sum = _mm256_xor_si256(sum, _mm256_permute2x128_si256(a, b, 0x21));
  return _mm256_blendv_epi8(sum, a, _mm256_cmpgt_epi8(a, b));
}

AVX2 double Masked(int n) {
  const __m256i lanes = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lanes);
  const __m256 head = _mm256_maskload_ps(floats + kNumbers - n, mask);
  _mm256_maskstore_ps(more_floats + kNumbers - n, mask, _mm256_add_ps(head, head));
  const __m256i index =
      _mm256_and_si256(_mm256_loadu_si256((const __m256i*)integers), _mm256_set1_epi32(127));
  const __m256d all = _mm256_castsi256_pd(_mm256_set1_epi64x(-1));
  const __m256 gathered = _mm256_mask_i32gather_ps(head, floats, index, _mm256_castpd_ps(all), 4);
  const __m256d wide =
      _mm256_mask_i32gather_pd(all, doubles, _mm256_castsi256_si128(index), all, 8);
  float out[8];
  double out_wide[4];
  _mm256_storeu_ps(
      out, _mm256_mask_i32gather_ps(gathered, more_floats, index, _mm256_castsi256_ps(mask), 4));
  _mm256_storeu_pd(out_wide, wide);
  return out[0] + out[7] + out_wide[3];
}

AVX2 uint64_t Bits(uint64_t a, uint64_t b) {
  unsigned long long high = 0;
  uint64_t sum = _andn_u64(a, b) + _bextr_u64(a, 5, 20) + _blsi_u64(a) + _blsr_u64(b);
  sum += _bzhi_u64(a, b & 63) + _pdep_u64(a, b) + _pext_u64(a, b) + _mulx_u64(a, b, &high);
  sum += _lzcnt_u64(a) + _tzcnt_u64(b) + __builtin_popcountll(a) + (a << (b & 63)) + high;
  return sum + __builtin_bswap64(a);
}

AVX2 uint32_t Half(float x) {
  const __m128i half = _mm_cvtps_ph(_mm_set1_ps(x), 0);
  return static_cast<uint32_t>(_mm_cvtsi128_si32(half)) +
         static_cast<uint32_t>(_mm256_cvtss_f32(_mm256_cvtph_ps(half)));
}

AVX2 void Mix(uint64_t* a, const uint64_t* b) {
  const auto at = reinterpret_cast<__m256i*>(a);
  const __m256i other = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
  _mm256_storeu_si256(at, Integers(_mm256_loadu_si256(at), other));
}

// SSE between AVX without vzeroupper: the upper halves survive.
AVX2 float AroundSse(float x) {
  __m256 a = _mm256_set1_ps(x);
  asm volatile(
      "addps %%xmm1, %x0\n\t"
      "mulps %x0, %%xmm1\n\t"
      "movaps %%xmm1, %%xmm2"
      : "+x"(a)
      :
      : "xmm1", "xmm2");
  float out[8];
  _mm256_storeu_ps(out, _mm256_add_ps(a, a));
  return out[0] + out[5];
}

AVX2 uint64_t Carryless(uint64_t a, uint64_t b) {
  const __m128i product = _mm_clmulepi64_si128(_mm_set_epi64x(0, static_cast<long long>(a)),
                                               _mm_set_epi64x(0, static_cast<long long>(b)), 0);
  return static_cast<uint64_t>(_mm_extract_epi64(product, 1));
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
    more_floats[i] = static_cast<float>(next() % 1000) / 11;
    doubles[i] = static_cast<double>(next() % 100000) / 3;
    integers[i] = static_cast<int32_t>(next());
    bytes[i] = static_cast<uint8_t>(next());
  }
  double sum = 0;
  for (int i = 0; i < 20; ++i) {
    sum += Dot();
    Scale(static_cast<double>(i) / 3);
    sum += static_cast<double>(Count(i * 1000)) + Masked(i % 9);
    uint64_t a[4] = {next(), next(), next(), next()};
    const uint64_t b[4] = {next(), next(), next(), 1};
    Mix(a, b);
    sum += static_cast<double>(Bits(a[0], b[0]) + Carryless(a[1], b[1]) + Half(floats[i]));
    sum += AroundSse(floats[i]);
  }
  std::printf("%g\n", sum);
  return 0;
}

// SSE2 to SSE4.2, AES and CRC32 as compilers emit them for vector types and intrinsics.

#include <immintrin.h>

#include <cstdint>
#include <cstdio>

#define SSE4 __attribute__((target("sse4.2,aes"), noinline))

namespace {

SSE4 __m128i Integers(__m128i a, __m128i b) {
  __m128i sum = _mm_add_epi8(a, b);
  sum = _mm_xor_si128(sum, _mm_mullo_epi16(a, b));
  sum = _mm_add_epi64(sum, _mm_mul_epu32(a, b));
  sum = _mm_sub_epi32(sum, _mm_mullo_epi32(a, b));
  sum = _mm_xor_si128(sum, _mm_madd_epi16(a, b));
  sum = _mm_add_epi16(sum, _mm_maddubs_epi16(a, b));
  sum = _mm_xor_si128(sum, _mm_sad_epu8(a, b));
  sum = _mm_xor_si128(sum, _mm_packs_epi32(a, b));
  sum = _mm_xor_si128(sum, _mm_packus_epi16(b, a));
  sum = _mm_xor_si128(sum, _mm_unpackhi_epi16(a, b));
  sum = _mm_add_epi8(sum, _mm_shuffle_epi8(a, b));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(b, 0x1b));
  sum = _mm_add_epi8(sum, _mm_alignr_epi8(a, b, 5));
  sum = _mm_max_epi8(sum, _mm_min_epu16(a, b));
  sum = _mm_xor_si128(sum, _mm_abs_epi16(a));
  sum = _mm_blendv_epi8(sum, a, b);
  sum = _mm_xor_si128(sum, _mm_hadd_epi32(a, b));
  sum = _mm_xor_si128(sum, _mm_mpsadbw_epu8(a, b, 3));
  sum = _mm_xor_si128(sum, _mm_sll_epi32(a, _mm_and_si128(b, _mm_set_epi64x(0, 31))));
  sum = _mm_xor_si128(sum, _mm_srai_epi16(b, 3));
  sum = _mm_xor_si128(sum, _mm_cmpgt_epi64(a, b));
  sum = _mm_xor_si128(sum, _mm_cvtepi8_epi32(a));
  return _mm_xor_si128(sum, _mm_aesenc_si128(a, b));
}

SSE4 uint64_t Scalars(__m128i a, __m128i b) {
  uint64_t sum = static_cast<uint64_t>(_mm_movemask_epi8(a)) + _mm_extract_epi8(b, 5) +
                 static_cast<uint64_t>(_mm_extract_epi64(a, 1)) + _mm_testz_si128(a, b) +
                 _mm_testc_si128(a, b);
  sum += _mm_cmpistri(a, b, 0x02) + _mm_cmpistrc(a, b, 0x1a) + _mm_cmpistri(a, b, 0x45);
  sum += _mm_crc32_u64(sum, 0x1234567890) + _mm_crc32_u8(7, 9);
  return sum;
}

SSE4 __m128d Floats(__m128d a, __m128d b) {
  __m128d sum = _mm_add_pd(_mm_mul_pd(a, b), _mm_sub_pd(a, b));
  sum = _mm_div_pd(sum, _mm_sqrt_pd(_mm_mul_pd(b, b)));
  sum = _mm_max_pd(sum, _mm_min_pd(a, b));
  sum = _mm_hadd_pd(sum, _mm_addsub_pd(a, b));
  sum = _mm_blendv_pd(sum, a, _mm_cmplt_pd(a, b));
  sum = _mm_add_pd(sum, _mm_floor_pd(a));
  sum = _mm_add_pd(sum, _mm_cvtps_pd(_mm_cvtpd_ps(b)));
  sum = _mm_add_pd(sum, _mm_cvtepi32_pd(_mm_cvttpd_epi32(a)));
  const __m128 single = _mm_cvtpd_ps(sum);
  const __m128 packed = _mm_mul_ps(_mm_shuffle_ps(single, single, 0x41), _mm_set1_ps(1.5f));
  return _mm_add_pd(sum, _mm_cvtps_pd(_mm_add_ps(packed, _mm_hadd_ps(packed, single))));
}

}  // namespace

int main() {
  if (!__builtin_cpu_supports("sse4.2")) return 0;
  __m128i a = _mm_set_epi64x(0x0123456789abcdef, 0x7fff800000ff7f80), b = _mm_set1_epi32(12345);
  __m128d x = _mm_set_pd(1.25, -3.5), y = _mm_set_pd(0.1, 7);
  uint64_t sum = 0;
  for (int i = 0; i < 500; ++i) {
    const __m128i c = Integers(a, b);
    sum += Scalars(b, c);
    a = b;
    b = _mm_add_epi64(c, _mm_set1_epi64x(i * 0x10001));
    const __m128d z = Floats(x, y);
    x = y;
    y = _mm_min_pd(_mm_max_pd(_mm_div_pd(z, _mm_set1_pd(3)), _mm_set1_pd(-100)),
                   _mm_set1_pd(0.125 * i + 1));
  }
  std::printf("%llx %g\n", static_cast<unsigned long long>(sum), _mm_cvtsd_f64(y));
  return 0;
}

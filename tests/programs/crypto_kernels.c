// Instructions for cryptography, whatever cpuid says: AES, SHA and carry-less multiplication.
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define KERNEL __attribute__((target("aes,sha,pclmul,sse4.1,ssse3"), noinline))

static void print(const char* what, __m128i value) {
  unsigned char bytes[16];
  memcpy(bytes, &value, 16);
  printf("%s: ", what);
  for (int i = 0; i < 16; i++) printf("%02x", bytes[i]);
  printf("\n");
}

KERNEL static __m128i expand(__m128i key, __m128i helper) {
  key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
  key = _mm_xor_si128(key, _mm_slli_si128(key, 8));
  return _mm_xor_si128(key, _mm_shuffle_epi32(helper, 0xff));
}

KERNEL static void aes(void) {
  __m128i key = _mm_setr_epi32(0x03020100, 0x07060504, 0x0b0a0908, 0x0f0e0d0c);
  __m128i block = _mm_setr_epi32(0x33221100, 0x77665544, 0xbbaa9988, (int)0xffeeddcc);
  __m128i keys[4] = {key};
  keys[1] = expand(keys[0], _mm_aeskeygenassist_si128(keys[0], 0x01));
  keys[2] = expand(keys[1], _mm_aeskeygenassist_si128(keys[1], 0x02));
  keys[3] = expand(keys[2], _mm_aeskeygenassist_si128(keys[2], 0x04));
  for (int i = 0; i < 1000; i++) block = _mm_aesenc_si128(block, keys[i % 4]);
  block = _mm_aesenclast_si128(block, keys[1]);
  print("encrypted", block);
  for (int i = 0; i < 500; i++) block = _mm_aesdec_si128(block, _mm_aesimc_si128(keys[i % 4]));
  print("decrypted", _mm_aesdeclast_si128(block, keys[2]));
}

KERNEL static void sha(void) {
  __m128i abef = _mm_set_epi32(0x6a09e667, (int)0xbb67ae85, 0x510e527f, (int)0x9b05688c);
  __m128i cdgh = _mm_set_epi32(0x3c6ef372, (int)0xa54ff53a, 0x1f83d9ab, 0x5be0cd19);
  __m128i words = _mm_set_epi32(1, 2, 3, 4), more = _mm_set_epi32(5, 6, 7, 8);
  for (int i = 0; i < 1000; i++) {
    const __m128i old = cdgh;
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, words);
    abef = _mm_xor_si128(abef, old);
    words = _mm_sha256msg2_epu32(_mm_sha256msg1_epu32(words, more), abef);
    more = _mm_sha1rnds4_epu32(more, _mm_sha1nexte_epu32(words, cdgh), 2);
    more = _mm_sha1msg2_epu32(_mm_sha1msg1_epu32(more, words), abef);
  }
  print("sha 256", abef);
  print("sha 1", more);
}

KERNEL static void multiplication(void) {
  __m128i x = _mm_set_epi64x(0x0123456789abcdef, 0x7766554433221101), sum = x;
  for (int i = 0; i < 1000; i++) {
    sum = _mm_xor_si128(_mm_clmulepi64_si128(sum, x, 0x01), _mm_clmulepi64_si128(x, sum, 0x11));
    sum = _mm_xor_si128(sum, x);
    x = _mm_add_epi64(_mm_alignr_epi8(x, sum, 5), _mm_set_epi64x(i, 99));
  }
  print("carry-less product", sum);
}

int main(void) {
  aes();
  sha();
  multiplication();
  return 0;
}

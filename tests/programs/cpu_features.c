// What a program can find out about its processor, and the instructions that it needs for it.
#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#define SHOW(name) printf("%s %d\n", name, __builtin_cpu_supports(name) != 0)

static void features(void) {
  SHOW("sse4.2");
  SHOW("popcnt");
  SHOW("avx");
  SHOW("avx2");
  SHOW("fma");
  SHOW("bmi");
  SHOW("bmi2");
  SHOW("aes");
  SHOW("pclmul");
  SHOW("avx512f");
  SHOW("avx512vl");
  SHOW("avx512bw");
  SHOW("avx512dq");
  SHOW("avx512vbmi2");
  SHOW("vpclmulqdq");
  SHOW("x86-64-v2");
  SHOW("x86-64-v3");
  SHOW("x86-64-v4");
  printf("hwcap %lx %lx, platform %s, signal stack %lu\n", getauxval(AT_HWCAP),
         getauxval(AT_HWCAP2), (const char*)getauxval(AT_PLATFORM), getauxval(AT_MINSIGSTKSZ));
}

__attribute__((target("xsave"))) static void states(void) {
  unsigned a, b, c, d;
  printf("xcr0 %llx\n", (unsigned long long)_xgetbv(0));
  for (unsigned i = 0; i < 10; i++) {
    if (i == 1) continue;  // its size is of the states in use at present
    __cpuid_count(0xd, i, a, b, c, d);
    printf("xsave %u: %x %x %x %x\n", i, a, b, c, d);
  }
}

// A vector register through memory, in both formats of the area.
__attribute__((target("avx,xsave,xsavec"), noinline)) static void save_and_restore(int compact) {
  static uint8_t area[16384] __attribute__((aligned(64)));
  uint64_t out[4];
  memset(area, 0, sizeof(area));
  asm volatile("vpcmpeqd %%xmm5, %%xmm5, %%xmm5\n\tvinsertf128 $1, %%xmm5, %%ymm5, %%ymm5" ::
                   : "xmm5");
  if (compact) {
    asm volatile("xsavec64 %0" : "+m"(area) : "a"(7), "d"(0));
  } else {
    asm volatile("xsave64 %0" : "+m"(area) : "a"(7), "d"(0));
  }
  asm volatile("vzeroall" ::: "xmm5");
  asm volatile("xrstor64 %0" ::"m"(area), "a"(7), "d"(0) : "memory");
  asm volatile("vmovups %%ymm5, %0" : "=m"(out)::"xmm5");
  asm volatile("vzeroupper");
  uint64_t bits;
  memcpy(&bits, area + 512, sizeof(bits));
  printf("restored %llx %llx, saved %llx\n", (unsigned long long)out[0], (unsigned long long)out[3],
         (unsigned long long)(bits & 4));
}

__attribute__((target("fsgsbase"))) static void bases(void) {
  uint64_t by_segment;
  asm("mov %%fs:0, %0" : "=r"(by_segment));
  printf("fsbase %d\n", _readfsbase_u64() == by_segment);
}

int main(void) {
  unsigned a, b, c, d;
  features();
  __cpuid(1, a, b, c, d);
  if ((c & bit_OSXSAVE) != 0) states();
  if (__builtin_cpu_supports("avx")) {
    save_and_restore(0);
    __cpuid_count(0xd, 1, a, b, c, d);
    if ((a & 2) != 0) save_and_restore(1);
  }
  __cpuid_count(7, 0, a, b, c, d);
  if ((b & 1) != 0 && (getauxval(AT_HWCAP2) & 2) != 0) bases();
  return 0;
}

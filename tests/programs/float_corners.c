// What only the processor itself computes like the processor: NaNs with payloads, exception flags
// down to the denormal operand, which way the x87 rounded, its stack faults; and integer
// instructions that in rare cases keep a register's upper half. Prints all of it, natively and
// recorded the same.
#include <fenv.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const uint64_t kDoubles[] = {
    0x7ff8000000000001, 0xfff8000000000002, 0x7ff0000000000003, 0xfff4000000000004,  // NaNs
    0x7ff0000000000000, 0xfff0000000000000, 0x0000000000000000, 0x8000000000000000,
    0x000fffffffffffff, 0x0010000000000000, 0x3fb999999999999a, 0x40e0000000000000,  // 0.1, 32768
};
static const uint32_t kFloats[] = {
    0x7fc00001, 0xffc00002, 0x7f800003, 0xffa00004, 0x7f800000, 0xff800000,
    0x00000000, 0x80000000, 0x007fffff, 0x00800000, 0x3dcccccd, 0x47000000,
};
enum { kValues = sizeof(kDoubles) / sizeof(kDoubles[0]) };

static uint64_t hash = 1469598103934665603u;
static void note(const void* what, unsigned bytes) {
  for (unsigned i = 0; i < bytes; i++) hash = (hash ^ ((const uint8_t*)what)[i]) * 1099511628211u;
}
static void report(const char* name) {
  printf("%-10s %016llx\n", name, (unsigned long long)hash);
  hash = 1469598103934665603u;
}

#define SSE(operation, type, values)                                                          \
  do {                                                                                        \
    for (int i = 0; i < kValues; i++) {                                                       \
      for (int j = 0; j < kValues; j++) {                                                     \
        uint32_t mxcsr = 0x1f80;                                                              \
        type a[4] = {values[i], values[j], values[i], values[j]};                             \
        type b[4] = {values[j], values[i], values[i], values[j]};                             \
        __asm__ volatile("ldmxcsr %0\n\tmovups %1, %%xmm0\n\tmovups %2, %%xmm1\n\t" operation \
                         " %%xmm1, %%xmm0\n\tmovups %%xmm0, %1\n\tstmxcsr %0"                 \
                         : "+m"(mxcsr), "+m"(a), "+m"(b)::"xmm0", "xmm1", "cc");              \
        note(a, 16);                                                                          \
        note(&mxcsr, 4);                                                                      \
      }                                                                                       \
    }                                                                                         \
    report(operation);                                                                        \
  } while (0)

static void sse(void) {
#define BOTH(name)                    \
  SSE(name "ps", uint32_t, kFloats);  \
  SSE(name "ss", uint32_t, kFloats);  \
  SSE(name "pd", uint64_t, kDoubles); \
  SSE(name "sd", uint64_t, kDoubles);
  BOTH("add")
  BOTH("sub")
  BOTH("mul")
  BOTH("div")
  BOTH("min")
  BOTH("max") BOTH("sqrt") BOTH("cmplt") BOTH("cmpunord") SSE("cvtps2pd", uint32_t, kFloats);
  SSE("cvtss2sd", uint32_t, kFloats);
  SSE("cvtpd2ps", uint64_t, kDoubles);
  SSE("cvtsd2ss", uint64_t, kDoubles);
  SSE("cvttps2dq", uint32_t, kFloats);
  SSE("cvtpd2dq", uint64_t, kDoubles);
  SSE("ucomisd", uint64_t, kDoubles);
  SSE("roundsd $9,", uint64_t, kDoubles);  // no "inexact"
  SSE("roundps $4,", uint32_t, kFloats);
}

// Of one operand in memory, on a stack that holds another; result, status word and tags.
#define X87(name, before, operation, type, values)                                      \
  do {                                                                                  \
    for (int i = 0; i < kValues; i++) {                                                 \
      for (int j = 0; j < kValues; j++) {                                               \
        type a = values[i], b = values[j];                                              \
        uint8_t image[512] __attribute__((aligned(16)));                                \
        uint64_t flags;                                                                 \
        __asm__ volatile("fninit\n\tcmpb $0x81, %2\n\t" before "\n\t" operation         \
                         "\n\tpushfq\n\tpopq %1\n\tfxsave %0\n\tfninit"                 \
                         : "=m"(image), "=r"(flags), "+m"(a), "+m"(b)::"cc", "memory"); \
        flags &= 0x8d5;                                                                 \
        note(&flags, 8);                                                                \
        note(image + 2, 3);                                                             \
        note(image + 32, 10);                                                           \
        note(image + 48, 10);                                                           \
        note(&a, sizeof(a));                                                            \
      }                                                                                 \
    }                                                                                   \
    report(name);                                                                       \
  } while (0)

static void x87(void) {
  X87("fadds", "flds %2", "fadds %3", uint32_t, kFloats);
  X87("faddl", "fldl %2", "faddl %3", uint64_t, kDoubles);
  X87("faddp", "fldl %2\n\tfldl %3", "faddp", uint64_t, kDoubles);
  X87("fdivl", "fldl %2", "fdivl %3", uint64_t, kDoubles);
  X87("fmul", "fldl %2\n\tfldl %3", "fmul %%st(1), %%st", uint64_t, kDoubles);
  X87("fsubrs", "flds %2", "fsubrs %3", uint32_t, kFloats);
  X87("fsqrt", "fldl %2\n\tfldl %3", "fsqrt", uint64_t, kDoubles);
  X87("frndint", "fldl %2\n\tfldl %3", "frndint", uint64_t, kDoubles);
  X87("fistps", "fldl %3", "fistps %2", uint64_t, kDoubles);
  X87("fistpl", "fldl %3", "fistpl %2", uint64_t, kDoubles);
  X87("fstps", "fldl %3", "fstps %2", uint64_t, kDoubles);
  X87("fcomi", "fldl %2\n\tfldl %3", "fcomi %%st(1), %%st", uint64_t, kDoubles);
  X87("fucomip", "fldl %2\n\tfldl %3", "fucomip %%st(1), %%st", uint64_t, kDoubles);
  X87("fcoml", "fldl %2", "fcoml %3", uint64_t, kDoubles);
  X87("underflow", "fldl %2", "faddp", uint64_t, kDoubles);
  X87("overflow", "fld1;fld1;fld1;fld1;fld1;fld1;fld1;fldl %2", "fldl %3;fldl %3", uint64_t,
      kDoubles);
  X87("fxch", "fldl %2", "fxch %%st(3)", uint64_t, kDoubles);
}

static void integers(void) {
  static const uint64_t kOperands[] = {0, 1, 0x100000000, 0x500000000, 0x123456789, ~0ull};
  for (int i = 0; i < 6; i++) {
    for (int j = 0; j < 6; j++) {
      uint64_t a = kOperands[i], b = kOperands[j], c = kOperands[i];
      uint32_t memory = (uint32_t)kOperands[j];
      __asm__ volatile("bsf %k2, %k0\n\tbsr %k2, %k1" : "+r"(a), "+r"(c) : "r"(b) : "cc");
      note(&a, 8);
      note(&c, 8);
      a = kOperands[i];
      __asm__ volatile("lock cmpxchgl %k2, %1" : "+a"(a), "+m"(memory) : "r"(7) : "cc");
      note(&a, 8);
      note(&memory, 4);
    }
  }
  report("integers");
}

// With what the C library offers.
static void library(void) {
  volatile double tiny = 5e-324, one = 1;
  volatile long double sum;
  feclearexcept(FE_ALL_EXCEPT);
  __asm__ volatile("ldmxcsr %0" ::"m"((uint32_t){0x1f80}));
  sum = (long double)tiny + one;
  tiny = tiny * one;
  printf("flags %x %Lg\n", fetestexcept(0x3f), sum);
}

int main(void) {
  sse();
  x87();
  integers();
  library();
  return 0;
}

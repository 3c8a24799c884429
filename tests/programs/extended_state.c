// The registers beyond xmm15, and the upper parts of those before it, through all that saves,
// resets and copies them: XSAVE, signals, threads and processes. To be run only where the processor
// has AVX-512 and XSAVEC.
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define KERNEL __attribute__((target("avx512f,avx512bw,avx512dq,xsave,xsavec"), noinline))

enum { kAreaBytes = 12288, kExtended = 0xe4, kZmm = 64 };

static uint64_t hash(const void* bytes, size_t size) {
  uint64_t result = 14695981039346656037u;
  for (size_t i = 0; i < size; i++) {
    result = (result ^ ((const unsigned char*)bytes)[i]) * 1099511628211u;
  }
  return result;
}

// All of zmm0..zmm31 and k1..k7 from `seed`.
#define LOAD4(a, b, c, d)                     \
  "vpbroadcastq %0, %%zmm" #a                 \
  "\n"                                        \
  "vpaddq %%zmm" #a ", %%zmm" #a ", %%zmm" #b \
  "\n"                                        \
  "vpaddq %%zmm" #b ", %%zmm" #a ", %%zmm" #c \
  "\n"                                        \
  "vpaddq %%zmm" #c ", %%zmm" #b ", %%zmm" #d \
  "\n"                                        \
  "imul $31, %0\n"
KERNEL static void fill(uint64_t seed) {
  __asm__ volatile(LOAD4(0, 1, 2, 3) LOAD4(4, 5, 6, 7) LOAD4(8, 9, 10, 11) LOAD4(12, 13, 14, 15)
                       LOAD4(16, 17, 18, 19) LOAD4(20, 21, 22, 23) LOAD4(24, 25, 26, 27)
                           LOAD4(28, 29, 30, 31) "kxorq %%k0, %%k0, %%k0\n"
                                                 "kmovq %0, %%k1\n"
                                                 "kaddq %%k1, %%k1, %%k2\n"
                                                 "kaddq %%k2, %%k1, %%k3\n"
                                                 "kaddq %%k3, %%k2, %%k4\n"
                                                 "kaddq %%k4, %%k3, %%k5\n"
                                                 "kaddq %%k5, %%k4, %%k6\n"
                                                 "kaddq %%k6, %%k5, %%k7\n"
                   : "+r"(seed)
                   :
                   : "memory", "cc");
}

#define STORE(i) "vmovdqu64 %%zmm" #i ", " #i "*64(%0)\n"
KERNEL static uint64_t state(void) {
  uint8_t all[32 * kZmm + 64] = {0};
  __asm__ volatile(STORE(0) STORE(1) STORE(2) STORE(3) STORE(4) STORE(5) STORE(6) STORE(7)
                       STORE(8) STORE(9) STORE(10) STORE(11) STORE(12) STORE(13) STORE(14)
                           STORE(15) STORE(16) STORE(17) STORE(18) STORE(19) STORE(20) STORE(21)
                               STORE(22) STORE(23) STORE(24) STORE(25) STORE(26) STORE(27)
                                   STORE(28) STORE(29) STORE(30) STORE(31) "kmovq %%k1, 2048(%0)\n"
                                                                           "kmovq %%k7, 2056(%0)\n"
                   :
                   : "r"(all)
                   : "memory");
  return hash(all, sizeof(all));
}

KERNEL static void saved_and_restored(void) {
  static uint8_t area[kAreaBytes] __attribute__((aligned(64)));
  fill(5);
  __asm__ volatile("xsave64 %0" : "+m"(area) : "a"(kExtended), "d"(0));
  printf("xsave %016llx\n", (unsigned long long)hash(area + 512, kAreaBytes - 512));
  fill(6);
  __asm__ volatile("xrstor64 %0" : : "m"(area), "a"(kExtended), "d"(0));
  printf("restored %016llx\n", (unsigned long long)state());
  memset(area, 0, sizeof(area));
  fill(7);
  __asm__ volatile("xsavec64 %0" : "+m"(area) : "a"(kExtended), "d"(0));
  printf("xsavec %016llx\n", (unsigned long long)hash(area + 512, kAreaBytes - 512));
  // A component that is not there becomes zero.
  memset(area + 512, 0, 64);
  fill(7);
  __asm__ volatile("stmxcsr %0" : "=m"(area[24]));
  __asm__ volatile("xrstor64 %0" : : "m"(area), "a"(kExtended), "d"(0));
  printf("initial %016llx\n", (unsigned long long)state());
  _mm256_zeroupper();
}

// With an exception pending, processors of all makers store where it came from.
KERNEL static void pointers_are_the_programs(void) {
  static uint8_t area[kAreaBytes] __attribute__((aligned(64)));
  uint64_t instruction = 0, saved;
  const uint16_t unmasked = 0x37b;
  __asm__ volatile(
      "fninit\n"
      "fldcw %2\n"
      "fldz\n"
      "fld1\n"
      "1: fdivp\n"
      "xsave64 %1\n"
      "fnclex\n"
      "fninit\n"
      "lea 1b(%%rip), %0"
      : "=r"(instruction), "+m"(area)
      : "m"(unmasked), "a"(3), "d"(0));
  memcpy(&saved, area + 8, sizeof(saved));
  printf("x87 pointer %s\n", saved == instruction ? "right" : "wrong");
}

static volatile int signals;
static volatile uint64_t in_handlers;

KERNEL static void handler(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)info;
  in_handlers |= state() ^ 0x5ca1ab1e;
  // What was interrupted, as the kernel lays it out.
  const uint8_t* frame = (const uint8_t*)((ucontext_t*)context)->uc_mcontext.fpregs;
  in_handlers += hash(frame + 160, 256) != 0;
  fill((uint64_t)++signals);
}

// The loop's result does not depend on where it is interrupted.
KERNEL static uint64_t work(int rounds) {
  __m512i a = _mm512_set_epi64(1, 2, 3, 4, 5, 6, 7, 8);
  __m512i b = _mm512_set1_epi64(0x5bd1e9955bd1e995);
  for (int i = 0; i < rounds; i++) {
    a = _mm512_rol_epi64(_mm512_add_epi64(a, b), 7);
    const __mmask64 greater = _mm512_cmpgt_epi8_mask(a, b);
    b = _mm512_mask_xor_epi32(b, (__mmask16)greater, b, a);
  }
  return (uint64_t)_mm512_reduce_add_epi64(_mm512_xor_si512(a, b));
}

static void interrupted(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  uint64_t result = 0;
  while (signals < 20) result = work(300000);
  setitimer(ITIMER_REAL, &never, NULL);
  printf("interrupted %016llx\n", (unsigned long long)result);
  fill(8);
  const uint64_t before = state();
  fill(8);
  raise(SIGALRM);
  printf("after a handler %s\n", state() == before ? "the same" : "another");
}

static void* thread(void* rounds) { return (void*)work((int)(intptr_t)rounds); }

static void inherited(void) {
  pthread_t threads[3];
  for (intptr_t i = 0; i < 3; i++) {
    fill((uint64_t)i);
    pthread_create(&threads[i], NULL, thread, (void*)(50000 + i));
  }
  for (int i = 0; i < 3; i++) {
    void* result;
    pthread_join(threads[i], &result);
    printf("thread %016llx\n", (unsigned long long)(uintptr_t)result);
  }
  fflush(stdout);
  fill(9);
  const pid_t child = fork();
  if (child == 0) {
    printf("child %016llx\n", (unsigned long long)work(1000));
    fflush(stdout);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

int main(int argc, char** argv) {
  (void)argv;
  saved_and_restored();
  if (argc > 1) pointers_are_the_programs();
  interrupted();
  inherited();
  return 0;
}

// Instructions that compilers do not write, and that fault; says what they have done.

#define _GNU_SOURCE
#include <immintrin.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>

static sigjmp_buf after;
static volatile int64_t seen[8];

static unsigned char* page;

// Leaves for `after`, or makes the page writable and tries again.
static void OnFault(int signal, siginfo_t* info, void* context) {
  const mcontext_t* machine = &((const ucontext_t*)context)->uc_mcontext;
  const unsigned char* address = info->si_addr;
  seen[0] = signal;
  seen[1] = info->si_code;
  seen[2] = machine->gregs[REG_RCX];
  seen[3] = address >= page && address < page + 8192 ? address - page : 0;
  if (signal == SIGSEGV && seen[3] >= 4096) {
    mprotect(page + 4096, 4096, PROT_READ | PROT_WRITE);
    return;
  }
  if (signal != SIGTRAP) siglongjmp(after, 1);
}

static void CatchAll(void) {
  struct sigaction action = {.sa_sigaction = OnFault, .sa_flags = SA_SIGINFO | SA_NODEFER};
  const int signals[] = {SIGSEGV, SIGTRAP, SIGILL, SIGBUS, SIGFPE};
  for (int i = 0; i < 5; ++i) sigaction(signals[i], &action, NULL);
}

static void Say(const char* name) {
  printf("%s: signal %d code %d\n", name, (int)seen[0], (int)seen[1]);
  seen[0] = seen[1] = 0;
}

static void Faults(void) {
  if (sigsetjmp(after, 1) == 0) __asm__ volatile("ud2");
  Say("ud2");
  if (sigsetjmp(after, 1) == 0) __asm__ volatile("hlt");
  Say("hlt");
  __asm__ volatile("int3");
  Say("int3");
  if (sigsetjmp(after, 1) == 0) ((void (*)(void))0)();
  Say("call of 0");
  if (sigsetjmp(after, 1) == 0) ((void (*)(void))0x8000000000000000)();
  Say("call of an address that is not canonical");
  if (sigsetjmp(after, 1) == 0) ((void (*)(void))page)();
  Say("call of data");
}

// The second page cannot be written: the handler changes that, and it goes on.
static void StringThatFaults(void) {
  unsigned char* to = page + 4000;
  uint64_t count = 200;
  mprotect(page + 4096, 4096, PROT_READ);
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(7) : "memory");
  printf("stos: %d at %d, %d %d %d\n", (int)seen[2], (int)seen[3], page[4000], page[4199],
         page[4200]);
  mprotect(page + 4096, 4096, PROT_READ);
  const unsigned char* from = page + 3900;
  to = page + 4050;
  count = 120;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count)::"memory");
  printf("movs: %d at %d, %d %d\n", (int)seen[2], (int)seen[3], page[4169], page[4050]);
}

static void Bases(void) {
  uint64_t fs, gs;
  __asm__ volatile("rdfsbase %0; wrfsbase %0" : "=&r"(fs));
  __asm__ volatile("wrgsbase %1; rdgsbase %0" : "=r"(gs) : "r"(&fs));
  uint64_t through;
  __asm__ volatile("movq %%gs:0, %0" : "=r"(through));
  uint32_t low;
  register uint64_t other __asm__("r10");
  __asm__ volatile("rdgsbase %0" : "=r"(low));
  __asm__ volatile("rdgsbase %0" : "=r"(other));
  printf("bases: %d %d %d %d\n", gs == (uint64_t)&fs, through == fs, low == (uint32_t)gs,
         other == gs);
  __asm__ volatile("wrgsbase %0" ::"r"(0ul));
}

__attribute__((target("avx2"))) static void Masks(void) {
  const int table[8] = {10, 11, 12, 13, 14, 15, 16, 17};
  const __m128i index = _mm_set_epi32(7, 0, 3, 5), mask = _mm_set_epi32(-1, 0, -1, -1);
  const __m128i gathered = _mm_i32gather_epi32(table, index, 4);
  int out[4], stored[4] = {1, 2, 3, 4};
  memcpy(out, &gathered, 16);
  _mm_maskstore_epi32(stored, mask, gathered);
  printf("gather: %d %d %d %d, masked: %d %d %d %d\n", out[0], out[1], out[2], out[3], stored[0],
         stored[1], stored[2], stored[3]);
}

__attribute__((target("xsave"))) static void States(void) {
  static char area[4096] __attribute__((aligned(64)));
  double value = 1.5;
  __asm__ volatile("movsd %0, %%xmm5" ::"m"(value) : "xmm5");
  _xsave64(area, 3);
  __asm__ volatile("pxor %%xmm5, %%xmm5" ::: "xmm5");
  _xrstor64(area, 3);
  __asm__ volatile("movsd %%xmm5, %0" : "=m"(value)::"xmm5");
  printf("xrstor: %g\n", value);
}

static void Others(void) {
  uint64_t random = 0;
  unsigned char carry;
  __asm__ volatile("rdrand %0; setc %1" : "=r"(random), "=q"(carry)::"cc");
  uint64_t frame, old;
  __asm__ volatile(
      "movq %%rsp, %1; movq %%rbp, %0; enter $32, $1; leave; xorq %%rbp, %0; xorq %%rsp, %1"
      : "=&r"(frame), "=&r"(old)::"memory");
  uint64_t flags;
  __asm__ volatile("pushfq; popq %0" : "=r"(flags));
  printf("rdrand %d, enter %d, flags %d\n", carry, frame == 0 && old == 0, (flags & 0x100) != 0);
}

// What is undefined, or sticks, and can be seen.
static void Shown(void) {
  uint64_t flags[4];
  __asm__ volatile("cmpq %1, %1; imulq %1, %1; pushfq; popq %0"
                   : "=r"(flags[0])
                   : "r"(77ul << 40)
                   : "cc");
  __asm__ volatile("cmpq %1, %1; shlq $5, %1; pushfq; popq %0"
                   : "=r"(flags[1])
                   : "r"(~0ul << 50)
                   : "cc");
  unsigned char sign, parity;
  __asm__ volatile("cmpq $5, %2; imulq %2, %2; sets %0; setp %1"
                   : "=q"(sign), "=q"(parity)
                   : "r"(-3l)
                   : "cc");
  printf("after imul: %d %d\n", sign, parity);
  __asm__ volatile("xorl %%eax, %%eax; orl $5, %%eax; lahf" : "=a"(flags[2])::"cc");
  __asm__ volatile("pushfq; xorq $0x40000, (%%rsp); popfq; pushfq; popq %0" : "=r"(flags[3])::"cc");
  __asm__ volatile("pushfq; andq $~0x40000, (%%rsp); popfq" ::: "cc");
  volatile double three = 3, third = 1 / three;
  volatile long double wide = 2;
  wide = wide / 3;
  uint32_t mxcsr;
  uint16_t status;
  struct {
    uint16_t words[14];
  } environment;
  __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
  __asm__ volatile("fnstsw %0" : "=a"(status));
  __asm__ volatile("fnstenv %0; fldenv %0" : "=m"(environment));
  printf("shown: %x %x %x %x, %x %x %x %g\n", (unsigned)flags[0], (unsigned)flags[1],
         (unsigned)flags[2], (unsigned)flags[3] & 0x40000, mxcsr, status, environment.words[2],
         third);
}

int main(void) {
  page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 4096; ++i) page[i] = i;
  CatchAll();
  for (int i = 0; i < 3; ++i) {
    Faults();
    StringThatFaults();
    Others();
    Shown();
    States();
    if (sigsetjmp(after, 1) == 0) Masks();  // whatever cpuid says
    Say("masks");
    if ((getauxval(AT_HWCAP2) & 2) != 0) Bases();
  }
  fflush(stdout);
  signal(SIGILL, SIG_DFL);
  __asm__ volatile("ud2");
  return 0;
}

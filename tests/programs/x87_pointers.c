// Looks at what the x87 unit tells of its last instruction. The kernel may lose that when it
// switches tasks: zeros are right as well, if they come seldom.
//
// x87_pointers [exceptions]   only where an exception is pending: then the kernel keeps it
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

enum { kTries = 50 };

struct Environment {
  uint32_t control, status, tags, code;
  uint16_t selector, opcode;
  uint32_t data, data_selector;
};

static double zero, number = 1.5, numbers[8];
static uint64_t code_at;
static sigjmp_buf after;
static int good, bad;

static void note(int is_right, int is_lost) {
  good += is_right;
  bad += !is_right && !is_lost;
}

static void check(const struct Environment* environment, const void* data, unsigned opcode) {
  // Some processors keep the opcode only of what raises an exception.
  const int same = environment->code == (uint32_t)code_at &&
                   environment->data == (uint32_t)(uintptr_t)data &&
                   (environment->opcode == opcode || environment->opcode == 0);
  note(same, environment->code == 0);
}

static void on_exception(int signal, siginfo_t* info, void* context) {
  const struct _libc_fpstate* const state = ((ucontext_t*)context)->uc_mcontext.fpregs;
  (void)signal, (void)info;
  note(state->rip == code_at && state->rdp == (uint64_t)&zero && state->fop == 0x435,
       state->rip == 0);
  siglongjmp(after, 1);
}

static void show(const char* what) {
  printf("%s: %s, %d wrong\n", what, good > kTries / 2 ? "mostly right" : "mostly lost", bad);
  good = bad = 0;
}

// FXSAVE's and XSAVE's, as it begins.
static struct {
  uint16_t control, status;
  uint8_t tags, unused;
  uint16_t opcode;
  uint64_t code, data;
  uint8_t rest[4096 - 24];
} area __attribute__((aligned(64)));

static const uint16_t control = 0x37b;  // a division by zero raises SIGFPE

#define DIVIDE_AND(save, image)                                                              \
  __asm__ volatile(                                                                          \
      "lea 1f(%%rip), %%rcx; mov %%rcx, %0; fninit; fldcw %4; fld1; 1: fdivl %3; nop; " save \
      "; fninit"                                                                             \
      : "=m"(code_at), "=m"(image)                                                           \
      : "a"(3), "m"(zero), "m"(control), "d"(0)                                              \
      : "rcx", "memory")

static void check_area(void) {
  note(area.code == code_at && area.data == (uint64_t)&zero && area.opcode == 0x435, 0);
}

// How long the program runs depends on each byte: a recording that has others somewhere differs.
static void run_for(const void* bytes, int count) {
  for (int i = 0; i < count; i++) {
    for (volatile int j = ((const uint8_t*)bytes)[i]; j > 0; j--) {
    }
  }
}

static void run_for_all(void) {
  static struct Environment environment, all[4];
  static uint16_t narrow[7];
  for (int i = 0; i < kTries; i++) {
    DIVIDE_AND("fxsave %1", area);
    run_for(&area, 24);
    DIVIDE_AND("xsave %1", area);
    run_for(&area, 24);
    DIVIDE_AND("fnstenv %1", environment);
    run_for(&environment, sizeof(environment));
    DIVIDE_AND("data16 fnstenv %1", narrow);
    run_for(narrow, sizeof(narrow));
    DIVIDE_AND("fnsave %1", all);
    run_for(all, sizeof(all[0]));
    __asm__ volatile("fninit; fldl %1; data16 fnstenv %0" : "=m"(narrow) : "m"(number));
    run_for(narrow, sizeof(narrow));
    __asm__ volatile("fninit; fldl %1; fnsave %0" : "=m"(all) : "m"(number));
    run_for(all, sizeof(all[0]));
  }
}

static void show_pending(void) {
  struct Environment environment;
  for (int i = 0; i < kTries; i++) {
    DIVIDE_AND("fxsave64 %1", area);
    check_area();
  }
  show("fxsave before the exception");
  for (int i = 0; i < kTries; i++) {
    memset(&area, 0, sizeof(area));
    DIVIDE_AND("xsave64 %1", area);
    check_area();
  }
  show("xsave before the exception");
  for (int i = 0; i < kTries; i++) {
    DIVIDE_AND("fnstenv %1", environment);
    check(&environment, &zero, 0x435);
  }
  show("fnstenv before the exception");
}

static void show_kept(void) {
  struct Environment environment;
  for (int i = 0; i < kTries; i++) {
    __asm__ volatile("fninit; 1: fldl %2; fnstenv %0; lea 1b(%%rip), %%rax; mov %%rax, %1"
                     : "=m"(environment), "=m"(code_at)
                     : "m"(number)
                     : "rax");
    check(&environment, &number, 0x505);
  }
  show("a load");
  for (int i = 0; i < kTries; i++) {
    double* const base = numbers;
    __asm__ volatile(
        "mov %2, %%r10; mov $2, %%r11d; fninit; fld1; 1: fstpl 8(%%r10, %%r11, 8); fnstenv %0\n\t"
        "lea 1b(%%rip), %%rax; mov %%rax, %1"
        : "=m"(environment), "=m"(code_at)
        : "r"(base)
        : "rax", "r10", "r11", "memory");
    check(&environment, &numbers[3], 0x55c);
  }
  show("a store");
}

int main(int argc, char** argv) {
  (void)argv;
  if (argc == 1) show_kept();
  show_pending();
  run_for_all();
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = on_exception;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGFPE, &action, NULL);
  for (volatile int i = 0; i < kTries; i++) {
    if (sigsetjmp(after, 1) != 0) continue;
    __asm__ volatile(
        "lea 1f(%%rip), %%rax; mov %%rax, %0; fninit; fldcw %2; fld1; 1: fdivl %1; fwait"
        : "=m"(code_at)
        : "m"(zero), "m"(control)
        : "rax");
  }
  show("a division by zero");
  return 0;
}

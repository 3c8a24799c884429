// Instructions that compilers do not write, and addresses that no program has: signals with their
// codes, flags, counts and memory as the processor gives them. Prints all of it.

#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static sigjmp_buf back;
static const uint64_t kNotCanonical = 0x4141414141414141;

static void OnFault(int signal, siginfo_t* info, void* context) {
  printf("signal %d, code %d, address %d\n", signal, info->si_code, info->si_addr != NULL);
  siglongjmp(back, 1);
}

#define FAULTS(name, instructions)                                     \
  do {                                                                 \
    printf(name ": ");                                                 \
    if (sigsetjmp(back, 1) == 0) {                                     \
      __asm__ volatile(instructions ::"r"(kNotCanonical)               \
                       : "rax", "rcx", "rdx", "rsi", "rdi", "memory"); \
      printf("none\n");                                                \
    }                                                                  \
  } while (0)

static void Addresses(void) {
  FAULTS("load", "mov 8(%0), %%rax");
  FAULTS("load by rbp", "mov %0, %%rbp\n mov 8(%%rbp), %%rax");
  FAULTS("store by rbp", "mov %0, %%rbp\n mov %%rax, 8(%%rbp)");
  FAULTS("add by rbp", "mov %0, %%rbp\n addl $1, (%%rbp)");
  FAULTS("locked add by rbp", "mov %0, %%rbp\n lock addl $1, (%%rbp)");
  FAULTS("push", "mov %0, %%rsp\n push %%rax");
  FAULTS("pop", "mov %0, %%rsp\n pop %%rax");
  FAULTS("leave", "mov %0, %%rbp\n leave");
  FAULTS("ret", "mov %0, %%rsp\n ret");
  FAULTS("ret there", "push %0\n ret");
  FAULTS("call", "mov %0, %%rsp\n call 1f\n 1:");
  FAULTS("call through rax", "lea 1f(%%rip), %%rax\n mov %0, %%rsp\n call *%%rax\n 1:");
  FAULTS("jump", "jmp *%0");
  FAULTS("string", "mov %0, %%rsi\n mov %%rsp, %%rdi\n mov $4, %%ecx\n rep movsb");
  FAULTS("unaligned", "movaps 1(%%rsp), %%xmm0");
  FAULTS("last of the lower half", "mov $0x7ffffffff000, %%rax\n mov (%%rax), %%rax");
}

static void Privileged(void) {
  FAULTS("hlt", "hlt");
  FAULTS("in", "in $0x60, %%al");
  FAULTS("lock of a register", ".byte 0xf0, 0x89, 0xc0");
  FAULTS("16 bytes",
         ".byte 0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66\n"
         ".byte 0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x90");
  FAULTS("division by 0", "xor %%edx, %%edx\n xor %%ecx, %%ecx\n div %%ecx");
}

// rip after the immediate.
static void Shifts(void) {
  static uint32_t words[4] = {1, 2, 3, 4};
  __asm__ volatile("shldl $12, %1, %0" : "+m"(words[1]) : "r"(0x12345678));
  printf("shld %x %x %x %x\n", words[0], words[1], words[2], words[3]);
}

static void Flow(void) {
  long a = 0, b = 0;
  __asm__ volatile("xor %%eax, %%eax\n jmp 1f + 1\n 1: .byte 0xb8, 0xb0, 5, 0x90, 0x90" : "=a"(a));
  printf("into an instruction %ld\n", a);
  __asm__ volatile("mov $5, %%ecx\n xor %%eax, %%eax\n 1: inc %%eax\n addr32 loop 1b"
                   : "=a"(a)::"rcx");
  printf("loop %ld\n", a);
  __asm__ volatile(
      "mov %%rsp, %1\n lea 1f(%%rip), %0\n push $1\n push $2\n push %0\n ret $16\n"
      "1: sub %%rsp, %1"
      : "=&r"(a), "=&r"(b)::"memory");
  printf("ret %ld\n", b);
  // Processors disagree about what these do if they jump.
  __asm__ volatile("mov $1, %%ecx\n clc\n .byte 0x66, 0x72, 0\n .byte 0xf2, 0xe2, 0" ::: "rcx");
  // The kernel reads the lower half of the number: write, of nothing.
  __asm__ volatile("mov $0x3000000001, %%rax\n mov $1, %%edi\n xor %%edx, %%edx\n syscall"
                   : "=a"(a)::"rcx", "rdx", "rdi", "r11", "memory");
  printf("call %ld\n", a);
}

// FXSAVE leaves the end of its operand alone, whatever others have stored there.
static void Saved(void) {
  static uint8_t image[512] __attribute__((aligned(16)));
  for (int i = 0; i < 3; ++i) {
    memset(image, i, sizeof(image));
    __asm__ volatile("fxsave %0" : "+m"(image));
    printf("fxsave %d %d %d\n", image[416], image[464], image[511]);
  }
}

int main(void) {
  static char stack[1 << 16];
  const stack_t own = {.ss_sp = stack, .ss_size = sizeof(stack)};
  sigaltstack(&own, NULL);
  const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  for (int i = 0; i < 4; ++i) {
    struct sigaction action = {.sa_sigaction = OnFault,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigaction(signals[i], &action, NULL);
  }
  Addresses();
  Privileged();
  Shifts();
  Flow();
  Saved();
  return 0;
}

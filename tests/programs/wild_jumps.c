// Jumps, calls and returns to where no code can be: which instruction faults, and what it has left
// on the stack, depends on the address.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>

static sigjmp_buf again;
static uint64_t target;
static volatile uint64_t* stack;

static void on_fault(int number, siginfo_t* info, void* context) {
  const greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const uint64_t rip = (uint64_t)registers[REG_RIP];
  printf("signal %d code %d at %s, address %s, stack moved by %ld\n", number, info->si_code,
         rip == target ? "the target" : "the jump",
         (uint64_t)info->si_addr == target ? "the target" : "another",
         (long)((uint64_t)registers[REG_RSP] - (uint64_t)stack));
  siglongjmp(again, 1);
}

enum { kJump, kCall, kReturn, kKinds };

// The address is printed without `base`, which is another one each time.
static void go(int kind, uint64_t address, uint64_t base) {
  static uint64_t area[64];
  stack = area + 32;
  target = address;
  printf("%s to %llx: ",
         kind == kJump   ? "jmp"
         : kind == kCall ? "call"
                         : "ret",
         (unsigned long long)(address ^ base));
  if (sigsetjmp(again, 1) != 0) return;
  area[32] = address;
  if (kind == kJump) {
    asm volatile("mov %0, %%rsp; jmp *%1" ::"r"(stack), "r"(address) : "memory");
  } else if (kind == kCall) {
    asm volatile("mov %0, %%rsp; call *%1" ::"r"(stack), "r"(address) : "memory");
  } else {
    asm volatile("mov %0, %%rsp; ret" ::"r"(stack) : "memory");
  }
}

// Where no code can be, but for some bits the address that this returns to.
static __attribute__((noinline)) void go_back(uint64_t other_bits) {
  const uint64_t back = (uint64_t)(uintptr_t)__builtin_return_address(0);
  go(kReturn, back ^ other_bits, back);
}

int main(void) {
  static const uint64_t kAddresses[] = {0,
                                        16,
                                        0x4141414141414141,
                                        0x0000800000000000,
                                        0x00007ffffffff000,
                                        0xffff800000000000,
                                        0xffffffffff600001};
  static char handler_stack[65536];
  const stack_t alternate = {.ss_sp = handler_stack, .ss_size = sizeof(handler_stack)};
  sigaltstack(&alternate, NULL);
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  for (unsigned i = 0; i < sizeof(kAddresses) / sizeof(kAddresses[0]); i++) {
    for (int kind = 0; kind < kKinds; kind++) go(kind, kAddresses[i], 0);
  }
  for (int i = 0; i < 5; i++) {
    go_back(UINT64_C(1) << 62);
    go_back(UINT64_C(1) << 46);
  }
  return 0;
}

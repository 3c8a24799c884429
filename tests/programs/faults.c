// Survives every fault that user code can cause, and looks at what the kernel says about each.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static sigjmp_buf jump;
static volatile int code;
static void* volatile address;
static char* volatile page;
static volatile int repair = 1;
static char* volatile sparse;
static volatile int divisions;

static void on_fault(int number, siginfo_t* info, void* context) {
  ucontext_t* user = context;
  code = info->si_code;
  address = info->si_addr;
  if (repair && number == SIGSEGV && (char*)info->si_addr >= page &&
      (char*)info->si_addr < page + 4096) {
    mprotect(page, 4096, PROT_READ | PROT_WRITE);  // and try the instruction again
    return;
  }
  if (number == SIGTRAP) return;
  if (number == SIGILL) {
    user->uc_mcontext.gregs[REG_RIP] += 2;  // over ud2
    return;
  }
  siglongjmp(jump, 1);
}

static __attribute__((noinline)) int divide(int a, int b) { return a / b; }

static void report(const char* what, const void* expected) {
  printf("%s: code %d, address %s\n", what, code, address == expected ? "right" : "WRONG");
}

int main(void) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  const int signals[] = {SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGBUS};
  for (int i = 0; i < 5; i++) sigaction(signals[i], &action, NULL);

  page = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  page[100] = 42;  // repaired by the handler
  repair = 0;
  report("protected page", page + 100);
  printf("value %d\n", page[100]);

  // A store that straddles into a page that cannot be written: nothing of it may be seen.
  if (sigsetjmp(jump, 1) == 0) {
    *(volatile uint64_t*)(page + 4092) = ~0ull;
  }
  printf("straddling: code %d, first half %u\n", code, *(volatile uint32_t*)(page + 4092));

  int* volatile nowhere = (int*)16;
  if (sigsetjmp(jump, 1) == 0) *(volatile int*)nowhere = 1;
  report("null write", (void*)16);
  if (sigsetjmp(jump, 1) == 0) (void)*(volatile int*)0xffff800000000000;
  report("kernel read", (void*)0xffff800000000000);
  if (sigsetjmp(jump, 1) == 0) *(volatile int*)0xffff800000000000 = 1;
  report("kernel write", (void*)0xffff800000000000);
  if (sigsetjmp(jump, 1) == 0) printf("read %d\n", *(volatile int*)-8);
  report("read before null", (void*)-8);
  if (sigsetjmp(jump, 1) == 0) *(volatile int*)-4096 = 1;
  report("write before null", (void*)-4096);
  if (sigsetjmp(jump, 1) == 0) (void)*(volatile int*)0x8000000000000000;
  report("non-canonical read", NULL);
  if (sigsetjmp(jump, 1) == 0) ((void (*)(void))8)();
  report("null call", (void*)8);
  if (sigsetjmp(jump, 1) == 0) ((void (*)(void))page)();
  report("no-execute call", page);

  volatile int zero = 0;
  volatile int one = 1;
  if (sigsetjmp(jump, 1) == 0) one = one / zero;
  printf("division: code %d\n", code);
  for (volatile int i = 0; i < 10; i++) {
    if (sigsetjmp(jump, 1) == 0) {
      one = divide(i, zero);
    } else {
      divisions++;
    }
  }
  printf("divisions: %d\n", divisions);
  __asm__ volatile("ud2");
  printf("ud2: code %d\n", code);
  __asm__ volatile("int3");
  printf("int3: code %d\n", code);
  if (sigsetjmp(jump, 1) == 0) __asm__ volatile("hlt");
  printf("hlt: code %d\n", code);

  // Behind the end of a mapped file.
  FILE* file = tmpfile();
  if (file == NULL || ftruncate(fileno(file), 4096) != 0) return 1;
  sparse = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fileno(file), 0);
  if (sigsetjmp(jump, 1) == 0) (void)*(volatile char*)(sparse + 4096);
  report("beyond the file", sparse + 4096);

  // A REP that faults in its middle leaves its registers where it stopped.
  page[0] = 1;
  memset(page, 7, 4096);
  uint64_t count = 8192;
  char* to = page;
  if (sigsetjmp(jump, 1) == 0) {
    __asm__ volatile("rep stosb" : "+c"(count), "+D"(to) : "a"(9) : "memory");
  }
  report("rep stosb", page + 4096);
  printf("filled %d %d\n", page[0], page[4095]);
  return 0;
}

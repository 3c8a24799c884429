// Prints what a program finds when it starts, as far as that is no address.

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

extern char** environ;

// Values, except of pointers: of these only what they point to.
static void PrintAuxv(void) {
  static const int kValues[] = {AT_HWCAP, AT_PAGESZ, AT_CLKTCK,      AT_PHENT,
                                AT_PHNUM, AT_FLAGS,  AT_UID,         AT_EUID,
                                AT_GID,   AT_EGID,   AT_MINSIGSTKSZ, AT_SECURE};
  for (size_t i = 0; i < sizeof(kValues) / sizeof(*kValues); ++i) {
    printf("auxv %d = %lu\n", kValues[i], getauxval(kValues[i]));
  }
  printf("execfn %s\n", (const char*)getauxval(AT_EXECFN));
  printf("platform %s\n", (const char*)getauxval(AT_PLATFORM));
  const uint64_t* random = (const uint64_t*)getauxval(AT_RANDOM);
  printf("random %d\n", random[0] != 0 && random[0] != random[1]);
  printf("vdso %d\n", memcmp((const void*)getauxval(AT_SYSINFO_EHDR), ELFMAG, SELFMAG) == 0);
}

static void PrintFiles(void) {
  for (int fd = 0; fd < 200; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) printf("descriptor %d\n", fd);
  }
  char path[4096] = {0};
  if (readlink("/proc/self/exe", path, sizeof(path) - 1) > 0) printf("exe %s\n", path);
  FILE* file = fopen("/proc/self/cmdline", "r");
  int byte;
  while (file != NULL && (byte = getc(file)) != EOF) putchar(byte == 0 ? '|' : byte);
  putchar('\n');
}

static void PrintSignals(void) {
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, NULL, &blocked);
  for (int signal = 1; signal < 65; ++signal) {
    struct sigaction action;
    if (sigaction(signal, NULL, &action) == 0 && action.sa_handler != SIG_DFL) {
      printf("signal %d ignored\n", signal);
    }
    if (sigismember(&blocked, signal) == 1) printf("signal %d blocked\n", signal);
  }
  stack_t stack;
  sigaltstack(NULL, &stack);
  printf("signal stack %d %lu\n", stack.ss_flags, (unsigned long)stack.ss_size);
}

int main(int argc, char** argv) {
  for (int i = 0; i < argc; ++i) printf("argument %s\n", argv[i]);
  for (char** e = environ; *e != NULL; ++e) printf("environment %s\n", *e);
  PrintAuxv();
  PrintFiles();
  PrintSignals();
  struct rlimit limit;
  getrlimit(RLIMIT_STACK, &limit);
  printf("stack %lu %lu\n", (unsigned long)limit.rlim_cur, (unsigned long)limit.rlim_max);
  // As deep as the limit allows, nearly.
  const size_t deep = 7 << 20;
  volatile char* bottom = __builtin_alloca(deep);
  bottom[0] = 1;
  char* heap = malloc(100 << 20);
  heap[50 << 20] = 2;
  printf("memory %d\n", bottom[0] + heap[50 << 20]);
  fflush(stdout);
  return 40 + argc;
}

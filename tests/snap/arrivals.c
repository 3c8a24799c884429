// Threads that call functions all the time, children that do, and a library that comes late.
//
//   arrivals THREADS CALLS [LIBRARY]
//
// Prints how often its own threads have called `work`, and whether all was as it should be.

#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

_Atomic long arrivals;  // changed by the second instruction or later of `work`
static long counts[16], calls;
extern char** environ;

__attribute__((noinline)) long work(long thread, long i) {
  ++arrivals;
  return counts[thread] += i & 1;
}

// Its first instruction refers to memory by its own address.
__attribute__((naked)) long relative(void) { __asm__("mov arrivals(%rip), %rax\n ret"); }

// Its first instruction calls.
__attribute__((naked)) long calling(void) { __asm__("call 1f\n ret\n 1: mov $7, %eax\n ret"); }

// Its first instruction jumps, or does not.
__attribute__((naked)) long jumping(long far) {
  __asm__("jrcxz 1f\n mov $1, %eax\n ret\n 1: mov $2, %eax\n ret");
}
static long jump(long rcx) {
  long result;
  __asm__ volatile("call jumping" : "=a"(result) : "c"(rcx) : "memory");
  return result;
}

// Its first instruction repeats itself.
__attribute__((naked)) void repeating(char* to, long unused, long unused2, long size) {
  __asm__("rep stosb\n ret");
}
static int repeat(void) {
  char bytes[64] = {0};
  long size = sizeof(bytes);
  char* to = bytes;
  __asm__ volatile("call repeating" : "+c"(size), "+D"(to) : "a"(9) : "memory");
  for (size_t i = 0; i < sizeof(bytes); ++i) {
    if (bytes[i] != 9) return 0;
  }
  return size == 0;
}

static _Atomic int failures;

static void* run(void* number) {
  const long thread = (long)number;
  for (long i = 0; i < calls; ++i) {
    work(thread, i);
    if (i % 16 != 0) continue;
    if (relative() <= 0 || calling() != 7 || jump(0) != 2 || jump(5) != 1 || !repeat()) ++failures;
  }
  return NULL;
}

// A child has the program's code, nothing else.
static void children(void) {
  const unsigned char* const code = (const unsigned char*)&work;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const int first = *code;
      work(0, 1);
      _exit(first == 0xcc ? 1 : 7);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 7 << 8) ++failures;
    char* const argv[] = {"true", NULL};
    pid_t spawned = 0;
    if (posix_spawn(&spawned, "/bin/true", NULL, NULL, argv, environ) != 0 ||
        waitpid(spawned, &status, 0) != spawned || status != 0) {
      ++failures;
    }
  }
}

int main(int argc, char** argv) {
  const long count = atol(argv[1]);
  calls = atol(argv[2]);
  pthread_t threads[16];
  for (long i = 0; i < count; ++i) pthread_create(&threads[i], NULL, run, (void*)i);
  children();
  for (long i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  if (argc > 3) {
    void* const library = dlopen(argv[3], RTLD_NOW);
    int (*const late)(int) = library == NULL ? NULL : (int (*)(int))dlsym(library, "late");
    if (late == NULL || late(4) != 5) ++failures;
  }
  printf("arrivals %ld failures %d\n", arrivals, failures);
  return failures != 0;
}

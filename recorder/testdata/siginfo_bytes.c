// Writes the bytes of every siginfo_t its handlers get: of signals queued with a value, sent by
// kill, raised by faults, by a timer and by the end of a child.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static sigjmp_buf after_fault;
static volatile int fault;

static void on_signal(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  if (write(STDOUT_FILENO, info, sizeof(*info)) != sizeof(*info)) _exit(2);
  if (fault) siglongjmp(after_fault, 1);
}

static void Fault(int kind) {
  fault = 1;
  if (sigsetjmp(after_fault, 1) == 0) {
    char* const page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile int zero = 0;
    if (kind == 0) page[123] = 1;
    if (kind == 1) ((volatile char*)8)[0] = 1;
    if (kind == 2) zero = 7 / zero;
    if (kind == 3) __asm__ volatile("ud2");
  }
  fault = 0;
}

int main(void) {
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
  const int numbers[] = {SIGRTMIN + 3, SIGUSR1, SIGSEGV, SIGFPE, SIGILL, SIGALRM, SIGCHLD};
  for (int i = 0; i < 7; i++) sigaction(numbers[i], &action, NULL);
  sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_ptr = (void*)0x1122334455667788});
  kill(getpid(), SIGUSR1);
  for (int kind = 0; kind < 4; kind++) Fault(kind);
  alarm(1);
  pause();
  if (fork() == 0) _exit(23);
  wait(NULL);
  return 0;
}

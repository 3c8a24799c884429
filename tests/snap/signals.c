// Gets signals in many ways, and complains of what is not as it was sent.
//
// signals [abort | alone]   aborts in the end; makes no children

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int complaints;
#define CHECK(c) \
  if (!(c)) printf("line %d: %s\n", __LINE__, #c), ++complaints

static siginfo_t last;
static _Atomic int handled;
static sigjmp_buf back;
static char* page;

static void handler(int signal, siginfo_t* info, void* context) {
  last = *info;
  ++handled;
}

static void fault_handler(int signal, siginfo_t* info, void* context) {
  last = *info;
  ++handled;
  if (info->si_addr == page) {
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
  } else {
    siglongjmp(back, 1);
  }
}

static void handle(int signal, void (*function)(int, siginfo_t*, void*)) {
  struct sigaction action = {.sa_sigaction = function, .sa_flags = SA_SIGINFO};
  sigaction(signal, &action, NULL);
}

static void sent_by_itself(void) {
  const union sigval value = {.sival_int = 42};
  for (int i = 1; i <= 3; ++i) {
    CHECK(sigqueue(getpid(), SIGUSR1, value) == 0);
    CHECK(handled == i && last.si_code == SI_QUEUE && last.si_value.sival_int == 42);
  }
  raise(SIGUSR1);
  CHECK(handled == 4 && last.si_code == SI_TKILL && last.si_pid == getpid());
}

static void faults(void) {
  handled = 0;
  handle(SIGSEGV, fault_handler);
  page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *(volatile char*)page = 7;  // made writable by the handler, and executed again
  CHECK(*page == 7 && handled == 1 && last.si_code == SEGV_ACCERR);
  if (sigsetjmp(back, 1) == 0) {
    *(volatile char*)0x1234 = 1;
    CHECK(0);
  }
  CHECK(handled == 2 && last.si_code == SEGV_MAPERR && last.si_addr == (void*)0x1234);
  if (sigsetjmp(back, 1) == 0) {
    *(volatile char*)0x8000000000000000 = 1;
    CHECK(0);
  }
  CHECK(handled == 3 && last.si_code == SI_KERNEL);
}

static void* waker(void* of) {
  usleep(50 * 1000);
  pthread_kill(*(pthread_t*)of, SIGUSR1);
  return NULL;
}

static void in_calls(void) {
  pthread_t self = pthread_self(), other;
  handled = 0;
  pthread_create(&other, NULL, waker, &self);
  const struct timespec second = {1, 0};
  struct timespec left = {0, 0};
  CHECK(nanosleep(&second, &left) == -1 && errno == EINTR && handled == 1);
  pthread_join(other, NULL);
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  pthread_create(&other, NULL, waker, &self);
  CHECK(sigsuspend(&before) == -1 && errno == EINTR && handled == 2);
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  CHECK(sigismember(&blocked, SIGUSR1));
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_join(other, NULL);
}

// SIGCHLD is ignored: nothing may end for its sake.
static void children(void) {
  const int epoll = epoll_create1(0);
  struct epoll_event event;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      raise(SIGSTOP);
      usleep(20 * 1000);
      _exit(i);
    }
    siginfo_t info = {0};
    CHECK(waitid(P_PID, (id_t)child, &info, WSTOPPED) == 0 && info.si_code == CLD_STOPPED);
    kill(child, SIGCONT);
    CHECK(epoll_wait(epoll, &event, 1, 100) == 0);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == i);
  }
  CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
}

int main(int argc, char** argv) {
  handle(SIGUSR1, handler);
  sent_by_itself();
  faults();
  in_calls();
  const char* const how = argc > 1 ? argv[1] : "";
  if (strcmp(how, "alone") != 0) children();
  printf("complaints %d\n", complaints);
  fflush(stdout);
  if (strcmp(how, "abort") == 0) abort();
  return 3;
}

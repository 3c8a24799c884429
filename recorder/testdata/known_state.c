// A process that knows what the kernel keeps of it.
//
// Prints lines "key value", then "ready"; at the end of its input it looks whether all is as it
// was.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int complaints;

static void complain(const char* what) {
  ++complaints;
  printf("%s has changed\n", what);
}

static void on_signal(int signal, siginfo_t* info, void* context) {
  (void)signal;
  (void)info;
  (void)context;
}

static void print_thread(const char* who) {
  stack_t stack;
  uint64_t mask = 0;
  void *list = NULL, *clear_tid = NULL;
  size_t list_bytes = 0;
  char name[16];
  sigaltstack(NULL, &stack);
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(mask));
  syscall(SYS_get_robust_list, 0, &list, &list_bytes);
  prctl(PR_GET_TID_ADDRESS, &clear_tid);
  prctl(PR_GET_NAME, name);
  printf("%s.thread %ld\n%s.name %s\n%s.blocked %lx\n", who, syscall(SYS_gettid), who, name, who,
         mask);
  printf("%s.stack %lx %zu %d\n", who, (uint64_t)stack.ss_sp, stack.ss_size, stack.ss_flags);
  printf("%s.robust %lx %zu\n%s.clear_tid %lx\n", who, (uint64_t)list, list_bytes, who,
         (uint64_t)clear_tid);
  printf("%s.nice %d\n", who, getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid)));
}

static void block(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static pthread_barrier_t barrier;
static int gate[2];

static void* second(void* argument) {
  stack_t stack = {.ss_sp = malloc(20000), .ss_size = 20000, .ss_flags = 0}, after;
  char byte;
  (void)argument;
  sigaltstack(&stack, NULL);
  prctl(PR_SET_NAME, "second");
  block(SIGHUP);
  setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 3);
  pthread_kill(pthread_self(), SIGHUP);
  print_thread("second");
  pthread_barrier_wait(&barrier);
  while (read(gate[0], &byte, 1) < 0) complain("a call");
  sigaltstack(NULL, &after);
  if (after.ss_sp != stack.ss_sp || after.ss_size != stack.ss_size) complain("a signal stack");
  return NULL;
}

static void print_signal(int signal) {
  uint64_t action[4];
  syscall(SYS_rt_sigaction, signal, NULL, action, 8);
  printf("signal.%d %lx %lx %lx %lx\n", signal, action[0], action[1], action[2], action[3]);
}

static void print_process(void) {
  struct rlimit limit;
  struct itimerval timer;
  char path[4096];
  const mode_t mask = umask(0);
  umask(mask);
  getrlimit(RLIMIT_NOFILE, &limit);
  getitimer(ITIMER_REAL, &timer);
  printf("limit %lu %lu\n", limit.rlim_cur, limit.rlim_max);
  printf("umask %o\nbrk %lx\n", mask, (uint64_t)syscall(SYS_brk, 0));
  printf("directory %s\n", getcwd(path, sizeof(path)));
  printf("personality %x\n", personality(0xffffffff));
  printf("interval %ld\n", timer.it_interval.tv_sec);
  printf("family %d %d %d\n", getppid(), getpgid(0), getsid(0));
  print_signal(SIGUSR1);
  print_signal(SIGPIPE);
  print_signal(SIGINT);
}

static int unread_pipe[2];
static int file, same, memory, counter;
static char file_name[] = "/tmp/known-state-XXXXXX";

static void print_descriptor(const char* who, int fd) {
  struct stat status;
  fstat(fd, &status);
  printf("fd.%s %d %lx %d %lu\n", who, fd, (unsigned long)lseek(fd, 0, SEEK_CUR) + 1,
         fcntl(fd, F_GETFL), status.st_ino);
}

static void open_descriptors(void) {
  close(mkstemp(file_name));
  file = open(file_name, O_RDWR | O_APPEND | O_CLOEXEC);
  if (write(file, "0123456789", 10) != 10) complain("a file");
  lseek(file, 5, SEEK_SET);
  same = dup(file);
  memory = memfd_create("known", 0);
  counter = eventfd(7, EFD_NONBLOCK);
  if (pipe(unread_pipe) != 0 || write(unread_pipe[1], "un\nread", 7) != 7) complain("a pipe");
  print_descriptor("file", file);
  print_descriptor("same", same);
  print_descriptor("memory", memory);
  print_descriptor("counter", counter);
  print_descriptor("pipe", unread_pipe[0]);
}

static void look_again(void) {
  char bytes[16] = {};
  sigset_t pending;
  struct itimerval timer;
  if (read(unread_pipe[0], bytes, sizeof(bytes)) != 7 || strcmp(bytes, "un\nread") != 0) {
    complain("a pipe");
  }
  sigpending(&pending);
  if (!sigismember(&pending, SIGTERM)) complain("a pending signal");
  getitimer(ITIMER_REAL, &timer);
  if (timer.it_value.tv_sec < 900 || timer.it_interval.tv_sec != 500) complain("a timer");
  if (lseek(file, 0, SEEK_CUR) != 5) complain("an offset");
}

int main(void) {
  struct sigaction action = {.sa_sigaction = on_signal,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
  const struct itimerval timer = {.it_value = {1000, 0}, .it_interval = {500, 0}};
  struct rlimit limit = {123, 456};
  stack_t stack = {.ss_sp = malloc(16384), .ss_size = 16384, .ss_flags = 0};
  pthread_t thread;
  char byte;
  setvbuf(stdout, NULL, _IOFBF, 1 << 16);
  sigaddset(&action.sa_mask, SIGUSR2);
  sigaction(SIGUSR1, &action, NULL);
  signal(SIGPIPE, SIG_IGN);
  sigaltstack(&stack, NULL);
  block(SIGTERM);
  kill(getpid(), SIGTERM);
  setitimer(ITIMER_REAL, &timer, NULL);
  setrlimit(RLIMIT_NOFILE, &limit);
  umask(027);
  if (chdir("/tmp") != 0 || pipe(gate) != 0) return 2;
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_create(&thread, NULL, second, NULL);
  pthread_barrier_wait(&barrier);
  open_descriptors();
  print_thread("first");
  print_process();
  printf("ready\n");
  fflush(stdout);
  while (read(0, &byte, 1) > 0) {
  }
  look_again();
  close(gate[1]);
  pthread_join(thread, NULL);
  unlink(file_name);
  printf("complaints %d\n", complaints);
  return complaints != 0;
}

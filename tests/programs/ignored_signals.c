// Signals that are ignored end no call, whatever it waits for, and make none wait longer; the same
// signals with a handler do. Prints how each call ended.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/require.h"

static int timeout_ms = 200;
enum { kLateMs = 1500, kSignals = 100 };  // a call that starts again at each signal takes longer

static struct timespec timeout = {0, 200 * 1000000};
static int epoll, nobody[2], semaphore, uring;
static int silent[2], full[2], deserted;  // sockets
static struct sockaddr_un crowded_address;
static socklen_t crowded_bytes;
static aio_context_t requests;
static volatile sig_atomic_t handled;

static long in_epoll_wait(void) {
  struct epoll_event event;
  return epoll_wait(epoll, &event, 1, timeout_ms);
}

static long in_epoll_pwait2(void) {
  struct epoll_event event;
  return syscall(SYS_epoll_pwait2, epoll, &event, 1, &timeout, NULL, 8);
}

// The signal comes only here.
static long in_epoll_pwait(void) {
  struct epoll_event event;
  sigset_t blocked, none;
  sigemptyset(&none);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigprocmask(SIG_BLOCK, &blocked, NULL);
  const long result = epoll_pwait(epoll, &event, 1, timeout_ms, &none);
  const int error = errno;
  REQUIRE(result == 0 || handled > 0);
  sigprocmask(SIG_UNBLOCK, &blocked, NULL);
  errno = error;
  return result;
}

static long in_semtimedop(void) {
  struct sembuf take = {0, -1, 0};
  return semtimedop(semaphore, &take, 1, &timeout);
}

static long in_sigtimedwait(void) {
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGUSR2);
  return sigtimedwait(&awaited, NULL, &timeout);
}

static long in_io_getevents(void) {
  struct io_event event;
  struct timespec copy = timeout;
  return syscall(SYS_io_getevents, requests, 1L, 1L, &event, &copy);
}

static long in_poll(void) {
  struct pollfd what = {nobody[0], POLLIN, 0};
  return poll(&what, 1, timeout_ms);
}

static long in_ppoll(void) {
  struct pollfd what = {nobody[0], POLLIN, 0};
  return ppoll(&what, 1, &timeout, NULL);
}

static long in_select(void) {
  struct timeval time = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
  return select(0, NULL, NULL, NULL, &time);
}

static long in_nanosleep(void) { return nanosleep(&timeout, NULL); }

static int with_timeout(int socket, int option) {
  const struct timeval time = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
  REQUIRE(setsockopt(socket, SOL_SOCKET, option, &time, sizeof(time)) == 0);
  return socket;
}

static long in_recv(void) {
  char byte;
  return recv(with_timeout(silent[0], SO_RCVTIMEO), &byte, 1, 0);
}

static long in_read(void) {
  char byte;
  return read(with_timeout(silent[0], SO_RCVTIMEO), &byte, 1);
}

static long in_send(void) {
  char bytes[4096] = {0};
  while (send(full[0], bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
  }
  return send(with_timeout(full[0], SO_SNDTIMEO), bytes, sizeof(bytes), 0);
}

static long in_accept(void) { return accept(with_timeout(deserted, SO_RCVTIMEO), NULL, NULL); }

// No room for another one that waits to be accepted.
static long in_connect(void) {
  const int client = socket(AF_UNIX, SOCK_STREAM, 0);
  const long result =
      connect(with_timeout(client, SO_SNDTIMEO), (struct sockaddr*)&crowded_address, crowded_bytes);
  const int error = errno;
  close(client);
  errno = error;
  return result;
}

static long in_io_uring(void) {
  struct io_uring_getevents_arg arguments = {.ts = (uint64_t)&timeout};
  return syscall(SYS_io_uring_enter, uring, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
                 &arguments, sizeof(arguments));
}

// One that nobody connects to; one at which as many wait as may.
static void make_sockets(void) {
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, silent) == 0);
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, full) == 0);
  const struct sockaddr any = {.sa_family = AF_UNIX};
  deserted = socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(bind(deserted, &any, sizeof(sa_family_t)) == 0 && listen(deserted, 1) == 0);
  const int crowded = socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(bind(crowded, &any, sizeof(sa_family_t)) == 0 && listen(crowded, 0) == 0);
  crowded_bytes = sizeof(crowded_address);
  REQUIRE(getsockname(crowded, (struct sockaddr*)&crowded_address, &crowded_bytes) == 0);
  const int first = socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(connect(first, (struct sockaddr*)&crowded_address, crowded_bytes) == 0);
}

static void handler(int signal) { handled = handled + 1; }

static double Ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

// Sends its parent signals, 20 ms apart, for longer than the call may take.
static pid_t Sender(int signal) {
  const pid_t parent = getpid(), child = fork();
  if (child != 0) return child;
  for (int i = 0; i < kSignals && getppid() == parent; ++i) {
    usleep(20000);
    kill(parent, signal);
  }
  _exit(0);
}

static void Try(const char* name, long (*call)(void), int signal, int ends_early) {
  const pid_t child = Sender(signal);
  const double before = Ms();
  handled = 0;
  errno = 0;
  const long result = call();
  const int error = errno;
  REQUIRE(!ends_early || handled > 0);
  const double took = Ms() - before;
  kill(child, SIGKILL);
  REQUIRE(waitpid(child, NULL, 0) == child);
  const char* const when = took < timeout_ms - 1 ? "early" : took < kLateMs ? "in time" : "late";
  printf("%s, signal %d: %ld %s %s\n", name, signal, result, strerror(error),
         ends_early || strcmp(when, "late") == 0 ? when : "in time");
  REQUIRE(ends_early || took >= timeout_ms - 1);
}

static const struct {
  const char* name;
  long (*call)(void);
} calls[] = {{"epoll_pwait", in_epoll_pwait},
             {"epoll_wait", in_epoll_wait},
             {"epoll_pwait2", in_epoll_pwait2},
             {"semtimedop", in_semtimedop},
             {"sigtimedwait", in_sigtimedwait},
             {"io_getevents", in_io_getevents},
             {"recv", in_recv},
             {"read", in_read},
             {"send", in_send},
             {"accept", in_accept},
             {"connect", in_connect},
             {"poll", in_poll},
             {"ppoll", in_ppoll},
             {"select", in_select},
             {"nanosleep", in_nanosleep}};

static void* in_thread(void* argument) {
  Try("epoll_wait in a thread", in_epoll_wait, SIGUSR1, 0);
  return NULL;
}

static struct {
  char below[1024];  // of its stack, when it was in the call
  char* memory;
  pid_t thread;
  atomic_int begun;
} waiter;

static void* waits(void* argument) {
  waiter.memory = (char*)__builtin_frame_address(0) - sizeof(waiter.below);
  waiter.thread = gettid();
  waiter.begun = 1;
  in_semtimedop();
  return NULL;
}

static int is_asleep(pid_t thread) {
  char path[64], text[256] = {0};
  snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
  FILE* const file = fopen(path, "r");
  REQUIRE(file != NULL && fgets(text, sizeof(text), file) != NULL);
  fclose(file);
  return strrchr(text, ')')[2] == 'S';
}

// Whatever is there belongs to the program, if only to another of its stacks.
static void watch_memory_below_stack(void) {
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, &waits, NULL) == 0);
  while (!waiter.begun || !is_asleep(waiter.thread)) usleep(1000);
  memcpy(waiter.below, waiter.memory, sizeof(waiter.below));
  int changes = 0;
  for (int i = 0; i < 4; ++i) {
    syscall(SYS_tgkill, getpid(), waiter.thread, SIGUSR1);
    usleep(10000);
    changes += memcmp(waiter.below, waiter.memory, sizeof(waiter.below)) != 0;
  }
  pthread_join(thread, NULL);
  printf("memory below the stack of a thread that waits: %d changes\n", changes);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  epoll = epoll_create1(0);
  REQUIRE(epoll >= 0 && pipe(nobody) == 0);
  semaphore = semget(IPC_PRIVATE, 1, 0600);
  REQUIRE(semaphore >= 0 && syscall(SYS_io_setup, 1, &requests) == 0);
  make_sockets();
  signal(SIGUSR1, SIG_IGN);
  for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); ++i) {
    Try(calls[i].name, calls[i].call, SIGUSR1, 0);
    Try(calls[i].name, calls[i].call, i % 2 == 0 ? SIGWINCH : SIGCONT, 0);
  }
  // In another process: memory that others may write to is dealt with in other ways.
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    struct io_uring_params parameters = {0};
    uring = (int)syscall(SYS_io_uring_setup, 1, &parameters);
    if (uring >= 0) Try("io_uring_enter", in_io_uring, SIGUSR1, 0);
    _exit(0);
  }
  REQUIRE(waitpid(child, NULL, 0) == child);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, &in_thread, NULL) == 0);
  pthread_join(thread, NULL);
  watch_memory_below_stack();
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  timeout_ms = 20000;
  timeout = (struct timespec){20, 0};
  for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); ++i) {
    Try(calls[i].name, calls[i].call, SIGUSR1, 1);
  }
  semctl(semaphore, 0, IPC_RMID);
  return 0;
}

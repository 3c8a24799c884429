// Waits in calls that say EINTR whenever they are disturbed, each in a thread of its own, until
// their timeouts of 300 ms are over; two times each. Prints for each call what it returned and the
// least and the most milliseconds that it took.
//
//   waits [signals]    with signals that are ignored, for all threads, all the time

#define _GNU_SOURCE
#include <errno.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { kMs = 300, kRounds = 2 };

static const struct timespec timeout = {0, kMs * 1000000L};
static struct epoll_event event;

static int new_epoll(void) { return epoll_create1(EPOLL_CLOEXEC); }
static long in_epoll_wait(int fd) { return syscall(SYS_epoll_wait, fd, &event, 1, kMs); }
static long in_epoll_pwait(int fd) { return epoll_pwait(fd, &event, 1, kMs, NULL); }
static long in_epoll_pwait2(int fd) {
  return syscall(SYS_epoll_pwait2, fd, &event, 1, &timeout, NULL, 8);
}

static int new_semaphore(void) { return semget(IPC_PRIVATE, 1, 0600); }
static long in_semtimedop(int id) {
  struct sembuf down = {0, -1, 0};
  return semtimedop(id, &down, 1, &timeout);
}

static int no_object(void) { return 0; }
static long in_sigtimedwait(int unused) {
  (void)unused;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  return sigtimedwait(&set, NULL, &timeout);
}

static aio_context_t context;
static int new_context(void) { return (int)syscall(SYS_io_setup, 1, &context); }
static long in_io_getevents(int unused) {
  (void)unused;
  struct io_event done;
  struct timespec time = timeout;
  return syscall(SYS_io_getevents, context, 1, 1, &done, &time);
}

static void set_timeouts(int fd) {
  const struct timeval time = {0, kMs * 1000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
}
static int new_pair(void) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return -1;
  set_timeouts(ends[0]);
  return ends[0];
}
static int new_full_pair(void) {
  const int fd = new_pair();
  char bytes[4096] = {0};
  while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
  }
  return fd;
}
static int new_listener(void) {
  const struct sockaddr_un any = {.sun_family = AF_UNIX};
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(fd, (const struct sockaddr*)&any, sizeof(any.sun_family)) != 0) return -1;
  listen(fd, 1);
  set_timeouts(fd);
  return fd;
}
static long in_read(int fd) {
  char byte;
  return read(fd, &byte, 1);
}
static long in_recv(int fd) {
  char byte;
  return recv(fd, &byte, 1, 0);
}
static long in_send(int fd) { return send(fd, "x", 1, 0); }
static long in_accept(int fd) { return accept(fd, NULL, NULL); }

struct wait {
  const char* name;
  int (*make)(void);
  long (*call)(int);
  long results[kRounds];
  int errors[kRounds];
  long least_ms, most_ms;
};

static struct wait waits[] = {
    {.name = "epoll_wait", .make = new_epoll, .call = in_epoll_wait},
    {.name = "epoll_pwait", .make = new_epoll, .call = in_epoll_pwait},
    {.name = "epoll_pwait2", .make = new_epoll, .call = in_epoll_pwait2},
    {.name = "semtimedop", .make = new_semaphore, .call = in_semtimedop},
    {.name = "sigtimedwait", .make = no_object, .call = in_sigtimedwait},
    {.name = "io_getevents", .make = new_context, .call = in_io_getevents},
    {.name = "read", .make = new_pair, .call = in_read},
    {.name = "recv", .make = new_pair, .call = in_recv},
    {.name = "send", .make = new_full_pair, .call = in_send},
    {.name = "accept", .make = new_listener, .call = in_accept},
};
enum { kWaits = sizeof(waits) / sizeof(waits[0]) };

static _Atomic int ended;

static long now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

static void* run(void* argument) {
  struct wait* const wait = argument;
  const int object = wait->make();
  for (int round = 0; round < kRounds; round++) {
    const long begin = now_us();
    errno = 0;
    wait->results[round] = wait->call(object);
    wait->errors[round] = errno;
    const long ms = (now_us() - begin) / 1000;
    if (round == 0 || ms < wait->least_ms) wait->least_ms = ms;
    if (round == 0 || ms > wait->most_ms) wait->most_ms = ms;
  }
  if (wait->make == new_semaphore) semctl(object, 0, IPC_RMID);
  ended++;
  return NULL;
}

static pthread_t threads[kWaits];
static _Atomic int over;

static void* send_signals(void* unused) {
  while (!over) {
    usleep(20 * 1000);
    for (int i = 0; i < kWaits; i++) pthread_kill(threads[i], SIGWINCH);
  }
  return unused;
}

int main(int argc, char** argv) {
  (void)argv;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  for (int i = 0; i < kWaits; i++) pthread_create(&threads[i], NULL, run, &waits[i]);
  pthread_t sender;
  if (argc > 1) pthread_create(&sender, NULL, send_signals, NULL);
  // All have ended before any is joined, and so can be sent a signal.
  while (ended < kWaits) usleep(1000);
  over = 1;
  if (argc > 1) pthread_join(sender, NULL);
  for (int i = 0; i < kWaits; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < kWaits; i++) {
    const struct wait* const wait = &waits[i];
    printf("%s:", wait->name);
    for (int round = 0; round < kRounds; round++) {
      printf(" %ld %s", wait->results[round], strerrorname_np(wait->errors[round]));
    }
    printf(" %ld %ld\n", wait->least_ms, wait->most_ms);
  }
  return 0;
}

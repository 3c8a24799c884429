// An event loop over epoll: counters from other threads, a timer, a pipe and a child's end.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

enum { kCounter = 1, kTimer, kPipe, kChild, kPosts = 100 };

static int counter, pipe_fds[2];

static void* posts(void* argument) {
  const uint64_t one = 1;
  for (int i = 0; i < kPosts; i++) REQUIRE(write(counter, &one, 8) == 8);
  return argument;
}

static void* writes(void* argument) {
  for (int i = 0; i < 20; i++) REQUIRE(write(pipe_fds[1], "0123456789", 10) == 10);
  close(pipe_fds[1]);
  return argument;
}

static void watch(int epoll, int fd, int tag) {
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)tag};
  REQUIRE(fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

int main(void) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  counter = eventfd(0, EFD_NONBLOCK);
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  REQUIRE(pipe(pipe_fds) == 0);
  const pid_t child = fork();
  if (child == 0) _exit(12);
  const int child_fd = (int)syscall(SYS_pidfd_open, child, 0);
  watch(epoll, counter, kCounter);
  watch(epoll, timer, kTimer);
  watch(epoll, pipe_fds[0], kPipe);
  watch(epoll, child_fd, kChild);
  const struct itimerspec every = {{0, 2000000}, {0, 2000000}};
  timerfd_settime(timer, 0, &every, NULL);
  pthread_t threads[3];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, posts, NULL);
  pthread_create(&threads[2], NULL, writes, NULL);

  uint64_t posted = 0, ticks = 0, bytes = 0;
  int pipe_open = 1, status = -1;
  while (posted < 2 * kPosts || ticks < 5 || pipe_open || status < 0) {
    struct epoll_event events[4];
    const int count = epoll_wait(epoll, events, 4, -1);
    for (int i = 0; i < count; i++) {
      uint64_t value = 0;
      char buffer[64];
      switch (events[i].data.u32) {
        case kCounter:
          if (read(counter, &value, 8) == 8) posted += value;
          break;
        case kTimer:
          if (read(timer, &value, 8) == 8) ticks += value;
          break;
        case kPipe: {
          const ssize_t got = read(pipe_fds[0], buffer, sizeof(buffer));
          REQUIRE(got >= 0);
          bytes += (uint64_t)got;
          if (got == 0) {
            pipe_open = 0;
            epoll_ctl(epoll, EPOLL_CTL_DEL, pipe_fds[0], NULL);
          }
          break;
        }
        default:
          REQUIRE(waitpid(child, &status, 0) == child);
          epoll_ctl(epoll, EPOLL_CTL_DEL, child_fd, NULL);
      }
    }
  }
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  printf("posted %llu, bytes %llu, child %d\n", (unsigned long long)posted,
         (unsigned long long)bytes, WEXITSTATUS(status));
  return 0;
}

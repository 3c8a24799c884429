// A parent forks workers that serve its requests: over socket pairs, then over a listening socket.
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

enum { kWorkers = 3, kRequests = 60 };

static uint64_t answer_to(uint64_t request) {
  uint64_t value = request;
  for (int i = 0; i < 1000; i++) value = value * 6364136223846793005u + 1442695040888963407u;
  return value;
}

// Serves until the client hangs up; how many it served.
static int serve(int fd) {
  uint64_t request;
  int served = 0;
  while (read(fd, &request, sizeof(request)) == sizeof(request)) {
    const uint64_t answer = answer_to(request);
    REQUIRE(write(fd, &answer, sizeof(answer)) == sizeof(answer));
    served++;
  }
  return served;
}

static uint64_t ask(int fd, uint64_t request) {
  uint64_t answer = 0;
  REQUIRE(write(fd, &request, sizeof(request)) == sizeof(request));
  REQUIRE(read(fd, &answer, sizeof(answer)) == sizeof(answer));
  return answer;
}

static int statuses(void) {
  int status, sum = 0;
  while (wait(&status) > 0) sum += WEXITSTATUS(status);
  return sum;
}

static void pairs(void) {
  int parent_ends[kWorkers];
  for (int i = 0; i < kWorkers; i++) {
    int fds[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    if (fork() == 0) {
      close(fds[0]);
      for (int j = 0; j < i; j++) close(parent_ends[j]);
      _exit(serve(fds[1]));
    }
    close(fds[1]);
    parent_ends[i] = fds[0];
  }
  uint64_t sum = 0;
  int right = 0;
  for (uint64_t i = 0; i < kRequests; i++) {
    const uint64_t answer = ask(parent_ends[i % kWorkers], i);
    right += answer == answer_to(i);
    sum += answer;
  }
  for (int i = 0; i < kWorkers; i++) close(parent_ends[i]);
  printf("pairs: %d right, sum %016llx, served %d\n", right, (unsigned long long)sum, statuses());
}

// Whichever worker is quickest accepts the connection.
static void listening(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  // Abstract, and named after this process: nothing is left afterwards, no other has it.
  snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "fork_server.%d", getpid());
  const socklen_t length =
      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(address.sun_path + 1));
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(bind(listener, (struct sockaddr*)&address, length) == 0 && listen(listener, 8) == 0);
  for (int i = 0; i < kWorkers; i++) {
    if (fork() != 0) continue;
    int served = 0;
    for (;;) {
      const int fd = accept(listener, NULL, NULL);
      if (fd < 0) _exit(served);
      served += serve(fd);
      close(fd);
    }
  }
  int right = 0;
  for (uint64_t i = 0; i < kRequests / 3; i++) {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    REQUIRE(connect(fd, (struct sockaddr*)&address, length) == 0);
    right += ask(fd, i) == answer_to(i);
    close(fd);
  }
  shutdown(listener, SHUT_RDWR);  // wakes all who wait in accept
  close(listener);
  printf("listening: %d right, served %d\n", right, statuses());
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  pairs();
  listening();
  return 0;
}

// One thread waits in read() for bytes that nobody of this process writes: a child does, now and
// then. The other one looks at the buffer all the time.
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kBytes = 20 };

static int ends[2];
static _Alignas(4096) volatile char buffer[4096];
static volatile int done;
static volatile long seen;

static void Require(int condition) {
  if (!condition) abort();
}

static void* Reads(void* nothing) {
  for (int i = 0; i < kBytes; i++) Require(read(ends[0], (char*)&buffer[i], 1) == 1);
  done = 1;
  return nothing;
}

static void Writes(void) {
  const struct timespec pause = {.tv_nsec = 5000000};
  for (char i = 1; i <= kBytes; i++) {
    nanosleep(&pause, NULL);
    Require(write(ends[1], &i, 1) == 1);
  }
  _exit(0);
}

int main(void) {
  Require(pipe(ends) == 0);
  const pid_t child = fork();
  Require(child >= 0);
  if (child == 0) Writes();
  pthread_t reads;
  Require(pthread_create(&reads, NULL, Reads, NULL) == 0);
  while (!done) {
    for (int i = 0; i < kBytes; i++) seen += buffer[i];
  }
  Require(pthread_join(reads, NULL) == 0);
  Require(waitpid(child, NULL, 0) == child);
  return 0;
}

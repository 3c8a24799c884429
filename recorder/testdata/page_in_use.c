// Two threads use different parts of one page at the same time: one waits in the kernel for a timer
// whose expirations are put into it, the other stores next to them without a pause and without a
// system call. Neither may lose anything.
//
//   page_in_use ROUNDS
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define STORES 900

static struct {
  _Alignas(4096) volatile uint64_t expirations;  // the kernel stores here
  volatile unsigned out[STORES];                 // the other thread here
} page;
static int timer, rounds, lost;
static volatile int done;

static void* reader(void* unused) {
  for (int i = 0; i < rounds; i++) {
    page.expirations = 0;
    if (read(timer, (void*)&page.expirations, sizeof(page.expirations)) != 8) _exit(98);
    // No call in between: what is in the page now is what this thread sees.
    lost += page.expirations == 0;
  }
  done = 1;
  return unused;
}

int main(int argc, char** argv) {
  rounds = argc > 1 ? atoi(argv[1]) : 100;
  timer = timerfd_create(CLOCK_MONOTONIC, 0);
  const struct itimerspec interval = {{0, 3000000}, {0, 3000000}};
  pthread_t thread;
  if (timer < 0 || timerfd_settime(timer, 0, &interval, NULL) != 0) return 1;
  if (pthread_create(&thread, NULL, reader, NULL) != 0) return 1;
  unsigned stores = 0;
  int lost_stores = 0;
  while (!done) {
    for (int k = 0; k < STORES; k++, stores++) page.out[stores % STORES] = stores;
    for (unsigned k = 1; k <= STORES; k++)
      lost_stores += page.out[(stores - k) % STORES] != stores - k;
  }
  pthread_join(thread, NULL);
  printf("lost %d of the kernel's stores, %d of the thread's\n", lost, lost_stores);
  return lost != 0 || lost_stores != 0;
}

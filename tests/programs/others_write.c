// Two threads write parts of the same memory, one after the other: what each sees of the other's
// parts it has not looked at for long.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

enum { kRounds = 6 };

// Within one word, within one line, and in another page.
static struct {
  unsigned char mine, its;
  unsigned short both;
  int other;
  int far_in_line[8];
} shared;
static int progress[2048];
static int first_page, requested;
static sem_t go, done;

__attribute__((noinline)) void look(int round) { __asm__ volatile("" ::"r"(round) : "memory"); }
__attribute__((noinline)) void cleared(int round) { __asm__ volatile("" ::"r"(round) : "memory"); }
__attribute__((noinline)) void answer(int round) { __asm__ volatile("" ::"r"(round) : "memory"); }

static void* worker(void* argument) {
  pthread_setname_np(pthread_self(), "worker");
  for (int round = 1; round <= kRounds; round++) {
    sem_wait(&go);
    answer(round);
    shared.its = round;
    shared.both++;
    shared.far_in_line[7] = -round;
    progress[1500] = 10 * round;
    requested = round;
    sem_post(&done);
  }
  return argument;
}

int main(void) {
  pthread_t thread;
  sem_init(&go, 0, 0);
  sem_init(&done, 0, 0);
  progress[1400] = first_page = 1;  // the page is seen, and not again
  shared.other = 1;
  pthread_create(&thread, NULL, worker, NULL);
  for (int round = 1; round <= kRounds; round++) {
    shared.mine = round;
    shared.both++;
    sem_post(&go);
    sem_wait(&done);
    look(round);
    requested = 0;  // as it has seen it all the time
    cleared(round);
  }
  pthread_join(thread, NULL);
  printf("%d %d %d %d %d\n", shared.mine, shared.its, shared.both, shared.far_in_line[7],
         progress[1500]);
  return 0;
}

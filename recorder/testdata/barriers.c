// Four threads that wait for each other after each of fifty rounds over a table.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { kThreads = 4, kRounds = 50, kRows = 96 };

static double table[kRows][kRows];
static pthread_barrier_t barrier;

static void* work(void* number) {
  for (int round = 0; round < kRounds; round++) {
    for (int row = (int)(intptr_t)number; row < kRows; row += kThreads) {
      for (int i = 0; i < kRows; i++) table[row][i] += (round + row) * 0.5 + i;
    }
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  pthread_barrier_init(&barrier, NULL, kThreads);
  for (intptr_t i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, work, (void*)i);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  printf("%.17g\n", table[kRows - 1][kRows - 1]);
  return 0;
}

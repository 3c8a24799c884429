// Threads hand a table to each other by plain stores, and wait for their turn without a system
// call: spinning_turns [TURNS [THREADS]]. Each turn changes a few of its cells; stopped(TURN) is
// called after each of them, when the cells are what their last turns have made of them.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/programs/require.h"

#define MOST 8  // threads
#define CELLS 8
#define BYTES 2000  // of a cell: some share a page, some do not

struct Cell {
  int turn;
  char rest[BYTES - sizeof(int)];
};

struct Cell cells[CELLS];
static int turns = 100, threads = 2;
static int turn;

__attribute__((noinline)) void stopped(int number) {
  __asm__ volatile("" : : "r"(number) : "memory");
}

// Which cells turn `number` changes.
static int Changes(int number, int cell) { return (number * 7 + cell * 3) % 5 < 2; }

static void* TakeTurns(void* own) {
  for (int number = (int)(long)own; number <= turns; number += threads) {
    while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != number - 1) continue;
    for (int i = 0; i < CELLS; i++) {
      if (Changes(number, i)) cells[i].turn = number;
    }
    stopped(number);
    __atomic_store_n(&turn, number, __ATOMIC_RELEASE);
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc > 1) turns = atoi(argv[1]);
  if (argc > 2) threads = atoi(argv[2]);
  REQUIRE(threads >= 2 && threads <= MOST);
  pthread_t others[MOST];
  for (long i = 2; i <= threads; i++) {
    REQUIRE(pthread_create(&others[i - 1], NULL, &TakeTurns, (void*)i) == 0);
  }
  TakeTurns((void*)1);
  for (int i = 2; i <= threads; i++) REQUIRE(pthread_join(others[i - 1], NULL) == 0);
  long sum = 0;
  for (int i = 0; i < CELLS; i++) sum += cells[i].turn;
  printf("%d turns, %ld\n", turns, sum);
  return 0;
}

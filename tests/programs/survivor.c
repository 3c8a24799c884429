// Threads whose registers and memory always agree, or they say so: what one keeps in a register is
// in memory as well, at addresses all over. Each step makes a mess of a process that goes on with
// old registers on newer memory. Runs until its standard input ends. To be attached to by recorders
// that are killed.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/programs/require.h"

#define PLACES 64
#define STRIDE 5000

static atomic_int stop;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t shared[3 * 1024];  // three pages that are equal, element by element

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "survivor: %s\n", what);
  _exit(1);
}

static void* agrees(void* argument) {
  unsigned char* const memory = calloc(PLACES, STRIDE);
  uint64_t step = 0;
  double half = 0;
  while (!stop) {
    for (int i = 0; i < PLACES; i++) {
      uint64_t* const place = (uint64_t*)(memory + i * STRIDE);
      check(*place == step, "a register and memory differ");
      *place = step + 1;
    }
    step++;
    half += 0.5;
    check(half == step * 0.5, "a vector register and a general one differ");
    if (step % 4096 == 0) check(getppid() > 0, "getppid");
  }
  free(memory);
  return argument;
}

static void* locks(void* argument) {
  uint64_t own = 0;
  while (!stop) {
    pthread_mutex_lock(&mutex);
    const uint64_t at = own++ % 1024;
    const uint64_t value = shared[at];
    check(shared[at + 1024] == value && shared[at + 2048] == value, "pages differ");
    shared[at]++;
    shared[at + 2048]++;
    shared[at + 1024]++;
    pthread_mutex_unlock(&mutex);
  }
  *(uint64_t*)argument = own;
  return argument;
}

int main(void) {
  pthread_t threads[3];
  uint64_t rounds[2] = {0, 0};
  REQUIRE(pthread_create(&threads[0], NULL, agrees, NULL) == 0);
  REQUIRE(pthread_create(&threads[1], NULL, locks, &rounds[0]) == 0);
  REQUIRE(pthread_create(&threads[2], NULL, locks, &rounds[1]) == 0);
  puts("running");
  fflush(stdout);
  getchar();
  stop = 1;
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  uint64_t sum = 0;
  for (int i = 0; i < 1024; i++) sum += shared[i];
  check(sum == rounds[0] + rounds[1], "an increment was lost");
  puts("ended properly");
  return 0;
}

// Two threads hand a byte to each other through pipes, while others keep the processors busy: so
// they are interrupted anywhere. The descriptors are always the same.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/programs/require.h"

enum { kPingRead = 40, kPingWrite, kPongRead, kPongWrite };
static int rounds;
static atomic_int over;

static void make_pipe(int read_end, int write_end) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  REQUIRE(dup2(ends[0], read_end) == read_end && dup2(ends[1], write_end) == write_end);
  close(ends[0]);
  close(ends[1]);
}

static void* answer(void* unused) {
  char byte;
  for (int i = 0; i < rounds; i++) {
    REQUIRE(read(kPingRead, &byte, 1) == 1);
    REQUIRE(write(kPongWrite, &byte, 1) == 1);
  }
  return unused;
}

static void* burn(void* unused) {
  volatile unsigned long work = 0;
  while (!atomic_load_explicit(&over, memory_order_relaxed)) work++;
  return unused;
}

int main(int argc, char** argv) {
  rounds = argc > 1 ? atoi(argv[1]) : 1000;
  make_pipe(kPingRead, kPingWrite);
  make_pipe(kPongRead, kPongWrite);
  pthread_t other, burners[2];
  REQUIRE(pthread_create(&other, NULL, answer, NULL) == 0);
  for (int i = 0; i < 2; i++) REQUIRE(pthread_create(&burners[i], NULL, burn, NULL) == 0);
  unsigned sum = 0;
  for (int i = 0; i < rounds; i++) {
    char byte = (char)(i % 100);
    REQUIRE(write(kPingWrite, &byte, 1) == 1);
    REQUIRE(read(kPongRead, &byte, 1) == 1);
    sum += (unsigned)byte;
  }
  atomic_store(&over, 1);
  pthread_join(other, NULL);
  for (int i = 0; i < 2; i++) pthread_join(burners[i], NULL);
  printf("%u\n", sum);
  return 0;
}

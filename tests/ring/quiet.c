// A thread that records much and one that records little: "quiet ROUNDS". The busy one takes random
// bytes from the kernel, which no trace can compress, 64 KiB a round; after every 16 rounds it lets
// the quiet one count them, and waits until that is done. So all that Tick() sees is known from
// its argument, and from how often it was called.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#define PAGE __attribute__((aligned(4096)))
// Each has a page of its own.
static struct {
  volatile long value;
  char rest[4088];
} busy_rounds PAGE, unseen_rounds PAGE, quiet_ticks PAGE, quiet_sum PAGE;

static int go[2], done[2];

__attribute__((noinline)) void Tick(long n) {
  quiet_ticks.value = n;
  quiet_sum.value += busy_rounds.value;
  __asm__ volatile("" ::: "memory");
}

static void* Quiet(void* argument) {
  (void)argument;
  char byte;
  for (long n = 1; read(go[0], &byte, 1) == 1; ++n) {
    Tick(n);
    if (write(done[1], &byte, 1) != 1) abort();
  }
  return NULL;
}

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? atol(argv[1]) : 100;
  if (pipe(go) != 0 || pipe(done) != 0) return 2;
  pthread_t quiet;
  pthread_create(&quiet, NULL, &Quiet, NULL);
  static uint8_t bytes[64 << 10];
  uint64_t sum = 0;
  for (long round = 1; round <= rounds; ++round) {
    for (size_t got = 0; got < sizeof(bytes);) {
      const ssize_t more = getrandom(bytes + got, sizeof(bytes) - got, 0);
      if (more > 0) got += (size_t)more;
    }
    for (size_t i = 0; i < sizeof(bytes); i += 8) sum += bytes[i];
    busy_rounds.value = unseen_rounds.value = round;
    char byte = 0;
    if (round % 16 == 0 && (write(go[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1)) abort();
  }
  close(go[1]);
  pthread_join(quiet, NULL);
  printf("done %ld %ld %d\n", quiet_ticks.value, quiet_sum.value, (int)(sum & 1));
  return 0;
}

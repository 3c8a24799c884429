// Reads memory that another process, or with an argument another thread, changes all the time, by
// instructions of several kinds.

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 1000000

typedef long long Pair __attribute__((vector_size(16), may_alias));

static volatile uint64_t* words;

static volatile int stop;

static void* Change(void* unused) {
  while (!stop) {
    for (int i = 0; i < 8; ++i) {
      ++words[2 * i];
      __atomic_fetch_add(&words[2 * i + 1], 1, __ATOMIC_SEQ_CST);
    }
  }
  return unused;
}

static uint64_t Pop(volatile uint64_t* word) {
  uint64_t value;
  __asm__ volatile("pushq %1; popq %0" : "=r"(value) : "m"(*word));
  return value;
}

static uint64_t CopyString(volatile uint64_t* word) {
  uint64_t copy[2];
  void* to = copy;
  const volatile void* from = word;
  uint64_t count = 2;
  __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(count)::"memory");
  return copy[0] + copy[1];
}

static uint64_t Vector(volatile uint64_t* word) {
  const Pair pair = *(volatile Pair*)word;
  return (uint64_t)pair[0] + (uint64_t)pair[1];
}

int main(int argc, char** argv) {
  (void)argv;
  words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t child = 0;
  pthread_t thread;
  if (argc > 1) {
    pthread_create(&thread, NULL, Change, NULL);
  } else if ((child = fork()) == 0) {
    Change(NULL);
  }
  while (words[15] == 0) {
  }
  uint64_t sum = 0, backward = 0, last = 0;
  for (int i = 0; i < ROUNDS; ++i) {
    const uint64_t now = words[1];
    backward += now < last;
    last = now;
    sum += words[0] + Pop(&words[2]) + Vector(&words[4]);
    if (words[6] == (uint64_t)i) ++sum;
    sum += CopyString(&words[8]) + __atomic_fetch_add(&words[11], 1, __ATOMIC_SEQ_CST);
    words[12] ^= 1;
    __asm__ volatile("cmpq %1, %2; adcq %1, %0" : "+r"(sum) : "m"(words[14]), "r"(now) : "cc");
  }
  if (argc > 1) {
    stop = 1;
    pthread_join(thread, NULL);
  } else {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
  }
  printf("%d %d\n", sum != 0, (int)backward);
  return 0;
}

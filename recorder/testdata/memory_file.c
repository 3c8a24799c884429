// Memory that is in use all the time is written by other ways than stores and system calls'
// results.
//
//   memory_file self     by itself, through /proc/self/mem
//   memory_file child    by a child of its, through /proc/PID/mem
//   memory_file outside  by whoever reads its id and an address from its output, and stores a
//                        number other than 0 there
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 64

static _Alignas(4096) volatile unsigned memory[PAGES][1024];
static unsigned sum;

static volatile unsigned* word(int round) { return &memory[round % PAGES][round % 1024]; }

static void use(void) {
  for (int page = 0; page < PAGES; page++) sum += memory[page][0]++;
}

static int open_memory(int process) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/mem", process);
  const int file = open(path, O_RDWR);
  if (file < 0) exit(97);
  return file;
}

static void store(int file, int round) {
  const unsigned value = 1000 + round;
  if (pwrite(file, &value, sizeof(value), (intptr_t)word(round)) != sizeof(value)) exit(98);
}

static int by_itself(int rounds) {
  int lost = 0;
  const int file = open_memory(getpid());
  for (int i = 0; i < rounds; i++) {
    use();
    store(file, i);
    lost += *word(i) != 1000u + i;
  }
  return lost;
}

static int by_child(int rounds) {
  int ask[2], answer[2], lost = 0;
  char byte = 0;
  if (pipe(ask) != 0 || pipe(answer) != 0) exit(96);
  const int parent = getpid();
  if (fork() == 0) {
    close(ask[1]);
    const int file = open_memory(parent);
    for (int i = 0; read(ask[0], &byte, 1) == 1; i++) {
      store(file, i);
      if (write(answer[1], &byte, 1) != 1) _exit(95);
    }
    _exit(0);
  }
  for (int i = 0; i < rounds; i++) {
    use();
    if (write(ask[1], &byte, 1) != 1 || read(answer[0], &byte, 1) != 1) exit(94);
    lost += *word(i) != 1000u + i;
  }
  close(ask[1]);
  wait(NULL);
  return lost;
}

static int from_outside(void) {
  static _Alignas(4096) volatile unsigned flag[1024];
  use();
  sum += flag[0];  // in use before anybody knows of it
  printf("%d %p\n", getpid(), (void*)flag);
  fflush(stdout);
  for (int call = 0; call < 1000000; call++) {
    if (flag[0] != 0) return 0;
    getppid();
  }
  return 1;
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "self";
  if (strcmp(how, "outside") == 0) return from_outside();
  const int lost = strcmp(how, "child") == 0 ? by_child(100) : by_itself(100);
  printf("lost %d\n", lost);
  return lost != 0;
}

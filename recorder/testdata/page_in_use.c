// Two threads use different parts of one page at the same time: one waits in the kernel for bytes
// to be put into it, the other stores next to them without a pause. Neither may lose anything.
//
//   page_in_use ROUNDS
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES 64

static struct {
  _Alignas(4096) char in[READ_BYTES];  // the kernel stores here
  volatile unsigned out[900];          // the other thread here
} page;
static int ends[2];
static volatile int rounds_read;
static int lost;

static void* reader(void* rounds) {
  for (int i = 0; i < *(int*)rounds; i++) {
    if (read(ends[0], page.in, READ_BYTES) != READ_BYTES) _exit(98);
    // No call in between: what is in the page now is what this thread sees.
    for (int k = 0; k < READ_BYTES; k++) lost += page.in[k] != (char)(i + 1);
    rounds_read = i + 1;
  }
  return NULL;
}

int main(int argc, char** argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 100;
  pthread_t thread;
  if (pipe(ends) != 0 || pthread_create(&thread, NULL, reader, &rounds) != 0) return 1;
  unsigned stores = 0;
  int lost_stores = 0;
  for (int i = 0; i < rounds; i++) {
    for (int k = 0; k < 3000; k++, stores++) page.out[stores % 900] = stores;
    char bytes[READ_BYTES];
    memset(bytes, i + 1, sizeof(bytes));
    if (write(ends[1], bytes, sizeof(bytes)) != sizeof(bytes)) return 1;
    // The kernel stores the bytes about now.
    while (rounds_read <= i) page.out[stores % 900] = stores, stores++;
    for (unsigned k = 1; k <= 900; k++) lost_stores += page.out[(stores - k) % 900] != stores - k;
  }
  pthread_join(thread, NULL);
  printf("lost %d of the kernel's bytes, %d of the thread's\n", lost, lost_stores);
  return lost != 0 || lost_stores != 0;
}

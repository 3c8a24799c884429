// Prints its process id; then its second thread sleeps for ever, and its first computes, or with
// the argument "int80" sleeps in a system call made by int 0x80. For being killed.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void* sleep_for_ever(void* argument) {
  for (;;) pause();
  return argument;
}

int main(int argc, char** argv) {
  pthread_t thread;
  pthread_create(&thread, NULL, sleep_for_ever, NULL);
  printf("%d\n", (int)getpid());
  fflush(stdout);
  if (argc > 1 && strcmp(argv[1], "int80") == 0) {
    long result = 29;  // pause, in the numbering of 32-bit programs
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
  }
  for (volatile long i = 0;; i++) {
  }
}

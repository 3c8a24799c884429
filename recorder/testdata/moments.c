// Threads that notice a copy of their process being made, and memory that says what it was.
//
//   moments THREADS PAGES [withheld | wiped]
//
// Each thread writes a rising number into its pages, in order, again and again: at any moment a
// first part of them has a number, and the rest the one before. Two more look for children,
// descriptors and locks that are not theirs. Prints its pid and where the pages are; ends with its
// input. With a third argument the memory is such as children do not get, or get as zeros.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int stop;
static volatile int complaints;
static size_t pages;

static void complain(const char* what) {
  ++complaints;
  fprintf(stdout, "%s: errno %d\n", what, errno);
}

static void on_child(int signal) {
  (void)signal;
  ++complaints;
}

static void* write_pages(void* argument) {
  volatile uint64_t* memory = argument;
  for (uint64_t number = 1; !stop; ++number) {
    for (size_t i = 0; i < pages; ++i) memory[i * 512] = number;
  }
  return NULL;
}

static void* look_for_children(void* argument) {
  (void)argument;
  while (!stop) {
    int status;
    if (waitpid(-1, &status, __WALL) != -1 || errno != ECHILD) complain("a child");
  }
  return NULL;
}

static void* look_for_descriptors(void* argument) {
  const char* path = argument;
  while (!stop) {
    int fds[2];
    char byte;
    if (pipe2(fds, O_NONBLOCK) != 0) complain("pipe");
    usleep(100);
    close(fds[1]);
    if (read(fds[0], &byte, 1) != 0) complain("somebody else has the pipe");
    close(fds[0]);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (flock(file, LOCK_EX | LOCK_NB) != 0) complain("somebody else has the lock");
    usleep(100);
    close(file);
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int threads = atoi(argv[1]);
  pages = strtoul(argv[2], NULL, 10);
  signal(SIGCHLD, on_child);
  char path[] = "/tmp/moments-XXXXXX";
  close(mkstemp(path));
  pthread_t others[2], writers[64];
  uint8_t* memory[64];
  for (int i = 0; i < threads && i < 64; ++i) {
    memory[i] =
        mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const int advice = argc > 3 && strcmp(argv[3], "wiped") == 0 ? MADV_WIPEONFORK : MADV_DONTFORK;
    if (argc > 3) madvise(memory[i], pages * 4096, advice);
    pthread_create(&writers[i], NULL, write_pages, memory[i]);
  }
  pthread_create(&others[0], NULL, look_for_children, NULL);
  pthread_create(&others[1], NULL, look_for_descriptors, path);
  printf("%d", getpid());
  for (int i = 0; i < threads; ++i) printf(" %p", (void*)memory[i]);
  printf("\n");
  fflush(stdout);
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  stop = 1;
  for (int i = 0; i < threads; ++i) pthread_join(writers[i], NULL);
  for (int i = 0; i < 2; ++i) pthread_join(others[i], NULL);
  unlink(path);
  printf("complaints %d\n", complaints);
  return complaints != 0;
}

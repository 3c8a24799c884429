// A file is truncated under a page of it that was mapped privately and written to: the page is the
// file's again. By the program itself, in two ways, and by another process.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 32
static volatile char used[PAGES][4096];

static void use(void) {
  for (int i = 0; i < PAGES; i++) used[i][0]++;
}

static void cut_by_open(const char* path) { close(open(path, O_RDWR | O_TRUNC)); }

static void cut_by_child(const char* path) {
  if (fork() == 0) _exit(truncate(path, 0));
  wait(NULL);
}

static void cut_here(const char* path) {
  const int file = open(path, O_RDWR);
  if (ftruncate(file, 0) != 0) exit(98);
  close(file);
}

static void try(const char* path, const char* how, void (*cut)(const char*)) {
  const int file = open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, 4096) != 0) exit(97);
  volatile char* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  page[0] = 1;
  for (int i = 0; i < 5; i++) {
    use();
    getppid();
  }
  page[1] = 1;
  cut(path);
  if (ftruncate(file, 4096) != 0) exit(96);
  for (int i = 0; i < 3; i++) getppid();
  printf("%s: %d %d\n", how, page[0], page[1]);
  page[2] = 3;
  for (int i = 0; i < 3; i++) getppid();
  printf("%s: %d %d\n", how, page[0], page[2]);
  munmap((void*)page, 4096);
  close(file);
}

int main(int argc, char** argv) {
  if (argc != 2) return 95;
  try(argv[1], "ftruncate", cut_here);
  try(argv[1], "O_TRUNC", cut_by_open);
  try(argv[1], "another process", cut_by_child);
  unlink(argv[1]);
  return 0;
}

// Writes its own memory and code through /proc/self/mem, which needs no rights, and by
// process_vm_writev.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "require.h"

static int word = 5;
static char text[8192];

__attribute__((noinline, aligned(64))) static int answer(void) {
  int value;
  __asm__ volatile("mov $41, %0" : "=r"(value));
  return value;
}
static int (*volatile function)(void) = answer;

// The immediate of the mov.
static off_t place_of_value(void) {
  const unsigned char* code = (const unsigned char*)answer;
  for (int i = 0; i < 32; i++) {
    if (code[i] == 41) return (off_t)(code + i);
  }
  return 0;
}

static int sum(void) {
  int total = 0;
  for (int i = 0; i < 3; i++) total += function();
  return total;
}

static void* sum_in_thread(void* argument) {
  *(int*)argument = sum();
  return NULL;
}

static void show_sums(const char* when) {
  int other = 0;
  pthread_t thread;
  const int own = sum();
  REQUIRE(pthread_create(&thread, NULL, sum_in_thread, &other) == 0);
  pthread_join(thread, NULL);
  printf("%s: %d, in a thread %d\n", when, own, other);
}

static void write_data(int file) {
  int value = 7, got = 0;
  REQUIRE(pwrite(file, &value, sizeof(value), (off_t)&word) == sizeof(value));
  REQUIRE(pread(file, &got, sizeof(got), (off_t)&word) == sizeof(got));
  printf("word %d, read %d\n", word, got);
  char copy[16] = "HELLO WORLD";
  struct iovec local = {copy, 12}, remote = {text + 4090, 12};
  strcpy(text + 4090, "hello world");
  REQUIRE(process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == 12);
  printf("%s\n", text + 4090);
}

static void write_code(int file, off_t place) {
  unsigned char value = 42;
  show_sums("as linked");
  REQUIRE(pwrite(file, &value, 1, place) == 1);
  show_sums("pwrite");
  value = 43;
  REQUIRE(lseek(file, place, SEEK_SET) == place);
  REQUIRE(write(file, &value, 1) == 1);
  show_sums("write");
  value = 44;
  const struct iovec part = {&value, 1};
  REQUIRE(pwritev(file, &part, 1, place) == 1);
  show_sums("pwritev");
}

// Where it has come to says what was executed each time.
static void write_code_often(int file, off_t place) {
  unsigned total = 0;
  for (int i = 0; i < 200; i++) {
    const unsigned char value = (unsigned char)(i * 37);
    REQUIRE(pwrite(file, &value, 1, place) == 1);
    for (int k = 0; k < 3; k++) {
      total = total * 31 + (unsigned)function();
      __atomic_fetch_add(&word, 1, __ATOMIC_SEQ_CST);
      for (volatile unsigned left = total % 7; left > 0; left--) {
      }
    }
  }
  printf("often: %u, %d\n", total, word);
}

// In memory of its own, to which it gives no right to write any more.
static void write_made_code(int file) {
  unsigned char code[] = {0xb8, 1, 0, 0, 0, 0xc3};  // mov $1, %eax; ret
  unsigned char* made =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(made != MAP_FAILED);
  memcpy(made, code, sizeof(code));
  function = (int (*)(void))made;
  show_sums("made");
  code[1] = 10;
  struct iovec local = {code, sizeof(code)}, remote = {made, sizeof(code)};
  REQUIRE(process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == sizeof(code));
  show_sums("process_vm_writev");
  REQUIRE(mprotect(made, 4096, PROT_READ | PROT_EXEC) == 0);
  show_sums("not writable");
  code[1] = 100;
  REQUIRE(pwrite(file, code, sizeof(code), (off_t)made) == sizeof(code));
  show_sums("pwrite");
}

int main(void) {
  const int file = open("/proc/self/mem", O_RDWR);
  REQUIRE(file >= 0);
  write_data(file);
  const off_t place = place_of_value();
  write_code(file, place);
  write_code_often(file, place);
  write_made_code(file);
  return 0;
}

// Executes code that it makes: twice mapped, in shared memory, patched by another thread, and by
// itself a few instructions ahead of a branch.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALL (PROT_READ | PROT_WRITE | PROT_EXEC)
#define ROUNDS 2000

typedef int (*Function)(void);

// mov $value, %eax; ret
static void Write(unsigned char* place, int value) {
  const unsigned char code[] = {0xb8, value & 0xff, value >> 8, 0, 0, 0xc3};
  memcpy(place, code, sizeof(code));
}

static int Run(const void* place) { return ((Function)place)(); }

// Written through one mapping, executed through another.
static long Aliases(void) {
  const int file = memfd_create("code", 0);
  if (ftruncate(file, 8192) != 0) return -1;
  unsigned char* written = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  unsigned char* executed = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
  long sum = 0;
  for (int i = 0; i < ROUNDS; ++i) {
    const int at = i % 2 == 0 ? 64 : 4094;  // over the page's end
    Write(written + at, i);
    sum += Run(executed + at);
    if (i % 5 == 0) sum += Run(executed + at) + executed[at + 1];
  }
  return sum;
}

// The kernel writes it.
static long ReadFromPipe(void) {
  unsigned char* code = mmap(NULL, 4096, ALL, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int ends[2];
  if (pipe(ends) != 0) return -1;
  long sum = 0;
  for (int i = 0; i < 300; ++i) {
    unsigned char bytes[6];
    Write(bytes, i);
    if (write(ends[1], bytes, 6) != 6 || read(ends[0], code, 6) != 6) return -1;
    sum += Run(code);
  }
  return sum;
}

static unsigned char* patched;

static void* Patch(void* unused) {
  for (int i = 0; i < 200000; ++i) *(volatile unsigned char*)(patched + 1) = i % 2 == 0 ? 1 : 2;
  *(volatile unsigned char*)(patched + 1) = 9;
  return unused;
}

// Until the last patch is seen; before that only what was there before.
static int PatchedByAnother(void) {
  pthread_t thread;
  patched = mmap(NULL, 4096, ALL, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Write(patched, 1);
  pthread_create(&thread, NULL, Patch, NULL);
  int value, wrong = 0;
  while ((value = Run(patched)) != 9) wrong += value != 1 && value != 2;
  pthread_join(thread, NULL);
  return wrong;
}

// A loop whose body changes its own constant: add $n, %eax with n = 1, 2, ...
static int ChangesItself(void) {
  unsigned char* code = mmap(NULL, 4096, ALL, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const unsigned char loop[] = {
      0x31, 0xc0,                                // xor %eax, %eax
      0xb9, 0x64, 0,    0,    0,                 // mov $100, %ecx
      0x05, 0x01, 0,    0,    0,                 // add $1, %eax
      0xff, 0x05, 0xf6, 0xff, 0xff, 0xff,        // incl -10(%rip): of the constant
      0xff, 0xc9,                                // dec %ecx
      0x75, 0xf1,                                // jne to the add
      0xc6, 0x05, 0x01, 0x00, 0x00, 0x00, 0xb8,  // movb: of the next instruction's opcode
      0x0d, 0x07, 0,    0,    0,                 // or $7, %eax; becomes mov $7, %eax
      0xc3};
  memcpy(code, loop, sizeof(loop));
  return Run(code);
}

static long Flips(void) {
  unsigned char* code =
      mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  long sum = 0;
  for (int i = 0; i < 200; ++i) {
    mprotect(code, 8192, PROT_READ | PROT_WRITE);
    Write(code + i * 16, i);
    Write(code, i + 1);
    mprotect(code, 8192, PROT_READ | PROT_EXEC);
    for (int j = 0; j <= i; ++j) sum += Run(code + j * 16);
  }
  mprotect(code, 8192, ALL);
  for (int i = 0; i < 200; ++i) {
    Write(code, i);
    sum += Run(code);
  }
  return sum;
}

int main(void) {
  printf("aliases %ld\n", Aliases());
  printf("pipe %ld\n", ReadFromPipe());
  printf("itself %d\n", ChangesItself());
  printf("flips %ld\n", Flips());
  printf("another %d\n", PatchedByAnother());
  return 0;
}

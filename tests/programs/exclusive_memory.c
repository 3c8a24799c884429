// Memory that changes without the program's storing there: while the process has one thread and all
// memory to itself, then of a file that was just written, at the end by a second thread.
#define _GNU_SOURCE
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "require.h"

enum { kPage = 4096 };

// Two pages, of which the first has been used, with `filler`.
static char* pages(char filler) {
  char* memory = mmap(NULL, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  memset(memory, filler, 2 * kPage);
  return memory;
}

static void heap_given_back(void) {
  char* start = sbrk(4 * kPage);
  memset(start, 'a', 4 * kPage);
  REQUIRE(brk(start) == 0);
  REQUIRE(sbrk(4 * kPage) == start);
  printf("heap: %d %d\n", start[0], start[4 * kPage - 1]);
}

static void advice(void) {
  char* memory = pages('b');
  REQUIRE(madvise(memory, kPage, MADV_DONTNEED) == 0);
  printf("advice: %d %c\n", memory[10], memory[kPage]);
}

static void moved(void) {
  char* memory = pages('c');
  char* other = pages('d');
  REQUIRE(mremap(memory, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other);
  printf("moved: %c %c\n", other[5], other[kPage + 5]);
}

static void mapped_over(void) {
  char* memory = pages('e');
  REQUIRE(mmap(memory, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory);
  printf("mapped over: %d %c\n", memory[7], memory[kPage]);
}

static sigjmp_buf back;
static volatile sig_atomic_t faults;
static void on_fault(int signal) {
  (void)signal;
  faults++;
  siglongjmp(back, 1);
}

static void unreadable(void) {
  char* memory = pages('f');
  struct sigaction action = {.sa_handler = on_fault};
  sigaction(SIGSEGV, &action, NULL);
  REQUIRE(mprotect(memory, kPage, PROT_NONE) == 0);
  volatile char* at = memory;
  if (sigsetjmp(back, 1) == 0) printf("read %c\n", at[3]);
  REQUIRE(mprotect(memory, kPage, PROT_READ | PROT_WRITE) == 0);
  REQUIRE(munmap(memory + kPage, kPage) == 0);
  if (sigsetjmp(back, 1) == 0) printf("read %c\n", at[kPage]);
  printf("unreadable: %d %c\n", (int)faults, at[3]);
}

// Used, and not readable any more when the recording ends; some of it is given back to the kernel.
static void used_and_hidden(void) {
  char* memory = mmap(NULL, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  volatile char* at = memory;
  const int before = at[1] + at[kPage];
  at[5] = 3;
  REQUIRE(mprotect(memory, 2 * kPage, PROT_NONE) == 0);
  REQUIRE(mprotect(memory, 2 * kPage, PROT_READ) == 0);
  const int after = at[5] + at[2 * kPage];
  REQUIRE(madvise(memory + 2 * kPage, kPage, 21 /* MADV_PAGEOUT */) == 0);
  printf("hidden: %d %d %d\n", before, after, at[2 * kPage]);
  REQUIRE(mprotect(memory, 4 * kPage, PROT_NONE) == 0);
}

// The calls fail, after they have done a part.
static void in_part(void) {
  char* memory = pages('l');
  REQUIRE(munmap(memory + kPage, kPage) == 0);
  REQUIRE(madvise(memory, 3 * kPage, MADV_DONTNEED) == -1);
  printf("in part: %d\n", memory[5]);
  char* other = pages('m');
  REQUIRE(munmap(other + kPage, kPage) == 0);
  REQUIRE(mprotect(other, 3 * kPage, PROT_NONE) == -1);
  REQUIRE(mprotect(other, kPage, PROT_READ) == 0);
  printf("in part: %c\n", other[5]);
}

// A pipe's bytes, as far as there is memory for them: the read reports none of a part.
static void received_at_the_end(void) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  char* memory = pages('n');
  char* const limit = memory + 2 * kPage;
  REQUIRE(munmap(limit, kPage) == 0);
  REQUIRE(write(ends[1], memory, kPage) == kPage);
  memset(memory, 'o', 2 * kPage);
  REQUIRE(write(ends[1], memory, kPage) == kPage);
  memset(memory, 'p', 2 * kPage);
  const ssize_t got = read(ends[0], limit - kPage - 100, 2 * kPage);
  printf("received at the end: %zd %c %c %c\n", got, limit[-kPage - 1], limit[-50], limit[-1]);
}

static volatile unsigned work;
static void work_on(void) {
  for (int i = 0; i < 100000; i++) work = work * 3 + 1;
}

// Segments begin while it can only be executed, or not even that.
static void hidden_for_long(void) {
  char* memory = pages('q');
  REQUIRE(mprotect(memory, kPage, PROT_NONE) == 0);
  work_on();
  REQUIRE(mprotect(memory, kPage, PROT_READ) == 0);
  printf("hidden for long: %c\n", memory[5]);
  REQUIRE(mprotect(memory, kPage, PROT_EXEC) == 0);
  work_on();
  REQUIRE(mprotect(memory, kPage, PROT_READ) == 0);
  printf("hidden for long: %c\n", memory[6]);
}

static char file_name[] = "exclusive_memory.XXXXXX";

static void file_written(void) {
  const int file = mkstemp(file_name);
  REQUIRE(file >= 0 && ftruncate(file, 2 * kPage) == 0);
  REQUIRE(pwrite(file, "before", 6, 100) == 6);
  const char* shown = mmap(NULL, 2 * kPage, PROT_READ, MAP_PRIVATE, file, 0);
  REQUIRE(shown != MAP_FAILED);
  printf("file: %.6s", shown + 100);
  REQUIRE(pwrite(file, "after!", 6, 100) == 6);
  printf(" %.6s\n", shown + 100);
  REQUIRE(unlink(file_name) == 0);
}

// Of a file that nobody has written for a while.
static void file_at_rest(void) {
  const int file = mkstemp(file_name);
  REQUIRE(file >= 0 && ftruncate(file, 2 * kPage) == 0);
  REQUIRE(pwrite(file, "before", 6, 100) == 6);
  sleep(5);
  const char* shown = mmap(NULL, 2 * kPage, PROT_READ, MAP_PRIVATE, file, 0);
  char* own = mmap(NULL, 2 * kPage, PROT_READ, MAP_PRIVATE, file, 0);
  REQUIRE(shown != MAP_FAILED && own != MAP_FAILED);
  printf("at rest: %.6s %.6s", shown + 100, own + 100);
  REQUIRE(pwrite(file, "after!", 6, 100) == 6);
  printf(" %.6s %.6s", shown + 100, own + 100);
  REQUIRE(mprotect(own, kPage, PROT_READ | PROT_WRITE) == 0);
  own[100] = 'A';
  REQUIRE(pwrite(file, "at all", 6, 100) == 6);
  printf(" %.6s %.6s", shown + 100, own + 100);
  const int child = fork();
  if (child == 0) _exit(pwrite(file, "others", 6, kPage) != 6);
  REQUIRE(waitpid(child, NULL, 0) == child);
  printf(" %.6s\n", shown + kPage);
  REQUIRE(unlink(file_name) == 0);
}

static void own_memory_written(void) {
  char* memory = pages('g');
  struct iovec from = {"remote", 6}, to = {memory + 20, 6};
  REQUIRE(process_vm_writev(getpid(), &from, 1, &to, 1, 0) == 6);
  printf("vm_writev: %.6s\n", memory + 20);
}

static int child_of_vfork_stores(void* argument) {
  strcpy(argument, "child's");
  _exit(0);
}

static void child_stores(void) {
  char* memory = pages('h');
  int status;
  const pid_t child = clone(child_of_vfork_stores, memory + 2 * kPage,
                            CLONE_VM | CLONE_VFORK | SIGCHLD, memory + kPage + 8);
  REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
  printf("vfork: %.7s %d\n", memory + kPage + 8, WEXITSTATUS(status));
}

static void child_number(void) {
  pid_t number = -1;
  const pid_t child = syscall(SYS_clone, CLONE_PARENT_SETTID | SIGCHLD, NULL, &number, NULL, 0);
  if (child == 0) _exit(7);
  printf("parent's number: %d\n", number == child);
  REQUIRE(waitpid(child, NULL, 0) == child);
}

// The struct lies across two pages.
static void across_pages(void) {
  char* memory = pages('i');
  struct flock* lock = (struct flock*)(memory + kPage - 4);
  memset(lock, 0, sizeof(*lock));
  FILE* file = tmpfile();
  struct flock write_lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = 5};
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    REQUIRE(fcntl(fileno(file), F_SETLK, &write_lock) == 0 && write(ends[1], "x", 1) == 1);
    pause();
  }
  char got;
  REQUIRE(read(ends[0], &got, 1) == 1);
  lock->l_type = F_RDLCK;
  REQUIRE(fcntl(fileno(file), F_GETLK, lock) == 0);
  printf("lock: %d %d %d\n", lock->l_type == F_WRLCK, (int)lock->l_start, lock->l_pid == child);
  kill(child, SIGKILL);
  REQUIRE(waitpid(child, NULL, 0) == child);
}

// Stored where a struct points to.
static void nested(void) {
  struct ifreq* requests = (struct ifreq*)pages(0);
  strcpy(requests->ifr_name, "?");
  struct ifconf list = {.ifc_len = sizeof(*requests) * 8, .ifc_req = requests};
  const int file = socket(AF_INET, SOCK_DGRAM, 0);
  if (file < 0 || ioctl(file, SIOCGIFCONF, &list) != 0) {
    printf("interfaces: unknown\n");
    return;
  }
  const char* wanted = list.ifc_len == 0 ? "?" : requests->ifr_name;
  printf("interfaces: %d\n", (list.ifc_len == 0) == (strcmp(wanted, "?") == 0));
}

static void received(void) {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  char* memory = pages('j');
  struct iovec parts[2] = {{memory + kPage - 2, 3}, {memory + 40, 4}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  REQUIRE(write(ends[0], "message", 7) == 7);
  REQUIRE(recvmsg(ends[1], &message, 0) == 7);
  printf("received: %.3s %.4s\n", memory + kPage - 2, memory + 40);
}

// The kernel changes what the clock is read from.
static void clock_goes_on(void) {
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < 30000000);
  printf("clock: goes on\n");
}

static void flags_and_locks(void) {
  unsigned long flags;
  _Atomic long counter = 1;
  long* word = (long*)pages(0);
  for (int i = 0; i < 1000; i++) {
    atomic_fetch_add(&counter, i);
    __asm__ volatile("stc; pushfq; popfq; sbb %0, %0" : "=r"(flags) : : "cc", "memory");
    *word += flags != 0;
  }
  printf("flags: %ld %ld\n", (long)counter, *word);
}

static _Atomic int turn;
static char* shared;
static void* other_thread(void* argument) {
  for (int i = 0; i < 1000; i++) {
    while (atomic_load(&turn) != 1) sched_yield();
    shared[i % kPage] = (char)('a' + i % 26);
    shared[kPage] = shared[i % kPage];
    atomic_store(&turn, 0);
  }
  return argument;
}

static void threads(void) {
  shared = pages('k');
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, other_thread, NULL) == 0);
  int right = 0;
  for (int i = 0; i < 1000; i++) {
    atomic_store(&turn, 1);
    while (atomic_load(&turn) != 0) sched_yield();
    right += shared[i % kPage] == 'a' + i % 26 && shared[kPage] == 'a' + i % 26;
  }
  REQUIRE(pthread_join(thread, NULL) == 0);
  printf("threads: %d\n", right);
}

int main(int count, char** arguments) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (count > 1 && strcmp(arguments[1], "rest") == 0) {
    file_at_rest();
    return 0;
  }
  heap_given_back();
  advice();
  moved();
  mapped_over();
  unreadable();
  used_and_hidden();
  hidden_for_long();
  in_part();
  received_at_the_end();
  own_memory_written();
  child_stores();
  child_number();
  across_pages();
  nested();
  received();
  clock_goes_on();
  flags_and_locks();
  file_written();
  threads();
  return 0;
}

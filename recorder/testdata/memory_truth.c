// Changes memory in all the ways there are, and stops after each so that somebody outside can look.
//
//   memory_truth SEED ROUNDS REQUESTS ANSWERS FILE
//
// After each change a request (struct Request) goes into the FIFO REQUESTS, and a byte is read from
// the FIFO ANSWERS: while that read waits, no thread of the process changes anything. FILE is a
// data file to map and to change.
#define _GNU_SOURCE
#include "recorder/testdata/memory_truth.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define PAGE 4096ul
#define REGION_PAGES 16
#define REGIONS 8

int never[4 * 1024];            // nobody ever touches it
static char in_bss[32 * PAGE];  // touched here and there
static char in_data[4 * PAGE] = {1, 2, 3};

static struct Region regions[REGIONS + 6];
static int region_count;
static struct Region* file_private;  // read only
static int requests, answers, data_file;
static uint64_t state;
static char* shared;  // with children

uint64_t random_below(uint64_t bound) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (state >> 11) % bound;
}

char* place(size_t size) {
  const struct Region* region = &regions[random_below(region_count)];
  return region->start + random_below(region->size - size);
}

static void show(int what) {
  const struct Request request = {getpid(), gettid(), answers, what};
  REQUIRE(write(requests, &request, sizeof(request)) == sizeof(request));
  char answer;
  REQUIRE(read(answers, &answer, 1) == 1);
}

static void* map(void* at, size_t size, int flags) {
  void* start = mmap(at, size, PROT_READ | PROT_WRITE, flags, -1, 0);
  REQUIRE(start != MAP_FAILED);
  return start;
}

static struct Region* add_region(char* start, size_t size, int kind) {
  regions[region_count] = (struct Region){start, size, kind};
  return &regions[region_count++];
}

static void store(void) {
  const size_t size = 1 + random_below(300);
  memset(place(size), (int)random_below(256), size);
}

// A region of the program's own to map anew, or NULL.
static struct Region* mapped_region(void) {
  struct Region* region = &regions[random_below(region_count)];
  return region->kind == ANONYMOUS ? region : NULL;
}

static void map_again(void) {
  struct Region* region = mapped_region();
  if (region == NULL) return;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  switch (random_below(3)) {
    case 0:
      REQUIRE(munmap(region->start, region->size) == 0);
      map(region->start, region->size, flags);
      break;
    case 1:
      map(region->start, region->size, flags);
      break;
    default:
      map(region->start + 4 * PAGE, 3 * PAGE, flags);
      break;
  }
}

static void remap(void) {
  struct Region* region = mapped_region();
  if (region == NULL) return;
  const size_t bigger = region->size + (1 + random_below(8)) * PAGE;
  if (bigger > 64 * PAGE) return;
  char* moved = mremap(region->start, region->size, bigger, MREMAP_MAYMOVE);
  REQUIRE(moved != MAP_FAILED);
  *region = (struct Region){moved, bigger, ANONYMOUS};
}

static void advise(void) {
  static const int kAdvice[] = {MADV_DONTNEED, MADV_DONTNEED, MADV_FREE, MADV_WILLNEED, MADV_COLD};
  struct Region* region = mapped_region();
  if (region == NULL) return;
  const uint64_t first = random_below(REGION_PAGES - 4);
  REQUIRE(madvise(region->start + first * PAGE, (1 + random_below(4)) * PAGE,
                  kAdvice[random_below(5)]) == 0);
}

static void protect(void) {
  struct Region* region = mapped_region();
  if (region == NULL) return;
  REQUIRE(mprotect(region->start, region->size, PROT_NONE) == 0);
  show(PROTECTED);
  REQUIRE(mprotect(region->start, region->size, PROT_READ | PROT_WRITE) == 0);
}

static void move_break(void) {
  static int grown;
  if (grown > 0 && random_below(2) == 0) {
    REQUIRE(sbrk(-(intptr_t)(2 * PAGE)) != (void*)-1);
    --grown;
    return;
  }
  char* start = sbrk(2 * PAGE);
  REQUIRE(start != (void*)-1);
  ++grown;
  if (random_below(2) == 0) start[random_below(2 * PAGE)] = 1;
}

static void write_file(void) {
  char bytes[200];
  const size_t size = 1 + random_below(sizeof(bytes));
  memset(bytes, (int)random_below(256), size);
  REQUIRE(pwrite(data_file, bytes, size, (off_t)random_below(4 * PAGE)) == (ssize_t)size);
}

static void on_signal(int number) { in_bss[random_below(sizeof(in_bss))] += (char)number; }

// The kernel writes a frame of some thousand bytes; the handler touches some of it.
static void signal_here(void) {
  struct Region* region = mapped_region();
  stack_t stack = {.ss_sp = region == NULL ? NULL : region->start,
                   .ss_size = region == NULL ? 0 : region->size,
                   .ss_flags = region == NULL ? SS_DISABLE : 0};
  REQUIRE(sigaltstack(&stack, NULL) == 0);
  REQUIRE(raise(SIGUSR1) == 0);
  stack.ss_flags = SS_DISABLE;
  REQUIRE(sigaltstack(&stack, NULL) == 0);
}

static void spawn(void) {
  pid_t child;
  char* const arguments[] = {"/bin/true", NULL};
  REQUIRE(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0);
  REQUIRE(waitpid(child, NULL, 0) == child);
}

static void change(int depth);

// Looks at what it has from its parent, changes it, and writes to its parent's memory.
static void child_does(void) {
  show(FORKED);
  for (int i = 0; i < 3; i++) {
    change(1);
    show(IN_CHILD);
  }
  shared[random_below(2 * PAGE)]++;
  char bytes[64];
  memset(bytes, (int)random_below(256), sizeof(bytes));
  struct iovec local = {bytes, sizeof(bytes)}, remote = {place(sizeof(bytes)), sizeof(bytes)};
  REQUIRE(process_vm_writev(getppid(), &local, 1, &remote, 1, 0) == sizeof(bytes));
  _exit(0);
}

static void fork_child(void) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) child_does();
  REQUIRE(waitpid(child, NULL, 0) == child);
}

static void change(int depth) {
  const uint64_t choice = random_below(100);
  if (choice < 25) {
    store();
  } else if (choice < 70) {
    call_kernel();
  } else if (choice < 76) {
    map_again();
  } else if (choice < 79) {
    remap();
  } else if (choice < 84) {
    advise();
  } else if (choice < 86) {
    protect();
  } else if (choice < 88) {
    move_break();
  } else if (choice < 90) {
    write_file();
  } else if (choice < 94) {
    signal_here();
  } else if (choice < 98 || depth > 0) {
    (void)*(volatile char*)(file_private->start + random_below(file_private->size));
  } else if (choice < 99) {
    fork_child();
  } else {
    spawn();
  }
}

// A second thread that makes changes when told.
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static int turn;  // 0: of the first thread

static void wait_for(int mine) {
  pthread_mutex_lock(&mutex);
  while (turn != mine) pthread_cond_wait(&told, &mutex);
  pthread_mutex_unlock(&mutex);
}

static void give_turn(int next) {
  pthread_mutex_lock(&mutex);
  turn = next;
  pthread_cond_broadcast(&told);
  pthread_mutex_unlock(&mutex);
}

static void* second(void* unused) {
  while (1) {
    wait_for(1);
    change(0);
    if (random_below(2) == 0) show(IN_THREAD);
    give_turn(0);
  }
  return unused;
}

static void* short_life(void* unused) {
  char bytes[3 * PAGE];
  memset(bytes + random_below(PAGE), 7, 100);
  change(0);
  return unused;
}

static void start_thread_that_ends(void) {
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, short_life, NULL) == 0);
  REQUIRE(pthread_join(thread, NULL) == 0);
}

static void make_regions(const char* file) {
  for (int i = 0; i < REGIONS; i++) {
    char* at = (char*)(0x10000000 + i * 0x100000ul);
    add_region(map(at, REGION_PAGES * PAGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED),
               REGION_PAGES * PAGE, ANONYMOUS);
  }
  add_region(in_bss, sizeof(in_bss), FIXED);
  add_region(in_data, sizeof(in_data), FIXED);
  add_region(malloc(24 * PAGE), 24 * PAGE, FIXED);
  add_region(malloc(200 * PAGE), 200 * PAGE, FIXED);
  shared = map(NULL, 2 * PAGE, MAP_SHARED | MAP_ANONYMOUS);
  add_region(shared, 2 * PAGE, FIXED);
  data_file = open(file, O_RDWR);
  REQUIRE(data_file >= 0);
  char* copy = mmap(NULL, 6 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, data_file, 0);
  REQUIRE(copy != MAP_FAILED);
  add_region(copy, 4 * PAGE, FIXED);
  // What it holds never changes: this program is executed.
  static struct Region program;
  const int self = open("/proc/self/exe", O_RDONLY);
  program.size = 4 * PAGE;
  program.start = mmap(NULL, program.size, PROT_READ, MAP_PRIVATE, self, 0);
  REQUIRE(program.start != MAP_FAILED);
  file_private = &program;
  REQUIRE(close(self) == 0);
}

int main(int argc, char** argv) {
  REQUIRE(argc == 6);
  state = 0x9e3779b97f4a7c15ul * (strtoul(argv[1], NULL, 0) + 1);
  const int rounds = atoi(argv[2]);
  requests = open(argv[3], O_WRONLY);
  answers = open(argv[4], O_RDONLY);
  REQUIRE(requests >= 0 && answers >= 0);
  make_regions(argv[5]);
  prepare_calls();
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
  show(BEGIN);
  pthread_t thread;
  for (int i = 0; i < rounds; i++) {
    if (i == rounds / 3) REQUIRE(pthread_create(&thread, NULL, second, NULL) == 0);
    if (i == rounds / 3 || (i > rounds / 3 && random_below(3) == 0)) {
      give_turn(1);
      wait_for(0);
    } else if (i > rounds / 3 && random_below(40) == 0) {
      start_thread_that_ends();
    } else {
      change(0);
    }
    // Pages that nobody uses are looked at less and less.
    for (uint64_t k = random_below(8); k > 0; k--) getppid();
    show(IN_MAIN);
  }
  return never[0];
}

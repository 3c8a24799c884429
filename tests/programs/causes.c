// One thread, or process, causes in ever new ways what another one notices, while two others keep
// the processors busy: so they are interrupted anywhere. Descriptors and addresses tell the checker
// (tests/order_test.cc) which call caused what.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

enum { kEvent = 50, kEventBack, kSocket, kSocketBack, kClosed, kEnding, kExecuted };
static int rounds;
static atomic_int over, turn, noticed;

static void put(int descriptor, int at) {
  REQUIRE(dup2(descriptor, at) == at);
  close(descriptor);
}

static void* burn(void* unused) {
  while (!atomic_load_explicit(&over, memory_order_relaxed)) __builtin_ia32_pause();
  return unused;
}

// The notice of round `i`, without a call.
static void await(atomic_int* what, int i) {
  while (atomic_load(what) < i) __builtin_ia32_pause();
}

static void* answer_events(void* unused) {
  uint64_t value;
  for (int i = 0; i < rounds; i++) {
    REQUIRE(read(kEvent, &value, 8) == 8 && write(kEventBack, &value, 8) == 8);
  }
  return unused;
}

static void events(void) {
  uint64_t value = 1;
  for (int i = 0; i < rounds; i++) {
    REQUIRE(write(kEvent, &value, 8) == 8 && read(kEventBack, &value, 8) == 8);
  }
}

static void* answer_messages(void* unused) {
  char byte;
  for (int i = 0; i < rounds; i++) {
    REQUIRE(recv(kSocketBack, &byte, 1, 0) == 1 && send(kSocketBack, &byte, 1, 0) == 1);
  }
  return unused;
}

static void messages(void) {
  char byte = 0;
  for (int i = 0; i < rounds; i++) {
    REQUIRE(send(kSocket, &byte, 1, 0) == 1 && recv(kSocket, &byte, 1, 0) == 1);
  }
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER, back = PTHREAD_COND_INITIALIZER;
static int condition_turn;

static void take_turns(int own, pthread_cond_t* mine, pthread_cond_t* others) {
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < rounds; i++) {
    while (condition_turn % 2 != own) pthread_cond_wait(mine, &mutex);
    condition_turn++;
    pthread_cond_signal(others);
  }
  pthread_mutex_unlock(&mutex);
}

static void* answer_conditions(void* unused) {
  take_turns(1, &back, &condition);
  return unused;
}

static void conditions(void) { take_turns(0, &condition, &back); }

static void on_user_signal(int signal) {
  (void)signal;
  atomic_fetch_add(&noticed, 1);
}

static void* be_signalled(void* unused) {
  atomic_store(&turn, 1);
  while (atomic_load(&noticed) < rounds) usleep(50);
  return unused;
}

static void signals(pthread_t to) {
  await(&turn, 1);
  for (int i = 1; i <= rounds; i++) {
    REQUIRE(pthread_kill(to, SIGUSR1) == 0);
    await(&noticed, i);
  }
}

static char* volatile page;
static sigjmp_buf gone;

static void on_fault(int signal) {
  (void)signal;
  siglongjmp(gone, 1);
}

static void* touch(void* unused) {
  for (volatile int i = 1; i <= rounds; i++) {
    await(&turn, i);
    if (sigsetjmp(gone, 1) == 0) {
      while (page[0] == 0) __builtin_ia32_pause();
    }
    atomic_store(&noticed, i);
  }
  return unused;
}

static void unmappings(void) {
  for (int i = 1; i <= rounds; i++) {
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(page != MAP_FAILED);
    atomic_store(&turn, i);
    for (volatile int wait = 0; wait < 100; wait++) __builtin_ia32_pause();
    REQUIRE(munmap(page, 4096) == 0);
    await(&noticed, i);
  }
}

static char path[64];

static void* look(void* unused) {
  for (int i = 1; i <= 2 * rounds; i++) {
    while ((access(path, F_OK) == 0) != (i % 2 == 1)) continue;
    atomic_store(&noticed, i);
  }
  return unused;
}

static void unlinkings(void) {
  for (int i = 1; i <= 2 * rounds; i += 2) {
    const int file = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
    REQUIRE(file >= 0);
    await(&noticed, i);
    REQUIRE(unlink(path) == 0);
    await(&noticed, i + 1);
    close(file);
  }
}

static void* await_end(void* unused) {
  char byte;
  for (int i = 1; i <= rounds; i++) {
    await(&turn, i);
    REQUIRE(read(kEnding, &byte, 1) == 0);
    atomic_store(&noticed, i);
  }
  return unused;
}

static void closings(void) {
  for (int i = 1; i <= rounds; i++) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    put(ends[0], kEnding);
    put(ends[1], kClosed);
    atomic_store(&turn, i);
    close(kClosed);
    await(&noticed, i);
  }
}

// The last end of the pipe is closed when the program is executed.
static void processes(void) {
  for (int i = 0; i < rounds / 10; i++) {
    int ends[2], status;
    char byte;
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    REQUIRE(dup3(ends[0], kExecuted, O_CLOEXEC) == kExecuted);
    const pid_t child = fork();
    if (child == 0) {
      execl("/proc/self/exe", "causes", "0", NULL);
      _exit(1);
    }
    close(ends[1]);
    REQUIRE(read(kExecuted, &byte, 1) == 0);
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    close(ends[0]);
  }
}

static void with(void* (*other)(void*), void (*own)(void)) {
  atomic_store(&turn, 0);
  atomic_store(&noticed, 0);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, other, NULL) == 0);
  if (own != NULL) own();
  if (own == NULL) signals(thread);
  REQUIRE(pthread_join(thread, NULL) == 0);
}

int main(int argc, char** argv) {
  rounds = argc > 1 ? atoi(argv[1]) : 100;
  if (rounds == 0) return 0;
  int sockets[2];
  put(eventfd(0, 0), kEvent);
  put(eventfd(0, 0), kEventBack);
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  put(sockets[0], kSocket);
  put(sockets[1], kSocketBack);
  snprintf(path, sizeof(path), "/tmp/causes.%d", getpid());
  signal(SIGUSR1, on_user_signal);
  signal(SIGSEGV, on_fault);
  pthread_t burners[2];
  for (int i = 0; i < 2; i++) REQUIRE(pthread_create(&burners[i], NULL, burn, NULL) == 0);
  with(answer_events, events);
  with(answer_messages, messages);
  with(answer_conditions, conditions);
  with(be_signalled, NULL);
  with(touch, unmappings);
  with(look, unlinkings);
  with(await_end, closings);
  processes();
  atomic_store(&over, 1);
  for (int i = 0; i < 2; i++) pthread_join(burners[i], NULL);
  puts("done");
  return 0;
}

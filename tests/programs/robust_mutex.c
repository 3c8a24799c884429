// Threads and a process die holding robust mutexes; the next owner gets an error.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

static struct {
  pthread_mutex_t mutex;
  int value;
} * shared;

static void* dies(void* argument) {
  REQUIRE(pthread_mutex_lock(&shared->mutex) == 0);
  shared->value = -1;  // half done
  return argument;
}

static void* waits(void* argument) {
  const int result = pthread_mutex_lock(&shared->mutex);
  if (result == EOWNERDEAD) {
    shared->value = 1;
    pthread_mutex_consistent(&shared->mutex);
  }
  pthread_mutex_unlock(&shared->mutex);
  return (void*)(long)result;
}

static const char* name(long error) {
  return error == 0 ? "fine" : error == EOWNERDEAD ? "owner died" : "other";
}

int main(void) {
  shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  REQUIRE(pthread_mutex_init(&shared->mutex, &attributes) == 0);

  pthread_t thread;
  void* result;
  pthread_create(&thread, NULL, dies, NULL);
  pthread_join(thread, NULL);
  for (int i = 0; i < 2; i++) {
    pthread_create(&thread, NULL, waits, NULL);
    pthread_join(thread, &result);
    printf("after a thread: %s, value %d\n", name((long)result), shared->value);
  }

  // A process that waits for the mutex while its owner, another process, ends.
  int fds[2];
  REQUIRE(pipe(fds) == 0);
  const pid_t child = fork();
  if (child == 0) {
    pthread_mutex_lock(&shared->mutex);
    shared->value = -2;
    if (write(fds[1], "x", 1) != 1) _exit(1);
    const struct timespec moment = {0, 5000000};
    nanosleep(&moment, NULL);  // the parent is probably waiting by now
    _exit(0);
  }
  char byte;
  REQUIRE(read(fds[0], &byte, 1) == 1);
  printf("after a process: %s", name((long)waits(NULL)));
  printf(", value %d\n", shared->value);
  waitpid(child, NULL, 0);

  pthread_create(&thread, NULL, dies, NULL);
  pthread_join(thread, NULL);
  REQUIRE(pthread_mutex_lock(&shared->mutex) == EOWNERDEAD);
  pthread_mutex_unlock(&shared->mutex);  // not made consistent
  printf("given up: %s\n",
         pthread_mutex_lock(&shared->mutex) == ENOTRECOVERABLE ? "not recoverable" : "other");
  return 0;
}

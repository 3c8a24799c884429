// thread_ends HOW: one thread ends the process while others loop, sleep, wait, compute and change
// the map. HOW may be a signal's number: then the process dies of that.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long turns;
static const char* how;

static void* Loop(void* argument) {
  while (1) ++turns;
}

static void* Sleep(void* argument) {
  while (1) sleep(100);
}

static void* Wait(void* argument) {
  pthread_mutex_lock(&mutex);
  return NULL;
}

static void* Compute(void* argument) {
  char text[64];
  for (unsigned long i = 0;; ++i) snprintf(text, sizeof(text), "%lu", i);
}

static void* Map(void* argument) {
  while (1) {
    void* memory = malloc(200000);
    memset(memory, 1, 200000);
    free(memory);
  }
}

static void* End(void* argument) {
  usleep(3000);
  if (strcmp(how, "exit") == 0) exit(5);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "fault") == 0) *(volatile int*)8 = 1;
  if (strcmp(how, "exec") == 0) execl("/bin/echo", "echo", "replaced", (char*)NULL);
  if (atoi(how) != 0) kill(getpid(), atoi(how));
  return NULL;
}

int main(int argc, char** argv) {
  how = argv[1];
  void* (*const others[])(void*) = {Loop, Sleep, Wait, Compute, Map};
  pthread_t thread;
  pthread_mutex_lock(&mutex);
  puts("begin");
  fflush(stdout);
  const int count = strcmp(how, "last") == 0 ? 0 : 5;
  for (int i = 0; i < count; ++i) pthread_create(&thread, NULL, others[i], NULL);
  pthread_create(&thread, NULL, End, NULL);
  if (strcmp(how, "exec") == 0) pause();
  syscall(SYS_exit, 3);
}

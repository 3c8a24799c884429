// One thread makes 20,000 system calls and little else, the other one computes meanwhile.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int done;

static void* calls(void* unused) {
  for (int i = 0; i < 20000; i++) syscall(SYS_getppid);
  atomic_store(&done, 1);
  return unused;
}

int main(void) {
  pthread_t thread;
  volatile unsigned long work = 0;
  pthread_create(&thread, NULL, calls, NULL);
  while (!atomic_load(&done)) work++;
  pthread_join(thread, NULL);
  puts("done");
  return 0;
}

// writes_out FILE: what it reads of FILE it writes to /dev/null, and looks at none of it. With a
// signal and a thread.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static _Alignas(4096) char page[4096];
static volatile long work;

static void Require(int condition) {
  if (!condition) abort();
}

static void Work(void) {
  for (int i = 0; i < 100000; i++) work += i;
}

static void OnSignal(int signal) { page[signal] = 1; }

static void* Other(void* nothing) {
  Work();
  return nothing;
}

int main(int argc, char** argv) {
  Require(argc == 2);
  const int in = open(argv[1], O_RDONLY), out = open("/dev/null", O_WRONLY);
  page[0] = 1;
  Require(read(in, page + 1024, 64) == 64);
  page[1] = 2;
  Require(write(out, page + 1024, 64) == 64);
  signal(SIGUSR1, OnSignal);
  raise(SIGUSR1);
  Work();
  pthread_t other;
  Require(pthread_create(&other, NULL, Other, NULL) == 0);
  Require(pthread_join(other, NULL) == 0);
  Work();
  return 7;
}

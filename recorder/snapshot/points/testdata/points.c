// Does what its arguments say, one after the other, and writes each to standard output afterwards.
//
//   call=LABEL, if=NUMBER, assert=NUMBER
//   point=LEVEL,CLASS,ID,ONCE[,KEY,VALUE]
//   threads=N      N threads call snapshot "thread" once each
//   loop=N         the next argument N times
//   fork           the rest in a child of fork, and again when it has ended
//   exec           the rest in this program, executed anew
//   signals        from now on SIGALRM's handler calls snapshot "handler", every 5 ms
//   errno          ends with 3 unless a point leaves errno alone
//   ruin=SEED      writes random bytes over the control file, and at its size, between points

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libhindsight/control.h"
#include "libhindsight/hindsight.h"

static void* Snap(void* unused) {
  hs_snapshot("thread");
  return unused;
}

static void Threads(int count) {
  pthread_t threads[256];
  for (int i = 0; i < count; ++i) pthread_create(&threads[i], NULL, Snap, NULL);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
}

static void PointOf(char* text) {
  char* part[6] = {text};
  for (int i = 1; i < 6 && part[i - 1]; ++i) {
    part[i] = strchr(part[i - 1], ',');
    if (part[i]) *part[i]++ = 0;
  }
  const int level = atoi(part[0]), class_number = atoi(part[1]), id = atoi(part[2]);
  if (part[4]) {
    hs_breakpoint(level, class_number, id, atoi(part[3]), HS_ATTRIBUTES({part[4], part[5]}));
  } else {
    hs_breakpoint(level, class_number, id, atoi(part[3]), NULL);
  }
}

static void OnAlarm(int signal) { hs_snapshot("handler"); }

static void Signals(void) {
  struct sigaction action = {.sa_handler = OnAlarm};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval every = {{0, 5000}, {0, 5000}};
  setitimer(ITIMER_REAL, &every, NULL);
}

static void Errno(void) {
  errno = 77;
  hs_snapshot("errno");
  if (errno != 77) exit(3);
}

static void Ruin(unsigned seed) {
  if (truncate(getenv(HS_CONTROL_VARIABLE), 1) == 0) exit(4);  // it is sealed
  srand(seed);
  unsigned char* bytes = (unsigned char*)hs_control;
  struct hs_control* control = hs_control;
  for (int round = 0; round < 3000; ++round) {
    for (int i = 0; i < 20; ++i) bytes[rand() % sizeof(struct hs_control)] = rand();
    struct hs_slot* slot = &control->slots[rand() % HS_SLOTS];
    for (size_t i = 4; i < sizeof(*slot); ++i) ((unsigned char*)slot)[i] = rand();
    slot->process = getpid();
    slot->thread = rand() % 2 ? getpid() : rand();
    if (rand() % 2) slot->label_size = rand() % 1100;
    __atomic_store_n(&slot->word, rand() * 4u + 2, __ATOMIC_RELEASE);
    ++control->bell;
    syscall(SYS_futex, &control->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
    usleep(20);
  }
}

static void Do(char* text) {
  char* value = strchr(text, '=');
  if (value) *value++ = 0;
  if (!strcmp(text, "call")) hs_snapshot(value);
  if (!strcmp(text, "if")) HS_SNAPSHOT_IF(atoi(value));
  if (!strcmp(text, "assert")) HS_ASSERT(atoi(value));
  if (!strcmp(text, "point")) PointOf(value);
  if (!strcmp(text, "threads")) Threads(atoi(value));
  if (!strcmp(text, "signals")) Signals();
  if (!strcmp(text, "errno")) Errno();
  if (!strcmp(text, "ruin")) Ruin(atoi(value));
  if (!strcmp(text, "fork")) {
    const pid_t child = fork();
    if (child != 0) waitpid(child, NULL, 0);
  }
}

int main(int argc, char** argv) {
  int times = 1;
  for (int i = 1; i < argc; ++i) {
    if (!strcmp(argv[i], "exec")) {
      argv[i] = argv[0];
      execv("/proc/self/exe", argv + i);
    }
    if (!strncmp(argv[i], "loop=", 5)) {
      times = atoi(argv[i] + 5);
      continue;
    }
    for (; times > 0; --times) {
      char* text = strdup(argv[i]);
      Do(text);
      free(text);
    }
    times = 1;
    dprintf(1, "%s\n", argv[i]);
  }
  return 0;
}

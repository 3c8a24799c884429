// Four threads make system calls all the time for 0.7 s, among them those that make threads and
// processes, while a timer's signal comes to them. Each must do what it does natively, and children
// may run on the processors that their parent had at the start. Ends with status 3 and prints the
// personality that the first thread has in the end.

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "require.h"

extern char** environ;

static volatile int over;
static volatile int alarms;
static cpu_set_t processors;

static void OnAlarm(int signal) { alarms = signal; }

static void* Calls(void* unused) {
  while (!over) {
    REQUIRE(syscall(SYS_getppid) > 0);
    for (volatile int i = 0; i < 300; ++i) {
    }
  }
  return unused;
}

static void* Spawns(void* unused) {
  char* arguments[] = {"true", NULL};
  while (!over) {
    pid_t child;
    int status;
    REQUIRE(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0);
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
  }
  return unused;
}

static void* Answer(void* given) { return given; }

static void* Births(void* unused) {
  while (!over) {
    pthread_t thread;
    void* result;
    int status;
    REQUIRE(pthread_create(&thread, NULL, Answer, &status) == 0);
    REQUIRE(pthread_join(thread, &result) == 0 && result == &status);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      cpu_set_t own;
      REQUIRE(sched_getaffinity(0, sizeof(own), &own) == 0 && CPU_EQUAL(&own, &processors));
      _exit(7);
    }
    REQUIRE(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
  }
  return unused;
}

static void* Sleeps(void* unused) {
  while (!over) {
    const struct timespec pause = {0, 3000000};
    REQUIRE(nanosleep(&pause, NULL) == 0 || errno == EINTR);
  }
  return unused;
}

int main(void) {
  void* (*const subjects[4])(void*) = {Calls, Spawns, Births, Sleeps};
  pthread_t threads[4];
  struct sigaction action = {.sa_handler = OnAlarm, .sa_flags = SA_RESTART};
  const struct itimerspec period = {{0, 5000000}, {0, 5000000}};
  timer_t timer;
  REQUIRE(sched_getaffinity(0, sizeof(processors), &processors) == 0);
  REQUIRE(sigaction(SIGALRM, &action, NULL) == 0);
  REQUIRE(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0);
  for (int i = 0; i < 4; ++i) REQUIRE(pthread_create(&threads[i], NULL, subjects[i], NULL) == 0);
  // The others get them.
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  REQUIRE(pthread_sigmask(SIG_BLOCK, &alarm, NULL) == 0);
  REQUIRE(timer_settime(timer, 0, &period, NULL) == 0);
  usleep(700000);
  over = 1;
  for (int i = 0; i < 4; ++i) REQUIRE(pthread_join(threads[i], NULL) == 0);
  REQUIRE(alarms == SIGALRM);
  printf("%x\n", personality(0xffffffff));
  return 3;
}

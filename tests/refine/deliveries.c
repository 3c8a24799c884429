// Signals that wait, one that ends a system call, and one of an instruction, of which it dies. Says
// what its handler was told.

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

static sem_t ready, go;
int divisor = 0;

static void say(int signal, siginfo_t* info, void* context) {
  (void)context;
  printf("signal %d code %d by %s\n", signal, info->si_code,
         info->si_pid == getpid() ? "itself" : "another");
}

static void* other(void* argument) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  sem_post(&ready);
  while (sem_wait(&go) != 0) {
  }
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  return argument;
}

static void* waker(void* of) {
  usleep(100 * 1000);
  pthread_kill(*(pthread_t*)of, SIGUSR1);
  return NULL;
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  struct sigaction action = {.sa_sigaction = say, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGUSR2, &action, NULL);
  sem_init(&ready, 0, 0);
  sem_init(&go, 0, 0);
  pthread_t self = pthread_self(), thread, wakes;
  pthread_create(&thread, NULL, other, NULL);
  sem_wait(&ready);
  pthread_kill(thread, SIGUSR2);
  pthread_create(&wakes, NULL, waker, &self);
  struct epoll_event event;
  const int got = epoll_wait(epoll_create1(0), &event, 1, -1);
  printf("epoll_wait %d, %s\n", got, errno == EINTR ? "interrupted" : "not");
  pthread_join(wakes, NULL);
  sem_post(&go);
  pthread_join(thread, NULL);
  int half = 18;
  __asm__("cltd\n idivl %1" : "+a"(half) : "m"(divisor) : "rdx");
  return half;
}

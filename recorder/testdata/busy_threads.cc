// Threads that notice if anything disturbs them. Each does one kind of thing in a loop and checks
// what it gets; no system call may fail. Runs until its standard input ends, then prints what went
// wrong and how often each thread went round.

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace {

std::atomic<bool> stop{false};
std::atomic<int> complaints{0};

void Complain(const char* who, const char* what) {
  ++complaints;
  char text[200];
  const int length = std::snprintf(text, sizeof(text), "%s: %s: %s\n", who, what, strerror(errno));
  [[maybe_unused]] ssize_t written = write(1, text, length);
}

void Expect(bool good, const char* who, const char* what) {
  if (!good) Complain(who, what);
}

double Now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

struct Worker {
  const char* name;
  void (*step)(Worker*);
  pthread_t thread = {};
  std::atomic<long> rounds{0};
};

void Sleeps(Worker* self) {
  const double start = Now();
  const timespec time = {0, 3'000'000};
  Expect(nanosleep(&time, nullptr) == 0, self->name, "nanosleep");
  Expect(Now() - start >= 0.003, self->name, "woke too early");
}

int ping[2], pong[2];

void Pings(Worker* self) {
  char byte = 'x';
  Expect(write(ping[1], &byte, 1) == 1, self->name, "write");
  Expect(read(pong[0], &byte, 1) == 1, self->name, "read");
}

void Pongs(Worker* self) {
  char byte;
  if (read(ping[0], &byte, 1) != 1) {
    Complain(self->name, "read");
  }
  Expect(write(pong[1], &byte, 1) == 1, self->name, "write");
}

void WaitsForEvents(Worker* self) {
  static const int epoll = epoll_create1(0);
  epoll_event event;
  Expect(epoll_wait(epoll, &event, 1, 4) == 0, self->name, "epoll_wait");
}

void Polls(Worker* self) {
  const double start = Now();
  Expect(poll(nullptr, 0, 4) == 0, self->name, "poll");
  Expect(Now() - start >= 0.004, self->name, "woke too early");
}

void WaitsOnSemaphore(Worker* self) {
  static const int id = semget(IPC_PRIVATE, 1, 0600);
  sembuf operation = {0, -1, 0};
  const timespec time = {0, 4'000'000};
  Expect(semtimedop(id, &operation, 1, &time) == -1 && errno == EAGAIN, self->name, "semtimedop");
  if (stop) semctl(id, 0, IPC_RMID);
}

void WaitsOnFutex(Worker* self) {
  static std::atomic<uint32_t> word{0};
  const timespec time = {0, 2'000'000};
  const long result = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, nullptr, 0);
  Expect(result == -1 && errno == ETIMEDOUT, self->name, "futex");
}

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
long turns = 0;

void TakesTurns(Worker* self, int which) {
  pthread_mutex_lock(&mutex);
  while (turns % 2 != which && !stop)
    Expect(pthread_cond_wait(&condition, &mutex) == 0, self->name, "wait");
  ++turns;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
}

void TakesEvenTurns(Worker* self) { TakesTurns(self, 0); }
void TakesOddTurns(Worker* self) { TakesTurns(self, 1); }

void ReadsClock(Worker* self) {
  double last = Now();
  for (int i = 0; i < 2000; ++i) {
    const double now = Now();
    Expect(now >= last, self->name, "time went back");
    last = now;
  }
}

void Computes(Worker* self) {
  uint64_t sum = 0;
  double real = 0;
  for (uint64_t i = 1; i <= 200'000; ++i) {
    sum += i * i;
    real += 1.0 / static_cast<double>(i);
  }
  Expect(sum == 2666686666700000u, self->name, "wrong sum");
  Expect(real > 12.78329 && real < 12.783292, self->name, "wrong real sum");
}

void MakesThreads(Worker* self) {
  pthread_t thread;
  void* result = nullptr;
  const auto body = [](void* argument) -> void* { return argument; };
  Expect(pthread_create(&thread, nullptr, body, self) == 0, self->name, "pthread_create");
  Expect(pthread_join(thread, &result) == 0 && result == self, self->name, "pthread_join");
}

// A signal is sent only after the one before has been handled: one lost would be the end.
std::atomic<long> sent{0}, handled{0};
void OnSignal(int) { ++handled; }

Worker suspended = {"suspended", [](Worker* self) {
                      sigset_t none;
                      sigfillset(&none);
                      sigdelset(&none, SIGUSR1);
                      Expect(sigsuspend(&none) == -1 && errno == EINTR, self->name, "sigsuspend");
                    }};

void SendsSignals(Worker* self) {
  if (sent == handled) {
    ++sent;
    Expect(pthread_kill(suspended.thread, SIGUSR1) == 0, self->name, "pthread_kill");
  }
  const timespec time = {0, 500'000};
  nanosleep(&time, nullptr);
}

long queued_sum = 0;

// Queued signals are blocked everywhere, and fetched one by one.
void FetchesSignals(Worker* self) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN);
  const timespec time = {0, 4'000'000};
  siginfo_t info;
  const int signal = sigtimedwait(&set, &info, &time);
  if (signal == SIGRTMIN) {
    queued_sum += info.si_value.sival_int;
  } else {
    Expect(signal == -1 && errno == EAGAIN, self->name, "sigtimedwait");
  }
}

long queued_total = 0;

void QueuesSignals(Worker* self) {
  const int value = static_cast<int>(self->rounds % 7 + 1);
  Expect(sigqueue(getpid(), SIGRTMIN, {.sival_int = value}) == 0, self->name, "sigqueue");
  queued_total += value;
  const timespec time = {0, 1'300'000};
  nanosleep(&time, nullptr);
}

Worker workers[] = {
    {"sleeps", Sleeps},
    {"pings", Pings},
    {"events", WaitsForEvents},
    {"polls", Polls},
    {"semaphore", WaitsOnSemaphore},
    {"futex", WaitsOnFutex},
    {"even", TakesEvenTurns},
    {"odd", TakesOddTurns},
    {"clock", ReadsClock},
    {"computes", Computes},
    {"threads", MakesThreads},
    {"signals", SendsSignals},
    {"fetches", FetchesSignals},
    {"queues", QueuesSignals},
};
Worker pongs = {"pongs", Pongs};

void* Run(void* argument) {
  auto* self = static_cast<Worker*>(argument);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGRTMIN);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  while (!stop || self->step == Pongs) {
    self->step(self);
    ++self->rounds;
    if (self->step == TakesEvenTurns || self->step == TakesOddTurns) sched_yield();
  }
  return nullptr;
}

}  // namespace

int main() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigaction(SIGUSR1, &action, nullptr);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGRTMIN);
  sigaddset(&signals, SIGUSR1);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  if (pipe(ping) != 0 || pipe(pong) != 0) return 1;
  pthread_create(&suspended.thread, nullptr, Run, &suspended);
  pthread_create(&pongs.thread, nullptr, Run, &pongs);
  for (Worker& worker : workers) pthread_create(&worker.thread, nullptr, Run, &worker);
  std::puts("ready");
  std::fflush(stdout);
  char byte;
  const ssize_t got = read(0, &byte, 1);
  Expect(got == 0, "main", "read");

  stop = true;
  pthread_mutex_lock(&mutex);
  pthread_cond_broadcast(&condition);
  pthread_mutex_unlock(&mutex);
  for (Worker& worker : workers) pthread_join(worker.thread, nullptr);
  pthread_kill(suspended.thread, SIGUSR1);
  pthread_join(suspended.thread, nullptr);
  ++sent;
  // What is still queued.
  const timespec now = {0, 0};
  siginfo_t info;
  sigset_t queue;
  sigemptyset(&queue);
  sigaddset(&queue, SIGRTMIN);
  while (sigtimedwait(&queue, &info, &now) == SIGRTMIN) queued_sum += info.si_value.sival_int;
  Expect(queued_sum == queued_total, "main", "queued signals are missing or came twice");
  for (const Worker& worker : workers) {
    std::printf("%s %ld\n", worker.name, worker.rounds.load());
    if (worker.rounds == 0) Complain(worker.name, "did nothing");
  }
  std::printf("suspended %ld\ncomplaints %d\n", suspended.rounds.load(), complaints.load());
  std::fflush(stdout);
  _exit(complaints == 0 ? 0 : 1);
}

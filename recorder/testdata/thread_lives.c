// thread_lives WHICH: threads that are cancelled, get signals, leave locks behind, are many. Prints
// what does not depend on who is faster.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static sem_t ready;
static pthread_key_t key;
static int cleaned, destroyed;

static void Clean(void* argument) { ++cleaned; }
static void Destroy(void* argument) { ++destroyed; }

// Until it is cancelled: asleep, in a loop, at points.
static void* Wait(void* argument) {
  int old;
  pthread_setspecific(key, &key);
  if (argument == (void*)1) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
  pthread_cleanup_push(Clean, NULL);
  sem_post(&ready);
  volatile unsigned long turns = 0;
  while (1) {
    if (argument == (void*)0) sleep(100);
    if (argument == (void*)1) ++turns;
    if (argument == (void*)2) pthread_testcancel();
  }
  pthread_cleanup_pop(0);
  return NULL;
}

static void Cancel(void) {
  pthread_key_create(&key, Destroy);
  int cancelled = 0;
  for (unsigned long i = 0; i < 12; ++i) {
    pthread_t thread;
    void* result;
    pthread_create(&thread, NULL, Wait, (void*)(i % 3));
    sem_wait(&ready);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    cancelled += result == PTHREAD_CANCELED;
  }
  printf("%d %d %d\n", cancelled, cleaned, destroyed);
}

static atomic_int got[3], for_all, ticks, stop;
static _Thread_local int self = 2;

static void OnOne(int signal) { ++got[self]; }
static void OnAny(int signal) { ++for_all; }
static void OnTick(int signal) { ++ticks; }

static void* Loop(void* argument) {
  self = (int)(long)argument;
  sem_post(&ready);
  volatile unsigned long turns = 0;
  while (!stop) {
    if (self == 0) ++turns;
    if (self == 1) usleep(500);
  }
  return NULL;
}

// To one thread, to the process, from a timer.
static void Signals(void) {
  signal(SIGUSR1, OnOne);
  signal(SIGUSR2, OnAny);
  signal(SIGALRM, OnTick);
  pthread_t threads[2];
  for (long i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, Loop, (void*)i);
  for (int i = 0; i < 2; ++i) sem_wait(&ready);
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  const struct itimerspec interval = {{0, 2000000}, {0, 2000000}};
  timer_settime(timer, 0, &interval, NULL);
  for (int i = 0; i < 40; ++i) {
    const int one = got[i % 2], any = for_all;
    pthread_kill(threads[i % 2], SIGUSR1);
    while (got[i % 2] == one) sched_yield();
    kill(getpid(), SIGUSR2);
    while (for_all == any) sched_yield();
  }
  while (ticks < 10) sched_yield();
  stop = 1;
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  printf("%d %d %d\n", got[0], got[1], for_all);
}

enum { kSent = 2000 };
static void* Send(void* argument) {
  const union sigval value = {0};
  for (int i = 0; i < kSent; ++i) {
    sigqueue(getpid(), SIGRTMIN, value);
    sched_yield();
  }
  stop = 1;
  return NULL;
}

static void* Leave(void* argument) {
  for (volatile int i = 0; i < 100; ++i) {
  }
  syscall(SYS_exit, 0);
  return NULL;
}

// Each signal to the process has one of the threads call its handler, also if they end meanwhile.
static void Ends(void) {
  signal(SIGRTMIN, OnAny);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGRTMIN);
  sigprocmask(SIG_BLOCK, &signals, NULL);
  pthread_t sender;
  pthread_create(&sender, NULL, Send, NULL);
  sigprocmask(SIG_UNBLOCK, &signals, NULL);
  while (!stop) {
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, Leave, NULL);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
    sigprocmask(SIG_UNBLOCK, &signals, NULL);
  }
  pthread_join(sender, NULL);
  const time_t start = time(NULL);
  while (for_all < kSent && time(NULL) < start + 10) sched_yield();
  printf("%d\n", for_all);
}

static void* WaitForFault(void* argument) {
  const sigset_t* const faults = argument;
  int signal = 0;
  sem_post(&ready);
  while (!stop) {
  }
  sigwait(faults, &signal);
  return (void*)(long)signal;
}

// Signals of faults that all threads block, sent to the process: one of them waits for them.
static void Blocked(void) {
  sigset_t faults;
  sigemptyset(&faults);
  sigaddset(&faults, SIGSEGV);
  sigaddset(&faults, SIGFPE);
  sigprocmask(SIG_BLOCK, &faults, NULL);
  pthread_t thread;
  void* result;
  pthread_create(&thread, NULL, WaitForFault, &faults);
  sem_wait(&ready);
  kill(getpid(), SIGSEGV);
  stop = 1;
  pthread_join(thread, &result);
  printf("%ld\n", (long)result);
}

static pthread_mutex_t mutex;
static void* LeaveLocked(void* argument) {
  pthread_mutex_lock(&mutex);
  return NULL;
}

// Locks of threads that have ended; ids that all threads have to change.
static void Locks(void) {
  pthread_mutexattr_t robust;
  pthread_mutexattr_init(&robust);
  pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex, &robust);
  int dead = 0, changed = 0;
  for (int i = 0; i < 10; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, LeaveLocked, NULL);
    pthread_join(thread, NULL);
    dead += pthread_mutex_lock(&mutex) == EOWNERDEAD;
    pthread_mutex_consistent(&mutex);
    pthread_mutex_unlock(&mutex);
  }
  pthread_t threads[2];
  for (long i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, Loop, (void*)i);
  for (int i = 0; i < 10; ++i) changed += setgid(getgid()) == 0;
  stop = 1;
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  printf("%d %d\n", dead, changed);
}

static _Thread_local unsigned long own = 3;
static atomic_ulong total;
static void* Add(void* argument) {
  own += (unsigned long)argument;
  total += own;
  return (void*)own;
}

static void OneAfterTheOther(void) {
  unsigned long sum = 0;
  for (unsigned long i = 0; i < 200; ++i) {
    pthread_t thread;
    void* result;
    if (pthread_create(&thread, NULL, Add, (void*)i) != 0) exit(1);
    pthread_join(thread, &result);
    sum += (unsigned long)result;
  }
  printf("%lu %lu\n", sum, (unsigned long)total);
}

enum { kMany = 60 };
static pthread_barrier_t barrier;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long turn;
static void* TakeTurn(void* argument) {
  for (int i = 0; i < 3; ++i) pthread_barrier_wait(&barrier);
  pthread_mutex_lock(&mutex);
  while (turn != (long)argument) pthread_cond_wait(&changed, &mutex);
  printf("%ld ", turn++);
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  return NULL;
}

static void ManyAtOnce(void) {
  pthread_t threads[kMany];
  pthread_mutex_init(&mutex, NULL);
  pthread_barrier_init(&barrier, NULL, kMany);
  for (long i = 0; i < kMany; ++i) {
    if (pthread_create(&threads[i], NULL, TakeTurn, (void*)i) != 0) exit(1);
  }
  for (int i = 0; i < kMany; ++i) pthread_join(threads[i], NULL);
  printf("\n");
}

// With more for a recorder to keep than it can at once.
static void* Turn(void* argument) {
  while (1) ++ticks;
}

static void* Execute(void* argument) {
  usleep(*(const useconds_t*)argument);
  execl("/bin/echo", "echo", "executed", (char*)NULL);
  return NULL;
}

static void* Nothing(void* argument) { return argument; }

// All memory is locked before there are threads.
static void Lock(void) {
  const int ways[] = {0, 4 /* MCL_ONFAULT */, 8, MCL_CURRENT | MCL_FUTURE, MCL_CURRENT};
  for (int i = 0; i < 5; ++i) {
    const int locked = mlockall(ways[i]);
    printf("%d %d\n", locked, locked == 0 ? 0 : errno);
  }
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, Nothing, NULL);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  printf("%d\n", munlockall());
}

// Code comes to where something else was before there were threads, in the same segment.
static void Replace(void) {
  static const unsigned char kReturnsSeven[] = {0xb8, 7, 0, 0, 0, 0xc3};
  const int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
  char* const page = mmap(NULL, 4096, protection, flags, -1, 0);
  const int zeros = open("/dev/zero", O_RDONLY), code = memfd_create("code", 0);
  if (read(zeros, page, 4096) != 4096 || write(code, kReturnsSeven, 6) != 6) exit(1);
  munmap(page, 4096);
  pthread_t thread;
  pthread_create(&thread, NULL, Nothing, NULL);
  mmap(page, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, code, 0);
  printf("%d\n", ((int (*)(void))page)());
  pthread_join(thread, NULL);
}

static _Alignas(4096) char apart[64][4096];
static char *const stored_to = apart[40], *const looked_at = apart[0];
static void* Store(void* argument) {
  stored_to[100] = 7;
  atomic_store((atomic_char*)looked_at, 1);
  return NULL;
}

// The first thread has used a page, and does not while the other one stores to it.
static void BesideTheFirst(void) {
  stored_to[0] = 1;
  pthread_t thread;
  pthread_create(&thread, NULL, Store, NULL);
  while (atomic_load((atomic_char*)looked_at) == 0) sched_yield();
  for (volatile int i = 0; i < 200000; ++i) {
  }
  pthread_join(thread, NULL);
  printf("%d\n", stored_to[0] + stored_to[100]);
}

// Processes of which a thread executes a program while others run.
static void Programs(void) {
  for (useconds_t delay = 0; delay < 1000; delay += 100) {
    const pid_t process = fork();
    if (process == 0) {
      pthread_t thread;
      for (int i = 0; i < 3; ++i) pthread_create(&thread, NULL, Turn, NULL);
      pthread_create(&thread, NULL, Execute, &delay);
      pause();
    }
    waitpid(process, NULL, 0);
  }
}

static int EndWithSix(void* argument) { return 6; }

// A process with this one's memory and handlers, at the same time.
static void Task(void) {
  static char stack[65536];
  int status = 0;
  const pid_t process =
      clone(EndWithSix, stack + sizeof(stack), CLONE_VM | CLONE_SIGHAND | SIGCHLD, NULL);
  waitpid(process, &status, 0);
  printf("%d\n", WEXITSTATUS(status));
}

// A system call of the 32-bit kind: getpid.
static void CallBy32Bits(void) {
  int result = 20;
  __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
  printf("%d\n", result == getpid());
}

static const struct {
  const char* name;
  void (*run)(void);
} kinds[] = {{"cancel", Cancel},     {"signals", Signals},       {"ends", Ends},
             {"blocked", Blocked},   {"locks", Locks},           {"serial", OneAfterTheOther},
             {"many", ManyAtOnce},   {"programs", Programs},     {"task", Task},
             {"lock", Lock},         {"beside", BesideTheFirst}, {"replace", Replace},
             {"int80", CallBy32Bits}};

int main(int argc, char** argv) {
  sem_init(&ready, 0, 0);
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
    if (strcmp(argv[1], kinds[i].name) == 0) kinds[i].run();
  }
  return 7;
}

// What a program may do while it runs natively and somebody waits for it to come to a place. The
// argument says which; the exit status tells whether all was right.

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

extern "C" {
std::atomic<long> reached_sum{0};

// The place.
__attribute__((noinline)) void ReachedPlace(int number) { reached_sum += number; }
}

extern char** environ;

namespace {

int Join(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

int Once() {
  ReachedPlace(1);
  return reached_sum == 1 ? 0 : 1;
}

// Every thread comes to the place many times, while others are made and end.
int Threads() {
  pthread_t threads[6];
  const auto body = [](void*) -> void* {
    for (int i = 0; i < 20; ++i) {
      ReachedPlace(1);
      usleep(200);
    }
    return nullptr;
  };
  for (pthread_t& thread : threads) pthread_create(&thread, nullptr, body, nullptr);
  for (int i = 0; i < 50; ++i) {
    pthread_t brief;
    pthread_create(
        &brief, nullptr, [](void*) -> void* { return nullptr; }, nullptr);
    pthread_join(brief, nullptr);
  }
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  return reached_sum == 120 ? 0 : 1;
}

// A child comes to the place: it must not die of a breakpoint that is not meant for it.
int Fork() {
  const pid_t child = fork();
  if (child == 0) {
    ReachedPlace(7);
    _exit(reached_sum == 7 ? 42 : 1);
  }
  return Join(child) == 42 ? 0 : 1;
}

int Vfork() {
  const pid_t child = vfork();
  if (child == 0) {
    ReachedPlace(3);
    execl("/bin/sh", "sh", "-c", "exit 5", nullptr);
    _exit(1);
  }
  return Join(child) == 5 && reached_sum == 3 ? 0 : 1;
}

int Spawn() {
  pid_t child;
  char* const arguments[] = {const_cast<char*>("sh"), const_cast<char*>("-c"),
                             const_cast<char*>("exit 6"), nullptr};
  if (posix_spawn(&child, "/bin/sh", nullptr, nullptr, arguments, environ) != 0) return 1;
  const int status = Join(child);
  ReachedPlace(1);
  return status == 6 ? 0 : 1;
}

int LoadLibrary() {
  void* library = dlopen("libm.so.6", RTLD_NOW);
  auto* function =
      library == nullptr ? nullptr : reinterpret_cast<double (*)(double)>(dlsym(library, "cbrt"));
  return function != nullptr && function(0.0) == 0.0 ? 0 : 1;
}

std::atomic<int> signals{0};

int Signals() {
  signal(SIGUSR1, [](int) { ++signals; });
  signal(SIGTRAP, [](int) { signals += 1000; });
  for (int i = 0; i < 5; ++i) raise(SIGUSR1);
  raise(SIGTRAP);
  asm volatile("int3");
  ReachedPlace(1);
  return signals == 2005 ? 0 : 1;
}

int Exec(char** argv) {
  execl(argv[0], argv[0], "once", nullptr);
  return 1;
}

// By a thread that is not the first.
int ExecByThread(char** argv) {
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void* name) -> void* {
        execl(static_cast<char*>(name), static_cast<char*>(name), "once", nullptr);
        return nullptr;
      },
      argv[0]);
  pthread_join(thread, nullptr);
  return 1;
}

// Until the first thread is a zombie, as it stays while there are others.
void AwaitEndOfFirstThread() {
  char path[64];
  snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
  for (char state = 0; state != 'Z'; usleep(1000)) {
    FILE* const file = fopen(path, "r");
    if (file == nullptr) return;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 0;
    fclose(file);
  }
}

// The first thread ends before the others.
int FirstThreadEnds() {
  pthread_t thread;
  const auto body = [](void*) -> void* {
    AwaitEndOfFirstThread();
    ReachedPlace(1);
    usleep(20'000);
    exit(9);
  };
  pthread_create(&thread, nullptr, body, nullptr);
  pthread_exit(nullptr);
}

// The same, for as long as somebody likes.
int FirstThreadHasEnded() {
  pthread_t thread;
  const auto body = [](void*) -> void* {
    while (true) {
      if (usleep(1000) != 0) exit(1);
    }
  };
  pthread_create(&thread, nullptr, body, nullptr);
  puts("ready");
  fflush(stdout);
  pthread_exit(nullptr);
}

int WaitForever() {
  while (true) pause();
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "once";
  const auto is = [&](const char* name) { return strcmp(what, name) == 0; };
  if (is("once")) return Once();
  if (is("threads")) return Threads();
  if (is("fork")) return Fork();
  if (is("vfork")) return Vfork();
  if (is("spawn")) return Spawn();
  if (is("library")) return LoadLibrary();
  if (is("signals")) return Signals();
  if (is("exec")) return Exec(argv);
  if (is("thread-exec")) return ExecByThread(argv);
  if (is("first-ends")) return FirstThreadEnds();
  if (is("first-ended")) return FirstThreadHasEnded();
  if (is("wait")) return WaitForever();
  return 99;
}

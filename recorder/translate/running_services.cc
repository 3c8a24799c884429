#include "recorder/translate/running_services.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "recorder/process/process_facts.h"
#include "recorder/translate/base/control.h"

namespace hindsight {
namespace {

constexpr std::chrono::milliseconds kPatience{2000}, kPause{2};

bool Change(Tracing from, Tracing to, ControlBlock* control) {
  return __atomic_compare_exchange_n(&control->tracing, &from, to, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST);
}

// Who waits in a system call looks at nothing else. False: all threads are stopped, or gone.
bool WakeSleepers(pid_t process) {
  bool any = false;
  for (const pid_t thread : ThreadsOf(process)) {
    const char state = TaskState(thread);
    any |= state == 'R' || state == 'S';
    if (state != 'S') continue;
    siginfo_t info = {};
    info.si_signo = SIGILL;
    info.si_code = kOrderCode;
    syscall(SYS_rt_tgsigqueueinfo, process, thread, SIGILL, &info);
  }
  return any;
}

void AwaitLeaving(pid_t process, ControlBlock* control) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < end) {
    switch (__atomic_load_n(&control->tracing, __ATOMIC_SEQ_CST)) {
      case Tracing::kWanted:
        if (!WakeSleepers(process)) return;
        break;
      case Tracing::kLeaving:
        Change(Tracing::kLeaving, Tracing::kAlone, control);
        break;
      case Tracing::kLeft:
        return;
      default:
        break;
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

void RunningServices::Start(std::shared_ptr<ProcessService> service) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Running& running = running_.emplace_back();
  running.service = std::move(service);
  running.thread = std::thread([this, &running, serving = running.service]() mutable {
    serving->Run();
    {
      const std::lock_guard<std::mutex> ended(mutex_);
      running.service = nullptr;
    }
    serving = nullptr;
    running.done = true;
  });
}

void RunningServices::JoinAll() {
  while (true) {
    std::thread thread;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (Running& running : running_) {
        if (!thread.joinable()) thread = std::move(running.thread);
      }
    }
    if (!thread.joinable()) return;
    thread.join();
  }
}

void RunningServices::StopAll() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Running& running : running_) {
      if (running.service != nullptr) running.service->RequestStop();
    }
  }
  JoinAll();
}

std::shared_ptr<MemoryFile> RunningServices::Find(pid_t process) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto is_it = [&](const Running& running) {
    return running.service != nullptr && running.service->process() == process;
  };
  // The last one: it may have executed another program since.
  const auto found = std::find_if(running_.rbegin(), running_.rend(), is_it);
  return found == running_.rend() ? nullptr : found->service->file();
}

void RunningServices::LetGo(pid_t process) {
  const std::shared_ptr<MemoryFile> file = Find(process);
  if (file == nullptr) return;
  ControlBlock* const control = file->control();
  if (!Change(Tracing::kNo, Tracing::kWanted, control)) return;
  AwaitLeaving(process, control);
  if (!Change(Tracing::kWanted, Tracing::kAlone, control)) {
    Change(Tracing::kLeaving, Tracing::kAlone, control);
  }
}

void RunningServices::Reap() {
  std::list<Running> done;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = running_.begin(); it != running_.end();) {
      const auto at = it++;
      if (at->done) done.splice(done.end(), running_, at);
    }
  }
  for (Running& running : done) {
    if (running.thread.joinable()) running.thread.join();
  }
}

}  // namespace hindsight

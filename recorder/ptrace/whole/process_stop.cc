#include "recorder/ptrace/whole/process_stop.h"

#include <elf.h>
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "isa/host_registers.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/scheduling.h"
#include "recorder/ptrace/attach.h"
#include "recorder/ptrace/attach_errors.h"
#include "recorder/ptrace/thread_facts.h"

namespace hindsight {
namespace {

// For a thread that most probably waits.
constexpr std::chrono::milliseconds kDuePatience(20);

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

void LetGoOf(pid_t thread) {
  const ThreadToDetach detach = {.thread = thread};
  DetachFromProcess(ProcessOf(thread), {&detach, 1}, {}).IgnoreError();
}

// False if it is gone. `calls` may be null.
bool ReadRegisters(pid_t thread, size_t xstate_bytes, const DisturbedCalls* calls,
                   ThreadMoment* moment) {
  user_regs_struct general;
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &general) != 0) return false;
  if (calls != nullptr) general = calls->OwnRegisters(thread, general);
  GeneralToRegisters(general, &moment->registers);
  const auto number = static_cast<int64_t>(general.orig_rax);
  moment->system_call = number >= 0 ? number : -1;
  if (xstate_bytes == 0) {
    user_fpregs_struct vectors;
    if (ptrace(PTRACE_GETFPREGS, thread, nullptr, &vectors) != 0) return false;
    VectorsToRegisters(vectors, &moment->registers);
    return true;
  }
  std::vector<uint8_t> image(xstate_bytes);
  iovec buffer = {image.data(), image.size()};
  return ptrace(PTRACE_GETREGSET, thread, NT_X86_XSTATE, &buffer) == 0 &&
         XstateToRegisters({image.data(), buffer.iov_len}, &moment->registers);
}

}  // namespace

bool Stragglers::LetGo() {
  const auto stopped = [](pid_t thread) {
    SeizedStop stop = WaitForSeizedStop(thread, std::chrono::milliseconds(0));
    while (stop.kind == SeizedStop::Kind::kEvent) {
      PassEvent(thread, stop);
      stop = WaitForSeizedStop(thread, kDuePatience);
    }
    if (stop.kind == SeizedStop::Kind::kStopped) LetGoOf(thread);
    return stop.kind != SeizedStop::Kind::kTimedOut;
  };
  threads_.erase(std::remove_if(threads_.begin(), threads_.end(), stopped), threads_.end());
  return threads_.empty();
}

void EndDueCalls(pid_t process, DisturbedCalls* calls, Stragglers* stragglers) {
  for (const pid_t thread : calls->TakeDue(NowNs())) {
    if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) continue;  // gone
    ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
    const SeizedStop stop = WaitForSeizedStop(thread, kDuePatience);
    if (stop.kind == SeizedStop::Kind::kTimedOut) {
      stragglers->Add(thread);
    } else if (stop.kind == SeizedStop::Kind::kStopped) {
      calls->MakeAgain(process, thread, 0, NowNs());
      LetGoOf(thread);
    }
  }
}

absl::StatusOr<std::unique_ptr<ProcessStop>> ProcessStop::Make(pid_t process,
                                                               std::chrono::milliseconds patience,
                                                               Stragglers* stragglers,
                                                               DisturbedCalls* calls) {
  if (!stragglers->LetGo()) {
    return absl::UnavailableError(
        absl::StrCat("process ", process, ": a thread has not come to the stop before"));
  }
  auto stop = std::unique_ptr<ProcessStop>(new ProcessStop(process, calls));
  stop->precedence_.emplace(0);
  RETURN_IF_ERROR(stop->StopAll(patience, stragglers));
  return stop;
}

std::unique_ptr<ProcessStop> ProcessStop::Adopt(pid_t process, std::vector<StoppedThread> threads,
                                                uint64_t first_ns, uint64_t skew_ns,
                                                uintptr_t options, DisturbedCalls* calls) {
  auto stop = std::unique_ptr<ProcessStop>(new ProcessStop(process, calls));
  stop->precedence_.emplace(0);
  stop->threads_ = std::move(threads);
  stop->first_ns_ = first_ns;
  stop->skew_ns_ = skew_ns;
  stop->options_ = options;
  return stop;
}

ProcessStop::~ProcessStop() { Release(); }

// Seizing does not stop a thread, so that all are asked to stop within the shortest time.
absl::StatusOr<bool> ProcessStop::SeizeNew(std::set<pid_t>* known, std::vector<pid_t>* asked) {
  bool found = false;
  for (const pid_t thread : ThreadsOf(process_)) {
    if (!known->insert(thread).second) continue;
    found = true;
    if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) == 0) {
      asked->push_back(thread);
    } else if (errno != ESRCH && !HasEnded(process_, thread)) {
      return WhyNotSeized(process_, thread, errno);
    }
  }
  return found;
}

bool ProcessStop::Await(pid_t thread, std::chrono::milliseconds patience) {
  const SeizedStop stop = WaitForSeizedStop(thread, patience);
  if (stop.kind == SeizedStop::Kind::kStopped) threads_.push_back({thread, stop.group_stop});
  return stop.kind != SeizedStop::Kind::kTimedOut;
}

// Once all known threads are stopped and there is no other, none can be made.
absl::Status ProcessStop::StopAll(std::chrono::milliseconds patience, Stragglers* stragglers) {
  std::set<pid_t> known;
  absl::Status status;
  while (status.ok()) {
    std::vector<pid_t> asked;
    const absl::StatusOr<bool> found = SeizeNew(&known, &asked);
    status = found.status();
    if (first_ns_ == 0 && !asked.empty()) first_ns_ = NowNs();
    // In a stop of job control it is there already, and this does no harm.
    for (const pid_t thread : asked) ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
    for (const pid_t thread : asked) {
      if (Await(thread, status.ok() ? patience : std::chrono::milliseconds(10))) continue;
      stragglers->Add(thread);
      status.Update(absl::UnavailableError(DoesNotStop(process_, thread).message()));
    }
    if (status.ok() && !*found) break;
    skew_ns_ = NowNs() - first_ns_;
  }
  RETURN_IF_ERROR(status);
  if (threads_.empty()) return NoSuchProcess(process_);
  if (!Is64Bit(threads_[0].thread)) return NotForThisProcessor(process_);
  std::stable_sort(threads_.begin(), threads_.end(), [&](const auto& a, const auto& b) {
    return (a.thread == process_) > (b.thread == process_);
  });
  return absl::OkStatus();
}

uint64_t ProcessStop::stood_ns() const {
  if (released_) return stood_ns_;
  return first_ns_ == 0 ? 0 : NowNs() - first_ns_;
}

std::vector<ThreadMoment> ProcessStop::Read() const {
  const size_t xstate_bytes = XstateBytes();
  std::vector<ThreadMoment> moments;
  for (const StoppedThread& stopped : threads_) {
    ThreadMoment moment;
    moment.thread = stopped.thread;
    if (!ReadRegisters(stopped.thread, xstate_bytes, calls_, &moment)) continue;
    std::ifstream name(absl::StrCat("/proc/", process_, "/task/", stopped.thread, "/comm"));
    std::getline(name, moment.name);
    moments.push_back(std::move(moment));
  }
  return moments;
}

void ProcessStop::Release() {
  if (released_) return;
  released_ = true;
  std::vector<ThreadToDetach> detach;
  for (const StoppedThread& stopped : threads_) detach.push_back({.thread = stopped.thread});
  if (!options_.has_value()) {
    for (const StoppedThread& stopped : threads_) {
      if (calls_ != nullptr) calls_->MakeAgain(process_, stopped.thread, 0, first_ns_);
    }
    DetachFromProcess(process_, detach, {}).IgnoreError();
  }
  stood_ns_ = NowNs() - first_ns_;
  precedence_.reset();
}

}  // namespace hindsight

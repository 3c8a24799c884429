#include "recorder/snapshot/capture.h"

#include <chrono>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/process/process_facts.h"
#include "recorder/ptrace/whole/copied_state.h"
#include "recorder/ptrace/whole/open_descriptors.h"
#include "recorder/ptrace/whole/thread_state.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

// A thread that waits for a child made by vfork goes on once that executes a program.
constexpr std::chrono::milliseconds kPatience(1000);

// What the process would change if it ran on.
void ReadStopped(const ProcessStop& stop, const std::vector<ThreadMoment>& threads,
                 KernelState* state) {
  for (const ThreadMoment& moment : threads) {
    ThreadKernelState& thread = state->threads.emplace_back(ReadThreadState(moment.thread));
    thread.name = moment.name;
    thread.system_call = moment.system_call;
  }
  if (threads.empty()) return;
  state->siginfos = ProcessSiginfos(threads[0].thread);
  state->pending = SignalsOf(state->siginfos);
  state->descriptors = ReadDescriptors(stop.process());
  AskThreads(stop, state);
}

}  // namespace

uint64_t ResidentBytes(pid_t process) {
  std::ifstream statm(absl::StrCat("/proc/", process, "/statm"));
  uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * kPageBytes;
}

StopMaker StopForCapture(pid_t process, Stragglers* stragglers, DisturbedCalls* calls) {
  return [=] { return ProcessStop::Make(process, kPatience, stragglers, calls); };
}

absl::StatusOr<Capture> TakeCapture(pid_t process, SnapshotCause cause, const StopMaker& make_stop,
                                    uint64_t most_shared) {
  Capture capture;
  capture.cause = std::move(cause);
  capture.auxv = AuxiliaryVector(process);
  capture.resident_bytes = ResidentBytes(process);
  capture.shared = SharedMemory::Plan(process, most_shared);
  ASSIGN_OR_RETURN(const auto stop, make_stop());
  capture.threads = stop->Read();
  ReadStopped(*stop, capture.threads, &capture.kernel);
  ASSIGN_OR_RETURN(capture.copy, ProcessCopy::Make(*stop));
  capture.shared.Read(capture.threads.empty() ? process : capture.threads[0].thread);
  capture.shared.ReadWithheld(process, capture.copy->pid());
  stop->Release();
  capture.skew_ns = stop->skew_ns();
  capture.stood_ns = stop->stood_ns();
  ReadCopiedState(capture.copy->pid(), stop->call_site(), &capture.kernel);
  ReadRelations(process, &capture.kernel);
  return capture;
}

}  // namespace hindsight

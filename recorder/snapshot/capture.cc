#include "recorder/snapshot/capture.h"

#include <algorithm>
#include <chrono>
#include <cstring>
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

size_t CapturedMemory::ReadPieces(absl::Span<const MemoryPiece> pieces) const {
  size_t read = 0;
  while (read < pieces.size() && ReadPiece(pieces[read])) ++read;
  return read;
}

bool CapturedMemory::ReadPiece(MemoryPiece piece) const {
  while (piece.length > 0) {
    const uint64_t offset = piece.address % kPageBytes;
    const uint64_t length = std::min(piece.length, kPageBytes - offset);
    if (const uint8_t* const page = written_.Find(piece.address - offset); page != nullptr) {
      memcpy(piece.bytes, page + offset, length);
    } else if (!copy_.Read(piece.address, {piece.bytes, length})) {
      return false;
    }
    piece.address += length;
    piece.bytes += length;
    piece.length -= length;
  }
  return true;
}

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
                                    SharedMemory shared, WrittenMemory written) {
  Capture capture;
  capture.cause = std::move(cause);
  capture.auxv = AuxiliaryVector(process);
  capture.resident_bytes = ResidentBytes(process);
  capture.shared = std::move(shared);
  capture.written = std::move(written);
  ASSIGN_OR_RETURN(const auto stop, make_stop());
  capture.threads = stop->Read();
  ReadStopped(*stop, capture.threads, &capture.kernel);
  const pid_t thread = capture.threads.empty() ? process : capture.threads[0].thread;
  // Before the copy: the kernel gives who reads a page that two processes share one of its own.
  capture.written.Read(thread);
  ASSIGN_OR_RETURN(capture.copy, ProcessCopy::Make(*stop));
  capture.shared.Read(thread);
  capture.shared.ReadWithheld(process, capture.copy->pid());
  capture.copy->Forget(capture.written.ranges());
  stop->Release();
  capture.skew_ns = stop->skew_ns();
  capture.stood_ns = stop->stood_ns();
  ReadCopiedState(capture.copy->pid(), stop->call_site(), &capture.kernel);
  ReadRelations(process, &capture.kernel);
  return capture;
}

}  // namespace hindsight

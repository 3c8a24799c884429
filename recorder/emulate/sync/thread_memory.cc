#include "recorder/emulate/sync/thread_memory.h"

#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "recorder/emulate/thread/instruction_outputs.h"
#include "recorder/syscalls/trusted_calls.h"

namespace hindsight {
namespace {

// So few are compared at next to no cost.
constexpr size_t kFewPages = 16;

// Of so many calls whose outputs are trusted one is checked.
constexpr uint32_t kCallsPerProbe = 64;

constexpr size_t kLongestInstruction = 15;

}  // namespace

ReadMemory ThreadMemory::Reader() const {
  return [tracee = tracee_](uint64_t address, absl::Span<uint8_t> out) {
    return tracee->memory().Read(address, out);
  };
}

SyscallOutputs ThreadMemory::OutputsOfStep(const RegisterFile& before) const {
  std::array<uint8_t, kLongestInstruction> code;
  size_t size = code.size();
  // It may end where memory does.
  while (size > 0 && !tracee_->memory().Read(before.rip, absl::MakeSpan(code.data(), size))) --size;
  return OutputsOfInstruction(absl::MakeConstSpan(code.data(), size), before);
}

SyscallOutputs ThreadMemory::OutputsOfFrame(const RegisterFile& handler) const {
  SyscallOutputs outputs;
  outputs.written = {SignalFrame(handler.gpr[kRsp], handler.gpr[kRdx], Reader())};
  return outputs;
}

void ThreadMemory::LookAtOthers() {
  pager_->set_written_elsewhere(others_->WrittenElsewhere());
  // Who writes through /proc/PID/mem needs no rights.
  if (others_->UntrackedWrites()) pager_->Unseal();
}

bool ThreadMemory::Resync(SyscallOutputs effects, ProcessPager::Compare compare) {
  if (const auto rseq = words_->Rseq()) effects.written.push_back(*rseq);
  LookAtOthers();
  effects.known = std::exchange(effects_of_others_.known, true) && effects.known;
  if (std::exchange(changes_postponed_, false)) {
    effects.Add(std::exchange(effects_of_others_, {}));
  }
  for (const MemoryRange& range : others_->TakeWritten()) effects.written.push_back(range);
  const bool named = pager_->Resync(effects, effects.known ? compare : ProcessPager::Compare::kAll);
  others_->ShareEffects(effects);
  return named;
}

bool ThreadMemory::ResyncAfterCall(const CallInFlight& call, SyscallOutputs outputs) {
  const ProcessPager::Compare compare = ComparedAfter(call, outputs);
  if (Resync(std::move(outputs), compare)) return true;
  others_->StopTrustingOutputs();
  return false;
}

// Of the file that the call acts on, if it acts on one. Costs a system call.
FileKind ThreadMemory::KindOfFileOf(const CallInFlight& call) const {
  const int file = FileOfCall(call.number(), call.arguments());
  if (file < 0) return FileKind::kOrdinary;
  return KindOfFile(tracee_->ProcPath(absl::StrCat("fd/", file).c_str()));
}

bool ThreadMemory::NoteCall(const CallInFlight& call, const SyscallOutputs& outputs) {
  // By such a call memory is given to the kernel or a driver, to store to later.
  if (!outputs.known || AllowsLaterStores(call.number(), call.arguments())) {
    others_->StopTrustingOutputs();
  }
  const bool may_write_memory = outputs.writes_files && !others_->UntrackedWrites();
  if (!may_write_memory && !others_->TrustsOutputs()) return false;
  const FileKind kind = KindOfFileOf(call);
  if (kind == FileKind::kMemory && may_write_memory) others_->NoteUntrackedWrites();
  if (kind == FileKind::kDevice) others_->StopTrustingOutputs();
  return kind == FileKind::kOrdinary && others_->TrustsOutputs() &&
         StoresOnlyListedOutputs(call.number(), call.arguments());
}

ProcessPager::Compare ThreadMemory::ComparedAfter(const CallInFlight& call,
                                                  const SyscallOutputs& outputs) {
  using Compare = ProcessPager::Compare;
  if (!NoteCall(call, outputs)) return Compare::kAll;
  const bool probes = pager_->pages_in_use() < kFewPages || random_() % kCallsPerProbe == 0;
  return probes ? Compare::kProbe : Compare::kOutputs;
}

void ThreadMemory::ResyncAfterStep(const RegisterFile& before) {
  SyscallOutputs outputs = OutputsOfStep(before);
  if (!outputs.known) {
    // It may have been a system call, made with int 0x80.
    others_->StopTrustingOutputs();
    others_->NoteUntrackedWrites();
  }
  Resync(std::move(outputs));
}

void ThreadMemory::ResyncRseq() {
  const uint64_t rseq = words_->rseq();
  if (rseq != 0) pager_->ResyncPages({rseq / kPageBytes * kPageBytes});
}

void ThreadMemory::TakeChanges(bool call_returned) {
  pager_->FollowOthers();
  if (call_returned) {
    changes_postponed_ = true;
    return;
  }
  SyscallOutputs effects = std::exchange(effects_of_others_, {});
  effects.written = others_->TakeWritten();
  LookAtOthers();
  pager_->Resync(effects);
}

}  // namespace hindsight

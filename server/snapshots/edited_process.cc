#include "server/snapshots/edited_process.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"

namespace hindsight {
namespace {

// Below it a function that has no frame of its own keeps nothing (System V ABI): there debuggers
// make the frames of calls.
constexpr uint64_t kRedZoneBytes = 128;

}  // namespace

bool EditedProcess::CopyRuns() const {
  if (!copy_.active()) return false;
  if (has_run_) return true;
  for (const int32_t thread : original_->threads()) {
    if (!copy_.HasRegistersOf(thread)) continue;
    const absl::StatusOr<RegisterFile> before = original_->Registers(thread);
    // A function that is called where the thread stands has the same pc, but another frame.
    const RegisterFile& now = copy_.Registers(thread);
    if (!before.ok() || before->rip != now.rip || before->gpr[kRsp] != now.gpr[kRsp]) return true;
  }
  return false;
}

absl::StatusOr<RegisterFile> EditedProcess::Registers(int32_t thread) {
  if (copy_.HasRegistersOf(thread)) return copy_.Registers(thread);
  return original_->Registers(thread);
}

int64_t EditedProcess::SyscallNumber(int32_t thread) const {
  return copy_.HasRegistersOf(thread) ? copy_.SyscallNumber(thread)
                                      : original_->SyscallNumber(thread);
}

absl::StatusOr<size_t> EditedProcess::ReadMemory(int32_t thread, uint64_t address,
                                                 absl::Span<uint8_t> out) {
  if (copy_.exists()) return copy_.ReadMemory(thread, address, out);
  return view_.ReadMemory(thread, address, out);
}

absl::Status EditedProcess::WriteRegister(int32_t thread, int number,
                                          absl::Span<const uint8_t> bytes) {
  ASSIGN_OR_RETURN(const RegisterFile before, Registers(thread));
  RETURN_IF_ERROR(copy_.WriteRegister(thread, number, bytes));
  ASSIGN_OR_RETURN(const RegisterFile registers, Registers(thread));
  if (registers.rip != before.rip && !has_run_) pc_before_call_ = before.rip;
  // The end of a call: a debugger restores all registers.
  if (registers.rip != before.rip && registers.rip == pc_before_call_) has_run_ = false;
  return absl::OkStatus();
}

bool EditedProcess::Reads(ProcessView* view, uint64_t address, absl::Span<const uint8_t> expected) {
  std::vector<uint8_t> present(expected.size());
  size_t done = 0;
  while (done < present.size()) {
    const absl::StatusOr<size_t> known =
        view->ReadMemory(0, address + done, absl::MakeSpan(present).subspan(done));
    if (!known.ok() || *known == 0) return false;
    done += *known;
  }
  return std::equal(expected.begin(), expected.end(), present.begin());
}

bool EditedProcess::IsOfCalls(int32_t thread, uint64_t address, uint64_t size) {
  if (has_run_) return true;
  // A text given as an argument: gdb calls malloc(size), and writes so many bytes there.
  if (last_result_ != 0 && address == last_result_ && size == last_argument_) return true;
  const absl::StatusOr<RegisterFile> registers = Registers(thread);
  if (!registers.ok()) return false;
  const uint64_t rsp = registers->gpr[kRsp];
  if (address + size > rsp - kRedZoneBytes) return false;
  for (const MapRegion& region : view_.Regions()) {
    if (region.start <= address && address < region.end) return rsp < region.end;
  }
  return false;
}

absl::Status EditedProcess::WriteToCopy(int32_t thread, uint64_t address,
                                        absl::Span<const uint8_t> bytes) {
  const bool begins = !copy_.active();
  if (begins) RETURN_IF_ERROR(copy_.Begin(thread));
  const absl::Status status = copy_.WriteMemory(address, bytes);
  if (!status.ok() && begins) copy_.Abandon();
  return status;
}

absl::Status EditedProcess::WriteMemory(int32_t thread, uint64_t address,
                                        absl::Span<const uint8_t> bytes) {
  const bool same = Reads(&view_, address, bytes);
  // A debugger puts back what it found; that must not begin a copy.
  if (!copy_.active() && same) return absl::OkStatus();
  if (IsOfCalls(thread, address, bytes.size())) return WriteToCopy(thread, address, bytes);
  if (!copy_.active()) return view_.WriteMemory(address, bytes);
  const absl::Status status = same ? absl::OkStatus() : view_.WriteMemory(address, bytes);
  // Memory that only the copy has, as a call has mapped it, is no edit of the snapshot.
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  return copy_.WriteMemory(address, bytes);
}

absl::StatusOr<RunStop> EditedProcess::Run(const RunRequest& request, std::string* console) {
  if (request.direction == Direction::kBackward) {
    return RunStop{.kind = StopKind::kBegin, .thread = copy_.thread()};
  }
  if (original_->IsAlive(request.thread)) RETURN_IF_ERROR(copy_.Begin(request.thread));
  if (!has_run_) last_argument_ = copy_.Registers(copy_.thread()).gpr[kRdi];
  has_run_ = true;
  const RunStop stop = copy_.Run(request, console);
  last_result_ = copy_.Registers(copy_.thread()).gpr[kRax];
  return stop;
}

void EditedProcess::Suspend() {
  has_run_ = false;
  copy_.Suspend();
}

void EditedProcess::Discard() {
  copy_.End();
  view_.Clear();
  has_run_ = false;
  last_result_ = 0;
}

void EditedProcess::AddMemoryEdits(StateEdits* edits) {
  for (const auto& [address, bytes] : view_.edits()) {
    if (!Reads(original_, address,
               absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()))) {
      edits->memory.push_back({address, bytes});
    }
  }
}

absl::StatusOr<StateEdits> EditedProcess::Edits() {
  if (has_run_ && copy_.active()) {
    return absl::FailedPreconditionError(
        "the copy is running a function or has run on: what it changed are no edits; end the call "
        "or discard the copy");
  }
  StateEdits edits;
  AddMemoryEdits(&edits);
  for (const int32_t thread : original_->threads()) {
    if (!copy_.HasRegistersOf(thread)) continue;
    ASSIGN_OR_RETURN(const RegisterFile before, original_->Registers(thread));
    for (const RegisterEdit& edit : RegisterDifferences(thread, before, copy_.Registers(thread))) {
      edits.registers.push_back(edit);
    }
  }
  return edits;
}

}  // namespace hindsight

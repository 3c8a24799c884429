#include "server/target/diverted_process.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/target/target_description.h"

namespace hindsight {

const RegisterFile& DivertedProcess::Registers(int32_t thread) const {
  return thread == thread_ ? active_->registers() : others_.at(thread);
}

absl::StatusOr<size_t> DivertedProcess::ReadMemory(int32_t thread, uint64_t address,
                                                   absl::Span<uint8_t> out) {
  size_t done = 0;
  if (active_ != nullptr) {
    done = active_->ReadMemory(address, out);
  } else {
    while (done < out.size() && address + done >= address) {
      const uint64_t at = address + done;
      const auto part = out.subspan(done, kPageBytes - at % kPageBytes);
      absl::StatusOr<size_t> known = recorded_->ReadMemory(thread, at, part);
      if (!known.ok() && !absl::IsNotFound(known.status())) return known;
      if (!known.ok() || recorded_->IsUntouched(thread, at)) {
        known = suspended_->ReadMemory(at, part);
      }
      done += *known;
      if (*known < part.size()) break;
    }
  }
  if (done > 0 || out.empty()) return done;
  return absl::NotFoundError("memory that is not in the trace");
}

absl::Status DivertedProcess::Begin(int32_t thread) {
  if (active()) return SwitchTo(thread);
  const int64_t syscall_number = recorded_->SyscallNumber(thread);
  ASSIGN_OR_RETURN(const RegisterFile registers, recorded_->Registers(thread));
  ASSIGN_OR_RETURN(active_,
                   ScratchProcess::Create(
                       Ref(thread), registers, recorded_->Regions(),
                       [recorded = recorded_, thread](uint64_t address, absl::Span<uint8_t> out) {
                         return recorded->ReadMemory(thread, address, out).value_or(0);
                       }));
  thread_ = thread;
  syscall_number_ = syscall_number;
  return absl::OkStatus();
}

absl::Status DivertedProcess::SwitchTo(int32_t thread) {
  if (thread == thread_) return absl::OkStatus();
  const auto known = others_.find(thread);
  absl::StatusOr<RegisterFile> registers =
      known != others_.end() ? known->second : recorded_->Registers(thread);
  RETURN_IF_ERROR(registers.status());
  syscall_number_ = known != others_.end() ? -1 : recorded_->SyscallNumber(thread);
  others_.erase(thread);
  others_[thread_] = active_->registers();
  active_->SetThread(Ref(thread), *registers);
  thread_ = thread;
  return absl::OkStatus();
}

void DivertedProcess::Suspend() {
  others_.clear();
  suspended_ = std::move(active_);
}

bool DivertedProcess::Resume() {
  if (suspended_ == nullptr) return false;
  const absl::StatusOr<RegisterFile> registers = recorded_->Registers(thread_);
  if (!registers.ok()) return false;
  active_ = std::move(suspended_);
  SetRegisters(*registers, recorded_->SyscallNumber(thread_));
  return true;
}

void DivertedProcess::End() {
  others_.clear();
  active_ = nullptr;
  suspended_ = nullptr;
}

void DivertedProcess::SetRegisters(const RegisterFile& registers, int64_t syscall_number) {
  active_->SetRegisters(registers);
  syscall_number_ = syscall_number;
}

absl::Status DivertedProcess::WriteRegister(int32_t thread, int number,
                                            absl::Span<const uint8_t> bytes) {
  const bool own = HasRegistersOf(thread);
  const absl::StatusOr<RegisterFile> before =
      own ? Registers(thread) : recorded_->Registers(thread);
  RETURN_IF_ERROR(before.status());
  RegisterFile registers = *before;
  if (!DecodeRegister(bytes, number, &registers)) {
    return absl::InvalidArgumentError("no such register, or not of this size");
  }
  const int64_t number_before = own ? SyscallNumber(thread) : recorded_->SyscallNumber(thread);
  int64_t syscall_number = number_before;
  if (number == kRegisterOrigRax) {
    std::memcpy(&syscall_number, bytes.data(), sizeof(syscall_number));
  }
  if (registers == *before && syscall_number == number_before) return absl::OkStatus();
  RETURN_IF_ERROR(Begin(thread));
  SetRegisters(registers, syscall_number);
  return absl::OkStatus();
}

RunStop DivertedProcess::Run(const RunRequest& request, std::string* console) {
  RunStop event = active_->Resume(request);
  absl::StrAppend(console, active_->TakeText());
  return event;
}

}  // namespace hindsight

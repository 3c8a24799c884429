// A throw-away copy of the recorded process in one state, in which a debugger may write and run
// code: what gdb's `print f(x)` and pretty printers need.
//
// Runs forward on a processor of its own (scratch_machine.h). Nothing leaves the copy: output
// becomes console text, most system calls fail (scratch_kernel.h), and instructions whose result
// cannot be known stop it. Neither copyable nor movable. One thread at a time.

#ifndef HINDSIGHT_SERVER_TARGET_SCRATCH_PROCESS_H_
#define HINDSIGHT_SERVER_TARGET_SCRATCH_PROCESS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "emulator/cpu/cpu.h"
#include "server/target/scratch_kernel.h"
#include "server/target/scratch_machine.h"
#include "server/target/target.h"
#include "tracefmt/records.h"

namespace hindsight {

class ScratchProcess {
 public:
  static absl::StatusOr<std::unique_ptr<ScratchProcess>> Create(
      ThreadRef thread, const RegisterFile& registers, std::vector<MapRegion> maps,
      ScratchMachine::MemorySource source);
  ScratchProcess(const ScratchProcess&) = delete;
  ScratchProcess& operator=(const ScratchProcess&) = delete;

  const RegisterFile& registers() { return cpu().registers(); }
  void SetRegisters(const RegisterFile& registers) { cpu().SetRegisters(registers); }
  // Runs another thread of the process from here on.
  void SetThread(ThreadRef thread, const RegisterFile& registers) {
    thread_ = thread;
    SetRegisters(registers);
  }
  size_t ReadMemory(uint64_t address, absl::Span<uint8_t> out) {
    return machine_->ReadMemory(address, out);
  }
  absl::Status WriteMemory(uint64_t address, absl::Span<const uint8_t> bytes) {
    return machine_->WriteMemory(address, bytes);
  }

  // Forward only; watchpoints are ignored.
  RunStop Resume(const RunRequest& request);

  // Output of the program and messages to the user, since last taken.
  std::string TakeText();

 private:
  ScratchProcess(ThreadRef thread, std::unique_ptr<ScratchMachine> machine)
      : thread_(thread), machine_(std::move(machine)), kernel_(machine_.get(), &text_) {}

  Cpu& cpu() { return machine_->cpu(); }

  RunStop Event(StopKind kind, int signal = 0) const;
  RunStop Refuse(const std::string& what, int signal);
  bool AtBreakpoint(const RunRequest& request);

  // Each runs on from the last exact state. Unset: nothing stopped it, except perhaps a breakpoint.
  std::optional<RunStop> Step();
  std::optional<RunStop> RunChunk(bool skip_first_breakpoint);
  std::optional<RunStop> StepThroughFault(uint64_t block_count);

  // What the emulator leaves to its caller: the instruction at pc.
  std::optional<RunStop> Special(const Instruction& instruction);
  std::optional<RunStop> Syscall();
  // False: its effect cannot be known without the host's processor.
  bool Compute(const Instruction& instruction, RegisterFile* registers);
  // The XSAVE family, likewise.
  bool SaveOrRestore(RegisterFile* registers);
  // Continues after the instruction at pc, with `registers`.
  void Advance(RegisterFile registers, uint64_t length);

  ThreadRef thread_;
  std::string text_;
  std::unique_ptr<ScratchMachine> machine_;
  ScratchKernel kernel_;
  absl::flat_hash_set<uint64_t> breakpoint_addresses_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_SCRATCH_PROCESS_H_

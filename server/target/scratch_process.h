// A throw-away copy of the recorded process in one state, in which a debugger may write and run
// code: what gdb's `print f(x)` and pretty printers need.
//
// Runs forward on a Cpu of its own whose pages are copied from the recording when first touched.
// Nothing leaves the copy: what it writes to standard output or error becomes console text, system
// calls but those that get memory, time or random bytes fail with ENOSYS, and instructions whose
// result nobody can know stop it. Not copyable, not movable. One thread at a time.

#ifndef HINDSIGHT_SERVER_TARGET_SCRATCH_PROCESS_H_
#define HINDSIGHT_SERVER_TARGET_SCRATCH_PROCESS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "emulator/cpu/cpu.h"
#include "server/target/target.h"
#include "tracefmt/records.h"

namespace hindsight {

class ScratchProcess final : private Pager {
 public:
  // Reads the recording's memory: as many bytes of `out` as are known from its start.
  using MemorySource = std::function<size_t(uint64_t address, absl::Span<uint8_t> out)>;

  static absl::StatusOr<std::unique_ptr<ScratchProcess>> Create(ThreadRef thread,
                                                                const RegisterFile& registers,
                                                                std::vector<MapRegion> maps,
                                                                MemorySource source);

  const RegisterFile& registers() { return cpu_->registers(); }
  void SetRegisters(const RegisterFile& registers) { cpu_->SetRegisters(registers); }
  // Runs another thread of the process from here on.
  void SetThread(ThreadRef thread, const RegisterFile& registers) {
    thread_ = thread;
    SetRegisters(registers);
  }
  size_t ReadMemory(uint64_t address, absl::Span<uint8_t> out);
  // kNotFound: there is no such memory. As a debugger's writes do, it ignores protection.
  absl::Status WriteMemory(uint64_t address, absl::Span<const uint8_t> bytes);

  // Forward only; watchpoints are not looked at.
  StopEvent Resume(const ResumeRequest& request);

  // What the user is to be told, since last asked.
  std::string TakeText();

 private:
  ScratchProcess(ThreadRef thread, std::vector<MapRegion> maps, MemorySource source)
      : thread_(thread), maps_(std::move(maps)), source_(std::move(source)) {}

  // Pager.
  bool OnMissing(uint64_t page, Access access) override;
  bool OnFirstWrite(uint64_t page) override;

  const MapRegion* RegionOf(uint64_t address) const;
  bool Fetch(uint64_t page);

  // Running.
  StopEvent Event(StopKind kind, int signal = 0) const;
  StopEvent Refuse(const std::string& what, int signal);
  std::optional<StopEvent> Step();
  std::optional<StopEvent> RunChunk(bool skip_first_breakpoint);
  std::optional<StopEvent> StepThroughFault(uint64_t block_count);
  bool AtBreakpoint(const ResumeRequest& request);
  void BeginChunk();
  void UndoChunk();

  // What the emulator leaves to us: the instruction at pc.
  std::optional<StopEvent> Special(const Instruction& instruction);
  // False: it is not one whose effect can be told without the host's processor.
  bool Compute(const Instruction& instruction, RegisterFile* registers);
  // Goes on behind the instruction at pc.
  void Advance(RegisterFile registers, uint64_t length);
  std::optional<StopEvent> Syscall();
  int64_t WriteText(uint64_t address, uint64_t size);
  int64_t MoveBreak(uint64_t end);
  int64_t Protect(uint64_t start, uint64_t size, uint64_t protection);
  int64_t ForgetSignalMask(uint64_t old_mask);
  bool MustWait(const RegisterFile& registers);
  int64_t MapMemory(const RegisterFile& registers);
  int64_t TellTime(uint64_t clock, uint64_t address);
  int64_t GiveRandomBytes(uint64_t address, uint64_t size);
  int64_t DescribeFile(uint64_t descriptor, uint64_t address);
  int64_t NotServed(uint64_t number);

  ThreadRef thread_;
  std::vector<MapRegion> maps_;
  MemorySource source_;
  std::unique_ptr<Cpu> cpu_;
  std::string text_;
  std::set<uint64_t> refused_syscalls_;  // told of already

  // The state at the start of the chunk being run, to come back to when it faults.
  std::unique_ptr<Cpu::SavedState> chunk_start_;
  std::map<uint64_t, std::vector<uint8_t>> old_pages_;
  absl::flat_hash_set<uint64_t> breakpoint_addresses_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_SCRATCH_PROCESS_H_

// The inside of Cpu. Only cpu*.cc include this.

#ifndef HINDSIGHT_EMULATOR_CPU_CPU_IMPL_H_
#define HINDSIGHT_EMULATOR_CPU_CPU_IMPL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "emulator/assist/guest_memory.h"
#include "emulator/assist/instruction_executor.h"
#include "emulator/cpu/block_cache.h"
#include "emulator/cpu/cpu.h"
#include "emulator/cpu/unicorn_engine.h"
#include "emulator/view/code_pages.h"
#include "emulator/view/fault_handler.h"
#include "emulator/view/view.h"

namespace hindsight {

class Cpu::Impl final : public FaultClient, public EngineClient, public GuestMemory {
 public:
  explicit Impl(Pager* pager) : pager_(pager) {}

  absl::Status Open();

  const RegisterFile& registers();
  void SetRegisters(const RegisterFile& registers);

  void Recycle(Pager* pager);

  RunResult Run(const RunOptions& options);
  RunResult Step();
  std::optional<Instruction> next();
  void RequestStop();
  void SetBreakpoints(const absl::flat_hash_set<uint64_t>& addresses);
  void SetWatchpoints(const std::vector<Watchpoint>& watchpoints);
  void LogOrderable(MemoryModel model, std::vector<uint64_t>* counts);
  void CheckAlignment();

  void DropRights(absl::Span<const uint64_t> pages);
  void Release(absl::Span<const uint64_t> pages);
  void ReleaseChunk(uint64_t base);
  void SetRights(uint64_t page, PageRights rights);
  void ContentsChanged(uint64_t page, uint64_t lines);
  void SetCount(uint64_t count);

  // FaultClient, EngineClient: called while an engine runs.
  bool OnHostFault(void* pointer, bool write) override;
  void OnMemory(bool write, uint64_t address, uint32_t size, uint64_t value) override;
  bool OnNewChunk(bool write, uint64_t address) override;

  // GuestMemory.
  bool Read(uint64_t address, absl::Span<uint8_t> out) override;
  bool Write(uint64_t address, absl::Span<const uint8_t> bytes) override;
  bool MayWrite(uint64_t address, absl::Span<uint8_t> old) override;
  uint8_t* Pointer(uint64_t address, size_t size, bool write) override;

  InstructionExecutor executor_;
  bool bridges_here_ = true;  // bridge instructions that are stepped do not go to the engine
  HostFeatures lacking_;      // if the last stop was kSpecial for that

  View view_;
  uint64_t pc_ = 0;
  uint64_t count_ = 0;
  size_t hit_watchpoint_ = 0;
  uint64_t hit_address_ = 0;

 private:
  // What the engine is doing, if it runs.
  enum class Mode : uint8_t {
    kIdle,
    kBlocks,    // whole blocks, counted in OnBlock
    kTrapStep,  // one instruction under TF, counted by Step
    kRepStep,   // one REP instruction, all its iterations
    kAssist,    // one instruction computed here
  };
  struct DecodedSlot {
    uint64_t pc = ~uint64_t{0};
    uint64_t version = 0;
    Instruction instruction;
  };

  // What the InstructionExecutor made of the instruction at an address, perhaps nothing.
  struct AssistSlot {
    uint64_t pc = ~uint64_t{0};
    uint64_t version = 0;
    const InstructionExecutor::Prepared* prepared = nullptr;
  };

  // Instructions that follow each other and are all executed without the engine.
  struct HereRun {
    struct Step {
      const InstructionExecutor::Prepared* prepared;
      bool orderable;
      bool sets_float_control;
    };
    uint64_t pc = ~uint64_t{0};
    uint64_t version = 0;              // of the code,
    uint64_t breakpoints_version = 0;  // and of the breakpoints, none of which lies in it
    bool floats_here = false;
    bool assisted = false;  // not only bridge instructions
    std::vector<Step> steps;
  };

  absl::Status SelectEngine();
  void UpdateEngine();
  RunResult Fault(uint64_t block_count);
  std::optional<RunResult> RunBlocks(const RunOptions& options);
  std::optional<RunResult> StepThrough(const Block& block, const RunOptions& options);
  RunResult StepOne();
  bool TrapStep(const Instruction& instruction);
  bool RepStep(const Instruction& instruction);
  bool TakesOverRep();
  bool FinishRep();
  const InstructionExecutor::Prepared* PrepareAssist(const Instruction& instruction);
  ExecutionResult AssistStep(const InstructionExecutor::Prepared& prepared);
  const Block* BlockToStep();
  bool StepsHere(uint32_t* bridges);
  bool UsesRuns() const { return bridges_here_ && watchpoints_.empty(); }
  const HereRun& FindRun();
  bool RunHere(const RunOptions& options);
  bool ExecuteRun(const HereRun& run);
  const Instruction* KnownNext();
  // Whether the engine must not execute it.
  bool BelongsHere(const Instruction& instruction) const {
    return instruction.policy == Policy::kAssist || (floats_here_ && instruction.floating);
  }
  void NoteFloatControl(const RegisterFile& registers);
  bool Obtain(uint64_t address, bool write);
  bool ObtainRange(uint64_t address, uint64_t size, bool write);
  bool IsWatched(uint64_t address, uint64_t size) const {
    return address < watch_high_ && address + size > watch_low_;
  }
  // Where an access may be made at once.
  uint8_t* Unwatched(uint64_t address, size_t size, bool write) const {
    return IsWatched(address, size) ? nullptr : view_.Direct(address, size, write);
  }
  void ForceExit() { effective_limit_.store(0, std::memory_order_relaxed); }
  void ApplyPendingDrops();
  bool DropRange(uint64_t begin, uint64_t end);
  void DropPage(uint64_t page);
  void RenewEngines();
  void DropLines(uint64_t page, uint64_t lines);
  void Settle(uint64_t page);
  void OnCodeWrite(uint64_t page);
  void NoteTranslated(uint64_t address, uint32_t size);
  bool Unchanged(const Block& block);
  // Instructions executed so far, however often count_ was set anew.
  uint64_t work() const { return count_ + work_offset_; }
  bool HasCode(uint64_t page) const {
    return view_.is_code(page) || code_pages_.state(page) != CodePages::State::kSettled;
  }
  void Poison(uint64_t page);
  bool RunningOn(uint64_t page) const;
  bool EnsureExecutable(uint64_t page);
  Block* Validate(uint64_t address, uint32_t size);
  static void BlockHook(uc_engine* uc, uint64_t address, uint32_t size, void* client);
  bool OnBlock(uint64_t address, uint32_t size);
  bool HasRoomFor(const Block& block) const;
  void Enter(const Block& block);
  void NoteExecuted(const Block& block);
  // Whether the registers allow to run through it.
  bool MayRunThrough(const Block& block) {
    constexpr uint16_t kChecked = Block::kAligned | Block::kUpperHalf | Block::kX87Stack;
    return (block.flags & kChecked) == 0 || PassesChecks(block);
  }
  bool PassesChecks(const Block& block);
  bool IsAligned(const Block& block);
  bool KeepsNoUpperHalf(const Block& block);
  bool FcmovFaults(const Instruction& instruction);
  // Every access is to be looked at, so all is stepped.
  bool checks_accesses() const { return checks_alignment_ && wants_aligned_; }
  bool NextIsAligned(const Instruction& instruction);
  void NoteHit(size_t index, uint64_t address);
  bool Changes(uint64_t address, uint32_t size, uint64_t value, const Watchpoint& watchpoint);

  Pager* pager_;
  std::unique_ptr<UnicornEngine> plain_;
  std::unique_ptr<UnicornEngine> watching_;  // made when first needed
  UnicornEngine* engine_ = nullptr;          // the one that holds the registers now
  RegisterFile registers_;                   // selectors always; the rest if registers_loaded_
  bool registers_loaded_ = false;
  bool engine_stale_ = false;  // registers_ are newer than the engine's: see UpdateEngine

  Mode mode_ = Mode::kIdle;
  BlockCache blocks_;
  Block* blocked_ = nullptr;  // the block OnBlock stopped at
  bool recheck_ = false;      // OnBlock stopped because code must be looked at again
  uint16_t stop_flags_ = 0;   // Block::flags that stop a run
  uint16_t slow_flags_ = 0;   // those, and all others that are more than to be counted
  bool checks_alignment_ = false;
  bool wants_aligned_ = false;  // RFLAGS.AC: only what the engine does not execute changes it
  bool floats_here_ = false;  // generated code does not follow the floating-point control there is
  bool exact_limit_ = true;
  std::atomic<uint64_t> effective_limit_{0};  // 0: stop at the next block
  std::atomic<bool> stop_requested_{false};
  uint64_t rep_looked_at_ = ~uint64_t{0};  // count_ when it was seen whether to take it over
  bool rep_step_at_once_ = false;          // running_rep_, stepped, is Instruction::rep_at_once
  bool rep_taken_over_ = false;            // its rest is to be executed here
  uint64_t block_start_count_ = 0;
  uint64_t block_address_ = 0;
  uint64_t block_size_ = 0;
  uint64_t running_rep_ = Block::kNoAddress;  // the REP instruction the last block ended with

  bool fault_ = false;
  uint64_t fault_address_ = 0;
  // Pages opened to let generated code run on, and what they held.
  struct Poisoned {
    uint64_t page = 0;
    bool new_chunk = false;  // made for it: nothing else is there
    std::vector<uint8_t> contents;
  };
  std::vector<Poisoned> poisoned_;
  // What changed, or is to be looked at before code there is executed, while the engine runs.
  struct PendingDrop {
    uint64_t page = 0;
    uint64_t lines = 0;
  };
  std::vector<PendingDrop> pending_drops_;
  CodePages code_pages_;
  uint64_t garbage_ = 0;  // translations dropped since the engine was new
  uint64_t work_offset_ = 0;
  uint32_t epoch_ = 1;         // raised when a code page lost its rights
  uint64_t code_version_ = 1;  // raised when code changed
  std::vector<DecodedSlot> decoded_ = std::vector<DecodedSlot>(1 << 12);
  std::vector<AssistSlot> assist_slots_ = std::vector<AssistSlot>(1 << 10);

  uint64_t code_writes_ = 0;  // how often a page ceased to be code because it was written to
  std::vector<HereRun> runs_ = std::vector<HereRun>(1 << 9);

  absl::flat_hash_set<uint64_t> breakpoints_;
  uint64_t breakpoints_version_ = 0;  // raised when they change
  std::vector<Watchpoint> watchpoints_;
  uint64_t watch_low_ = 0, watch_high_ = 0;
  bool watch_hit_ = false;
  HitLog* log_ = nullptr;
  MemoryModel memory_model_ = MemoryModel::kKernel;
  std::vector<uint64_t>* orderable_ = nullptr;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPU_CPU_IMPL_H_

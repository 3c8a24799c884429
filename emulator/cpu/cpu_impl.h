// The implementation of Cpu: puts its parts together. Only cpu*.cc include this.
//
//   memory_     the view, paged in on demand; watchpoints          paged_memory.h
//   registers_  the engines, and which side has the registers      engine_registers.h
//   code_       blocks, decoded instructions, changes of code      translated_code.h
//   assist_     what is executed outside the engines               assisted_runs.h
//   progress_   the count, the current block, where to stop        run_progress.h
//   orderable_  the log of orderable instructions                  orderable_log.h
//
// A run, over and over until its limit (cpu_run.cc):
//
//   RunBlocks --> RunOutside    a run of assisted instructions at pc, if there is one; else
//             --> StepThrough   the block at pc, if an engine must not run it; else
//             --> the engine    calls OnBlock before each block, which counts it, or stops there
//                   --> AfterBlocks   acts on the StopReason: Fault, StepThrough, or again
//
// A step is Execute: by AssistStep outside the engines, by TrapStep or RepStep in one.
//
// It has more methods than other classes: the hooks, called while an engine runs, and the loops
// that start engines and act on why they stopped share all parts.

#ifndef HINDSIGHT_EMULATOR_CPU_CPU_IMPL_H_
#define HINDSIGHT_EMULATOR_CPU_CPU_IMPL_H_

#include <cstdint>
#include <optional>

#include "emulator/code/block_cache.h"
#include "emulator/code/translated_code.h"
#include "emulator/cpu/assisted_runs.h"
#include "emulator/cpu/block_filter.h"
#include "emulator/cpu/cpu.h"
#include "emulator/cpu/engine_registers.h"
#include "emulator/cpu/entry_checks.h"
#include "emulator/cpu/orderable_log.h"
#include "emulator/cpu/paged_memory.h"
#include "emulator/cpu/run_progress.h"
#include "emulator/unicorn/unicorn_engine.h"
#include "emulator/view/fault_handler.h"

namespace hindsight {

class Cpu::Impl final : public FaultClient, public EngineClient, public AccessObserver {
 public:
  explicit Impl(Pager* pager) : memory_(pager, this) {}

  absl::Status Open();
  void Recycle(Pager* pager);

  void SetRegisters(const RegisterFile& registers);
  void ContentsChanged(uint64_t page, uint64_t lines);

  RunResult Run(const RunOptions& options);
  RunResult Step();
  // The instruction at `pc`, made present; nullopt if it cannot be read or executed.
  std::optional<Instruction> Decode(uint64_t pc);

  void SetBreakpoints(const absl::flat_hash_set<uint64_t>& addresses);
  void LogOrderable(MemoryModel model, std::vector<uint64_t>* counts);
  void CheckAlignment();

  // FaultClient, EngineClient, AccessObserver: called while an engine or an instruction runs.
  bool OnHostFault(void* pointer, bool write) override;
  bool OnNewChunk(bool write, uint64_t address) override;
  void OnMemory(bool write, uint64_t address, uint32_t size, uint64_t value) override;
  void OnWatchedAccess(bool write, uint64_t address, uint32_t size, uint64_t value) override;
  void OnCodeWrite(uint64_t page) override;

 private:
  friend class Cpu;  // passes calls that concern one part only on to it

  // What is running, if anything.
  enum class Mode : uint8_t {
    kIdle,
    kBlocks,    // whole blocks, counted in OnBlock
    kTrapStep,  // one instruction with the trap flag, counted by StepOne
    kRepStep,   // one REP instruction, all its iterations
    kAssist,    // instructions outside the engines
  };
  // Why a hook stopped the engine, or wants to: reset before each start.
  struct StopReason {
    Block* blocked = nullptr;  // before this block
    bool recheck = false;      // code must be looked at again
    bool fault = false;        // the block cannot be finished
  };
  // The takeover of a REP instruction by assisted execution: see TakesOverRep.
  struct Takeover {
    uint64_t considered_at = ~uint64_t{0};  // the count when it was last considered
    bool step_at_once = false;              // the one that is stepped is Instruction::rep_at_once
    bool taken = false;  // the iterations left are to be executed outside the engine
  };
  // What became of an instruction to be stepped.
  enum class Outcome : uint8_t {
    kDone,
    kFaults,
    kNotHere,  // the recorded process must execute it
  };
  struct Alignment {
    bool checked = false;
    // RFLAGS.AC is set, so of all accesses. Only what an engine does not execute changes it.
    bool of_all = false;
  };

  // cpu.cc: runs.
  void NoteControl(const RegisterFile& registers);
  RunResult Fault(uint64_t block_count);
  void ApplyPending() { code_.ApplyPending(progress_.work()); }
  std::optional<RunResult> RunBlocks(const RunOptions& options);
  std::optional<RunResult> AfterBlocks(UnicornEngine::Exit exit, const RunOptions& options);
  std::optional<RunResult> StepThrough(const Block& block, const RunOptions& options);
  std::optional<RunResult> StepAndLog();

  // cpu_step.cc: single instructions.
  RunResult StepOne();
  Outcome Execute(const Instruction& instruction);
  bool TrapStep(const Instruction& instruction);
  bool RepStep(const Instruction& instruction);
  bool FinishRep();
  ExecutionResult AssistStep(const InstructionExecutor::Prepared& prepared);
  bool FcmovFaults(const Instruction& instruction);
  bool IsAligned(const Instruction& instruction);
  // Every access must be checked, so all instructions are stepped.
  bool checks_accesses() const { return alignment_.checked && alignment_.of_all; }
  const Instruction* DecodeOnce(uint64_t pc);

  // cpu_assist.cc: runs outside the engines.
  const Block* BlockToStep();
  bool StepsOutside(uint32_t* bridges);
  bool UsesRuns() const { return assist_.bridges() && memory_.watchpoints().empty(); }
  bool RunOutside(const RunOptions& options);
  bool ExecuteRun(const AssistedRuns::Run& run);

  // cpu_hooks.cc: inside uc_emu_start.
  static void BlockHook(uc_engine* uc, uint64_t address, uint32_t size, void* client);
  bool OnBlock(uint64_t address, uint32_t size);
  bool OnRepBlock(uint64_t address, uint32_t size);
  bool TakesOverRep();
  bool MayRunThrough(const Block& block) {
    return !HasEntryChecks(block) ||
           PassesEntryChecks(block, progress_.IsIn(block), registers_.engine());
  }
  void NoteExecuted(const Block& block);
  void OnWatchHit(const Watchpoints::Hit& watch_hit);
  bool IsQuiet(const Watchpoints::Hit& hit) const;
  // The block cannot be finished: it runs on to its end, and its state is thrown away.
  void FailBlock() {
    stop_.fault = true;
    progress_.ForceExit();
  }

  PagedMemory memory_;
  EngineRegisters registers_{&memory_.view(), this, BlockHook};
  TranslatedCode code_{&memory_.view(), &registers_};
  AssistedRuns assist_{&memory_.view(), &code_};
  RunProgress progress_;
  OrderableLog orderable_;

  Mode mode_ = Mode::kIdle;
  StopReason stop_;
  Takeover takeover_;
  BlockFilter filter_;
  Alignment alignment_;
  HostFeatures lacking_;  // if the last stop was kSpecial for that
  std::vector<QuietStores> quiet_;
  bool watch_hit_ = false;                // by the instruction that is stepped
  Watchpoints::Hit hit_;                  // of the last one that was hit
  std::vector<Watchpoints::Hit> stores_;  // by the last one that was stepped
  HitLog* log_ = nullptr;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPU_CPU_IMPL_H_

// Instructions prepared for execution outside Unicorn, and straight runs of them, cached by
// address: one lookup, and the instructions of a run are executed one after the other.
//
// Not copyable, not movable. One thread at a time.

#ifndef HINDSIGHT_EMULATOR_CPU_ASSISTED_RUNS_H_
#define HINDSIGHT_EMULATOR_CPU_ASSISTED_RUNS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "emulator/assist/instruction_executor.h"
#include "emulator/code/instruction.h"
#include "emulator/code/translated_code.h"
#include "emulator/view/view.h"
#include "isa/memory_model.h"
#include "isa/registers.h"

namespace hindsight {

class AssistedRuns {
 public:
  // Instructions that follow each other on one page, up to a jump or a breakpoint, all of which are
  // executed outside Unicorn. Plain data.
  struct Run {
    struct Step {
      const InstructionExecutor::Prepared* prepared = nullptr;
      bool orderable = false;
      bool sets_float_control = false;
    };
    uint64_t pc = ~uint64_t{0};
    uint64_t code_version = 0;
    uint64_t version = 0;
    bool floats_outside = false;
    bool assisted = false;  // not only bridge instructions
    std::vector<Step> steps;
  };

  // Both are borrowed.
  AssistedRuns(const View* view, const TranslatedCode* code) : view_(view), code_(code) {}
  AssistedRuns(const AssistedRuns&) = delete;
  AssistedRuns& operator=(const AssistedRuns&) = delete;

  InstructionExecutor& executor() { return executor_; }
  const InstructionExecutor& executor() const { return executor_; }

  // Whether generated code does not follow the floating-point control of `registers`, so that all
  // that depends on it is executed outside Unicorn.
  void NoteFloatControl(const RegisterFile& registers);
  bool floats_outside() const { return floats_outside_; }
  // From now on bridge instructions are left to Unicorn.
  void DisableBridges() { bridges_ = false; }
  bool bridges() const { return bridges_; }

  // Whether Unicorn must not execute it.
  bool MustAssist(const Instruction& instruction) const {
    return instruction.policy == Policy::kAssist || (floats_outside_ && instruction.floating);
  }
  // Whether Unicorn need not execute it.
  bool MayBridge(const Instruction& instruction) const { return bridges_ && instruction.bridge; }

  // `instruction` is at `pc`. nullptr: it cannot be executed outside Unicorn.
  const InstructionExecutor::Prepared* Prepare(uint64_t pc, const Instruction& instruction);

  // The run at `pc`; empty if its first instruction is for Unicorn. Valid until the next call.
  // `decode` gives the instruction at an address, or nullptr.
  const Run& Find(uint64_t pc, MemoryModel model,
                  absl::FunctionRef<const Instruction*(uint64_t pc)> decode);
  // Breakpoints or the memory model have changed: all runs are void.
  void Invalidate() { ++version_; }

 private:
  struct PreparedSlot {
    uint64_t pc = ~uint64_t{0};
    uint64_t code_version = 0;
    const InstructionExecutor::Prepared* prepared = nullptr;
  };

  void Build(uint64_t pc, MemoryModel model,
             absl::FunctionRef<const Instruction*(uint64_t pc)> decode, Run* run);

  const View* const view_;
  const TranslatedCode* const code_;
  InstructionExecutor executor_;
  bool bridges_ = true;
  bool floats_outside_ = false;
  uint64_t version_ = 0;
  std::vector<PreparedSlot> prepared_ = std::vector<PreparedSlot>(1 << 10);
  std::vector<Run> runs_ = std::vector<Run>(1 << 9);
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPU_ASSISTED_RUNS_H_

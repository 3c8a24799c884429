#include "emulator/cpu/assisted_runs.h"

#include "absl/types/span.h"
#include "emulator/unicorn/float_helpers.h"
#include "isa/float_control.h"
#include "tracefmt/records.h"

namespace hindsight {
void AssistedRuns::NoteFloatControl(const RegisterFile& registers) {
  floats_outside_ = HasUnusualFloatControl(registers) || !FloatHelpersInUse();
}

const InstructionExecutor::Prepared* AssistedRuns::Prepare(uint64_t pc,
                                                           const Instruction& instruction) {
  constexpr size_t kLongest = 15;
  const uint64_t page = PageOf(pc);
  PreparedSlot& slot = prepared_[pc & (prepared_.size() - 1)];
  // Elsewhere than on a code page the same address need not hold the same bytes.
  const bool settled = view_->is_code(page);
  if (settled && slot.pc == pc && slot.code_version == code_->version()) [[likely]]
    return slot.prepared;
  uint8_t bytes[kLongest];
  const auto code = absl::MakeSpan(bytes, instruction.length);
  if (!view_->ReadHeld(pc, code)) return nullptr;
  const InstructionExecutor::Prepared* prepared = &executor_.Prepare(code);
  if (prepared->method == InstructionExecutor::Method::kNone) prepared = nullptr;
  if (settled && pc + instruction.length <= page + kPageBytes) {
    slot = {pc, code_->version(), prepared};
  }
  return prepared;
}

const AssistedRuns::Run& AssistedRuns::Find(
    uint64_t pc, MemoryModel model, absl::FunctionRef<const Instruction*(uint64_t pc)> decode) {
  Run& run = runs_[pc & (runs_.size() - 1)];
  if (run.pc == pc && run.code_version == code_->version() && run.version == version_ &&
      run.floats_outside == floats_outside_ && code_->IsFetchable(pc)) [[likely]] {
    return run;
  }
  Build(pc, model, decode, &run);
  run.pc = pc;
  run.code_version = code_->version();
  run.version = version_;
  run.floats_outside = floats_outside_;
  return run;
}

void AssistedRuns::Build(uint64_t pc, MemoryModel model,
                         absl::FunctionRef<const Instruction*(uint64_t pc)> decode, Run* run) {
  constexpr size_t kMaxSteps = 64;
  const uint64_t page = PageOf(pc);
  run->steps.clear();
  run->assisted = false;
  while (run->steps.size() < kMaxSteps && PageOf(pc) == page &&
         !code_->breakpoints().contains(pc)) {
    const Instruction* const instruction = decode(pc);
    if (instruction == nullptr) return;
    const bool assist = MustAssist(*instruction);
    if (!assist && !instruction->bridge) return;
    const InstructionExecutor::Prepared* const prepared = Prepare(pc, *instruction);
    if (prepared == nullptr) return;
    run->assisted |= assist;
    run->steps.push_back(
        {prepared, IsOrderable(*instruction, model), instruction->sets_float_control});
    pc += instruction->length;
    if (instruction->control_flow || instruction->sets_float_control) return;
  }
}

}  // namespace hindsight

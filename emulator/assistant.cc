#include "emulator/assistant.h"

#include <utility>

#include "absl/strings/string_view.h"
#include "emulator/assist.h"
#include "emulator/assist_plan.h"
#include "emulator/needed_features.h"

namespace hindsight {
namespace {

std::unique_ptr<Assistant::Prepared> Make(absl::Span<const uint8_t> code, NativeAssist* native) {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT] = {};
  if (!ZYAN_SUCCESS(
          ZydisDecoderDecodeFull(&decoder, code.data(), code.size(), &instruction, operands))) {
    return nullptr;
  }
  auto prepared = std::make_unique<Assistant::Prepared>();
  if (IsAssisted(instruction)) {
    prepared->computed = true;
    AssistPlan& plan = prepared->native.plan;
    plan.instruction = instruction;
    for (int i = 0; i < ZYDIS_MAX_OPERAND_COUNT; ++i) plan.operands[i] = operands[i];
    plan.needs = NeededFeatures(instruction).value_or(HostFeatures());
    return prepared;
  }
  std::optional<AssistPlan> plan = MakeAssistPlan(instruction, operands, code);
  if (!plan.has_value()) return nullptr;
  absl::StatusOr<NativeInstruction> ready = native->Prepare(*std::move(plan));
  if (!ready.ok()) return nullptr;
  prepared->native = *std::move(ready);
  return prepared;
}

}  // namespace

bool IsAssistable(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands) {
  return IsAssisted(instruction) || CanAssistNatively(instruction, operands);
}

const Assistant::Prepared* Assistant::Prepare(absl::Span<const uint8_t> code) {
  const absl::string_view key(reinterpret_cast<const char*>(code.data()), code.size());
  std::unique_ptr<Prepared>& slot = prepared_[key];
  if (slot == nullptr) slot = Make(code, &native_);
  return slot.get();
}

AssistResult Assistant::Execute(const Prepared& prepared, RegisterFile* registers,
                                AssistMemory* memory) {
  const AssistPlan& plan = prepared.native.plan;
  if (!available_.Has(plan.needs)) [[unlikely]] {
    lacking_ = plan.needs;
    lacking_.Remove(available_);
    return AssistResult::kLacksFeatures;
  }
  const bool done = prepared.computed ? Assist(plan.instruction, plan.operands, registers, memory)
                                      : native_.Run(prepared.native, registers, memory);
  if (!done) return AssistResult::kFaults;
  used_.Add(plan.needs);
  return AssistResult::kDone;
}

}  // namespace hindsight

#include "emulator/assist/assistant.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/string_view.h"
#include "emulator/assist/assist.h"
#include "emulator/assist/assist_plan.h"
#include "emulator/assist/string_operation.h"
#include "isa/decoder.h"
#include "isa/needed_features.h"

namespace hindsight {
namespace {

std::unique_ptr<Assistant::Prepared> Make(absl::Span<const uint8_t> code, NativeAssist* native) {
  using How = Assistant::How;
  auto prepared = std::make_unique<Assistant::Prepared>();
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT] = {};
  if (!Decode(code, &instruction, operands)) return prepared;
  const PlainKind plain = PlainKindOf(instruction, operands);
  if (plain != PlainKind::kNone && plain != PlainKind::kHost) {
    prepared->how = How::kPlain;
    prepared->plain = PlainInstruction(instruction, operands);
    return prepared;
  }
  if (IsStringOperation(instruction)) {
    prepared->how = How::kString;
    prepared->native.plan.instruction = instruction;
    return prepared;
  }
  if (IsAssisted(instruction)) {
    prepared->how = How::kComputed;
    AssistPlan& plan = prepared->native.plan;
    plan.instruction = instruction;
    std::copy(std::begin(operands), std::end(operands), plan.operands);
    plan.needs = NeededFeatures(instruction).value_or(HostFeatures());
    return prepared;
  }
  std::optional<AssistPlan> plan = MakeAssistPlan(instruction, operands);
  if (!plan.has_value()) return prepared;
  absl::StatusOr<NativeInstruction> ready = native->Prepare(*std::move(plan));
  if (!ready.ok()) return prepared;
  prepared->how = How::kNative;
  prepared->native = *std::move(ready);
  return prepared;
}

}  // namespace

bool IsAssistable(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands) {
  return IsAssisted(instruction) || CanAssistNatively(instruction, operands);
}

const Assistant::Prepared& Assistant::Prepare(absl::Span<const uint8_t> code) {
  const absl::string_view key(reinterpret_cast<const char*>(code.data()), code.size());
  std::unique_ptr<Prepared>& slot = prepared_[key];
  if (slot == nullptr) slot = Make(code, &native_);
  return *slot;
}

AssistResult Assistant::Execute(const Prepared& prepared, RegisterFile* registers,
                                AssistMemory* memory) {
  if (prepared.how == How::kPlain) {
    return prepared.plain.Execute(registers, memory) ? AssistResult::kDone : AssistResult::kFaults;
  }
  const AssistPlan& plan = prepared.native.plan;
  if (prepared.how == How::kString) {
    return ExecuteString(plan.instruction, registers, memory) ? AssistResult::kDone
                                                              : AssistResult::kFaults;
  }
  if (!available_.Has(plan.needs)) [[unlikely]] {
    lacking_ = plan.needs;
    lacking_.Remove(available_);
    return AssistResult::kLacksFeatures;
  }
  const bool done = prepared.how == How::kComputed
                        ? Assist(plan.instruction, plan.operands, registers, memory)
                        : native_.Run(prepared.native, registers, memory);
  if (!done) return AssistResult::kFaults;
  used_.Add(plan.needs);
  return AssistResult::kDone;
}

}  // namespace hindsight

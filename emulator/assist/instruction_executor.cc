#include "emulator/assist/instruction_executor.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/string_view.h"
#include "emulator/assist/host_plan.h"
#include "emulator/assist/software_assist.h"
#include "emulator/assist/string_operation.h"
#include "isa/decoder.h"
#include "isa/needed_features.h"

namespace hindsight {
namespace {

std::unique_ptr<InstructionExecutor::Prepared> Make(absl::Span<const uint8_t> code,
                                                    HostAssist* host) {
  using Method = InstructionExecutor::Method;
  auto prepared = std::make_unique<InstructionExecutor::Prepared>();
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT] = {};
  if (!Decode(code, &instruction, operands)) return prepared;
  const BridgeKind kind = BridgeKindOf(instruction, operands);
  if (kind != BridgeKind::kNone && kind != BridgeKind::kHost) {
    prepared->method = Method::kBridge;
    prepared->bridge = BridgeInstruction(instruction, operands);
    return prepared;
  }
  if (IsStringOperation(instruction)) {
    prepared->method = Method::kString;
    prepared->host.plan.instruction = instruction;
    return prepared;
  }
  if (HasSoftwareAssist(instruction)) {
    prepared->method = Method::kSoftware;
    HostPlan& plan = prepared->host.plan;
    plan.instruction = instruction;
    std::copy(std::begin(operands), std::end(operands), plan.operands);
    plan.needs = NeededFeatures(instruction).value_or(HostFeatures());
    return prepared;
  }
  std::optional<HostPlan> plan = MakeHostPlan(instruction, operands);
  if (!plan.has_value()) return prepared;
  absl::StatusOr<HostInstruction> ready = host->Prepare(*std::move(plan));
  if (!ready.ok()) return prepared;
  prepared->method = Method::kHost;
  prepared->host = *std::move(ready);
  return prepared;
}

}  // namespace

bool HasAssist(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands) {
  return HasSoftwareAssist(instruction) || HasHostAssist(instruction, operands);
}

const InstructionExecutor::Prepared& InstructionExecutor::Prepare(absl::Span<const uint8_t> code) {
  const absl::string_view key(reinterpret_cast<const char*>(code.data()), code.size());
  std::unique_ptr<Prepared>& slot = prepared_[key];
  if (slot == nullptr) slot = Make(code, &host_);
  return *slot;
}

ExecutionResult InstructionExecutor::Execute(const Prepared& prepared, RegisterFile* registers,
                                             GuestMemory* memory) {
  if (prepared.method == Method::kBridge) {
    return prepared.bridge.Execute(registers, memory) ? ExecutionResult::kDone
                                                      : ExecutionResult::kFaults;
  }
  const HostPlan& plan = prepared.host.plan;
  if (prepared.method == Method::kString) {
    return ExecuteString(plan.instruction, registers, memory) ? ExecutionResult::kDone
                                                              : ExecutionResult::kFaults;
  }
  if (!available_.Has(plan.needs)) [[unlikely]] {
    lacking_ = plan.needs;
    lacking_.Remove(available_);
    return ExecutionResult::kLacksFeatures;
  }
  const bool done = prepared.method == Method::kSoftware
                        ? ExecuteInSoftware(plan.instruction, plan.operands, registers, memory)
                        : host_.Run(prepared.host, registers, memory);
  if (!done) return ExecutionResult::kFaults;
  used_.Add(plan.needs);
  return ExecutionResult::kDone;
}

}  // namespace hindsight

// Executes instructions without Unicorn, each by the method that suits it:
//
//   software assist   in C++, where that is simple          software_assist.h
//   host assist       in a stub on the host's processor     host_assist.h
//   bridge            in C++, though Unicorn could as well  bridge_instruction.h
//   string            all iterations of a REP at once       string_operation.h
//
// Assisted instructions are those that Unicorn lacks or computes differently. Prepared instructions
// are cached by their bytes.
//
// Not copyable, not movable. One thread at a time, which may change between calls.

#ifndef HINDSIGHT_EMULATOR_ASSIST_INSTRUCTION_EXECUTOR_H_
#define HINDSIGHT_EMULATOR_ASSIST_INSTRUCTION_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "emulator/assist/bridge_instruction.h"
#include "emulator/assist/guest_memory.h"
#include "emulator/assist/host_assist.h"
#include "isa/host_features.h"
#include "isa/registers.h"

namespace hindsight {

// Whether an instruction can be assisted: a property of its bytes, not of the host.
bool HasAssist(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands);

enum class ExecutionResult : uint8_t {
  kDone,
  kFaults,         // nothing changed
  kLacksFeatures,  // nothing changed: the host cannot execute it
};

class InstructionExecutor {
 public:
  enum class Method : uint8_t {
    kNone,  // cannot be executed here, or memory for code ran out
    kSoftware,
    kHost,
    kBridge,
    kString,
  };
  // One instruction, ready to be executed.
  struct Prepared {
    Method method = Method::kNone;
    HostInstruction host;  // its plan has the decoding and the features, unless kBridge
    BridgeInstruction bridge;
  };

  InstructionExecutor() = default;
  InstructionExecutor(const InstructionExecutor&) = delete;
  InstructionExecutor& operator=(const InstructionExecutor&) = delete;

  // Valid during the lifetime of this object.
  const Prepared& Prepare(absl::Span<const uint8_t> code);

  // Whether that is anything but kNone: there are forms that cannot be encoded for the host.
  bool CanExecute(absl::Span<const uint8_t> code) { return Prepare(code).method != Method::kNone; }

  // Executes it and advances rip. Requires: its method is not kNone.
  ExecutionResult Execute(const Prepared& prepared, RegisterFile* registers, GuestMemory* memory);

  // Treats the host as having only `features`.
  void SetHostFeatures(HostFeatures features) { available_ = features; }
  // What the instructions executed so far needed.
  HostFeatures used() const { return used_; }
  void ForgetUsed() { used_ = {}; }
  // What the host lacks for the last instruction that returned kLacksFeatures.
  HostFeatures lacking() const { return lacking_; }

 private:
  HostAssist host_;
  absl::flat_hash_map<std::string, std::unique_ptr<Prepared>> prepared_;  // by code bytes
  HostFeatures available_ = HostFeatures::OfThisHost();
  HostFeatures used_;
  HostFeatures lacking_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_INSTRUCTION_EXECUTOR_H_

// Executes the instructions that Unicorn does not: in C++ (assist.h) or on the host's processor
// (native_assist.h); and plain ones between them (plain_instruction.h). Keeps what it made of an
// instruction's bytes.
//
// Not copyable, not movable. One thread at a time, which may change between calls.

#ifndef HINDSIGHT_EMULATOR_ASSIST_ASSISTANT_H_
#define HINDSIGHT_EMULATOR_ASSIST_ASSISTANT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "emulator/assist/assist_memory.h"
#include "emulator/assist/native_assist.h"
#include "emulator/assist/plain_instruction.h"
#include "isa/host_features.h"
#include "isa/registers.h"

namespace hindsight {

// Whether an instruction is executed here: a property of its bytes, not of the host.
bool IsAssistable(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands);

enum class AssistResult : uint8_t {
  kDone,
  kFaults,         // nothing changed
  kLacksFeatures,  // nothing changed: the host cannot execute it
};

class Assistant {
 public:
  enum class How : uint8_t {
    kNotHere,   // not an instruction that is executed here, or memory for code ran out
    kComputed,  // in C++
    kPlain,     // in C++, and Unicorn could do it as well
    kNative,    // on the host's processor
    kString,    // a repeated string instruction, which Unicorn can do as well: string_operation.h
  };
  // One instruction, ready to be executed.
  struct Prepared {
    How how = How::kNotHere;
    NativeInstruction native;  // its plan has the decoding and the features in any case
    PlainInstruction plain;
  };

  Assistant() = default;
  Assistant(const Assistant&) = delete;
  Assistant& operator=(const Assistant&) = delete;

  // Valid as long as this object.
  const Prepared& Prepare(absl::Span<const uint8_t> code);

  // Requires: it is not kNotHere.
  // Executes it; rip moves on.
  AssistResult Execute(const Prepared& prepared, RegisterFile* registers, AssistMemory* memory);

  // Treats the host as having only these.
  void SetHostFeatures(HostFeatures features) { available_ = features; }
  // What the instructions done so far needed.
  HostFeatures used() const { return used_; }
  void ForgetUsed() { used_ = {}; }
  // What the last one that was not done needed and the host lacks.
  HostFeatures lacking() const { return lacking_; }

 private:
  NativeAssist native_;
  absl::flat_hash_map<std::string, std::unique_ptr<Prepared>> prepared_;  // by code bytes
  HostFeatures available_ = HostFeatures::OfThisHost();
  HostFeatures used_;
  HostFeatures lacking_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_ASSISTANT_H_

// Runs single instructions of the guest on the host's processor, with the guest's registers.
//
// Each instruction gets a stub (stub_writer.h), made once. Faults come back as such; the host's own
// floating-point and vector state stays as it is. The stubs' memory is writable only while one is
// put there, and executable at all other times.
//
// Not copyable, not movable. One thread at a time, which may change between calls.

#ifndef HINDSIGHT_EMULATOR_ASSIST_NATIVE_ASSIST_H_
#define HINDSIGHT_EMULATOR_ASSIST_NATIVE_ASSIST_H_

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "emulator/assist/assist_memory.h"
#include "emulator/assist/assist_plan.h"
#include "emulator/assist/stub_writer.h"
#include "isa/registers.h"

namespace hindsight {

// One instruction, ready to run.
struct NativeInstruction {
  AssistPlan plan;
  StubFunction run = nullptr;  // none for gathers and scatters
  uint64_t end = 0, bail = 0;  // of its code
};

class NativeAssist {
 public:
  NativeAssist();
  ~NativeAssist();
  NativeAssist(const NativeAssist&) = delete;
  NativeAssist& operator=(const NativeAssist&) = delete;

  // The result is valid as long as this object. kResourceExhausted: no memory for code.
  absl::StatusOr<NativeInstruction> Prepare(AssistPlan plan);

  // Executes it; rip moves on. False, and nothing changed, if it faults. Requires: the host has
  // what the plan needs.
  bool Run(const NativeInstruction& instruction, RegisterFile* registers, AssistMemory* memory);

 private:
  struct Extent {
    size_t begin = 0, end = 0;  // bytes of the memory operand
  };

  static Extent FindExtent(const AssistPlan& plan, const RegisterFile& registers);
  bool RunWithMemory(const NativeInstruction& instruction, uint64_t address,
                     RegisterFile* registers, AssistMemory* memory);
  bool RunOnBuffer(const NativeInstruction& instruction, uint64_t address, Extent extent,
                   RegisterFile* registers, AssistMemory* memory);
  bool Call(const NativeInstruction& instruction, void* memory, RegisterFile* registers);

  alignas(64) user_fpregs_struct image_ = {};
  // For operands that cannot be used where they are; any place in the first 64 bytes, so that it
  // has the operand's alignment.
  alignas(64) uint8_t buffer_[128] = {};
  std::vector<uint8_t*> blocks_;  // of code
  size_t used_ = 0;               // in the last one
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_NATIVE_ASSIST_H_

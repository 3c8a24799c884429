// Host assist: runs single guest instructions on the host's processor, with the guest's registers.
//
//   guest bytes -> HostPlan (host_plan.h) -> re-encoded (host_encoding.h) -> stub (stub_writer.h)
//
// Each instruction gets a stub, written once. Faults are returned as such (stub_faults.h); the
// host's own floating-point and vector state is preserved. The stubs' memory is writable only while
// a stub is copied there, and executable at all other times.
//
// Not copyable, not movable. One thread at a time, which may change between calls.

#ifndef HINDSIGHT_EMULATOR_ASSIST_HOST_ASSIST_H_
#define HINDSIGHT_EMULATOR_ASSIST_HOST_ASSIST_H_

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "emulator/assist/guest_memory.h"
#include "emulator/assist/host_plan.h"
#include "emulator/assist/stub_writer.h"
#include "isa/registers.h"

namespace hindsight {

// One instruction with its stub.
struct HostInstruction {
  HostPlan plan;
  StubFunction run = nullptr;  // none for gathers and scatters
  uint64_t end = 0;            // of the stub
  uint64_t bail = 0;           // where it continues after a fault
};

class HostAssist {
 public:
  HostAssist();
  ~HostAssist();
  HostAssist(const HostAssist&) = delete;
  HostAssist& operator=(const HostAssist&) = delete;

  // The result is valid during the lifetime of this object. kResourceExhausted: no memory for code.
  absl::StatusOr<HostInstruction> Prepare(HostPlan plan);

  // Executes it and advances rip. False, with nothing changed, if it faults. Requires: the host has
  // the features that the plan needs.
  bool Run(const HostInstruction& instruction, RegisterFile* registers, GuestMemory* memory);

 private:
  struct Extent {
    size_t begin = 0, end = 0;  // bytes of the memory operand
  };

  static Extent FindExtent(const HostPlan& plan, const RegisterFile& registers);
  bool RunWithMemory(const HostInstruction& instruction, uint64_t address, RegisterFile* registers,
                     GuestMemory* memory);
  bool RunOnBuffer(const HostInstruction& instruction, uint64_t address, Extent extent,
                   RegisterFile* registers, GuestMemory* memory);
  bool Call(const HostInstruction& instruction, void* memory, RegisterFile* registers);

  alignas(64) user_fpregs_struct image_ = {};
  // For operands that cannot be used where they are; any place in the first 64 bytes, so that it
  // has the operand's alignment.
  alignas(64) uint8_t buffer_[128] = {};
  std::vector<uint8_t*> blocks_;  // of code
  size_t used_ = 0;               // in the last one
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_HOST_ASSIST_H_

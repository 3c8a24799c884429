// Runs one instruction on the host's processor with a whole register file loaded: the reference
// that the emulator is compared with. Needs a host with XSAVE.
//
// Neither copyable nor movable; one host thread, one NativeStub at a time: it installs signal
// handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGTRAP while it runs.

#ifndef HINDSIGHT_EMULATOR_CHECKS_NATIVE_STUB_H_
#define HINDSIGHT_EMULATOR_CHECKS_NATIVE_STUB_H_

#include <cstdint>

#include "absl/types/span.h"
#include "isa/registers.h"

namespace hindsight {

class NativeStub {
 public:
  NativeStub();
  ~NativeStub();
  NativeStub(const NativeStub&) = delete;
  NativeStub& operator=(const NativeStub&) = delete;

  // The instruction's address: rip where the same bytes are run elsewhere.
  uint64_t code_address() const;

  // Executes `code`, one instruction that goes on to the next, in `registers`. fs_base, gs_base and
  // the selectors stay the host's own. Returns 0, or the signal it raised; then `registers` is
  // unchanged. Memory the instruction names must be the caller's to read and write.
  int Run(absl::Span<const uint8_t> code, RegisterFile* registers);

 private:
  uint8_t* block_ = nullptr;  // the code and its operands, see native_stub.cc
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CHECKS_NATIVE_STUB_H_

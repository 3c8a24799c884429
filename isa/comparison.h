// Compares the registers that the hardware and the emulator produce, except for the differences
// that are accepted (docs/emulation.md, "Accepted differences").
//
// Stateless; any thread.

#ifndef HINDSIGHT_ISA_COMPARISON_H_
#define HINDSIGHT_ISA_COMPARISON_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "isa/registers.h"

namespace hindsight {

// Which bits must agree after one instruction.
struct Agreement {
  RegisterFile care;  // a bit set: this bit must agree
};

// For the instruction that starts at bytes[0]. Requires: it decodes.
Agreement AgreementFor(absl::Span<const uint8_t> bytes);

// True if `emulated` agrees with `native`.
bool Agree(const Agreement& agreement, const RegisterFile& native, const RegisterFile& emulated);

// "rax 1 (native 2), rflags ..." for a message: the words that disagree.
std::string DescribeDifference(const Agreement& agreement, const RegisterFile& native,
                               const RegisterFile& emulated);

}  // namespace hindsight

#endif  // HINDSIGHT_ISA_COMPARISON_H_

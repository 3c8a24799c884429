// CMPS with two operands that are not there: which of them faults is the first one on AMD's Zen 5,
// the second one on Zen 4.

#ifndef HINDSIGHT_TRANSLATOR_CHECKS_COMPARED_STRINGS_H_
#define HINDSIGHT_TRANSLATOR_CHECKS_COMPARED_STRINGS_H_

#include <cstdint>

#include "isa/registers.h"

namespace hindsight {

// Whether `address` is that of one of two strings that the instruction at pc compares. Requires:
// the 16 bytes at pc can be read.
bool IsComparedString(uint64_t address, const RegisterFile& registers);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_CHECKS_COMPARED_STRINGS_H_

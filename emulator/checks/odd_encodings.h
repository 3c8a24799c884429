// Bytes that no compiler writes, for tests: instructions with prefixes in all orders, up to the
// longest and beyond, and random bytes.

#ifndef HINDSIGHT_EMULATOR_CHECKS_ODD_ENCODINGS_H_
#define HINDSIGHT_EMULATOR_CHECKS_ODD_ENCODINGS_H_

#include <cstdint>
#include <random>
#include <vector>

namespace hindsight {

// Every sequence of at most `prefixes` of the prefixes there are (a few REX for all of them), the
// same one also twice. With three there are some 3,000.
std::vector<std::vector<uint8_t>> PrefixSequences(int prefixes);

// `prefixes`, then a random instruction of the one-byte, the two-byte or the three-byte maps or
// with VEX or EVEX, with a memory operand that exists or a register, and random bytes up to
// kOddBytes.
std::vector<uint8_t> WithPrefixes(const std::vector<uint8_t>& prefixes, std::mt19937_64* random);

// Random prefixes such that the instruction after them ends near the limit of 15 bytes.
std::vector<uint8_t> LongestForm(std::mt19937_64* random);

// Random bytes; prefixes and the escape to the two-byte map are more frequent than others.
std::vector<uint8_t> RandomBytes(std::mt19937_64* random);

// How many bytes those functions give.
inline constexpr size_t kOddBytes = 20;

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CHECKS_ODD_ENCODINGS_H_

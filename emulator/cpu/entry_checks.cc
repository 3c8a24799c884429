#include "emulator/cpu/entry_checks.h"

#include <bit>

#include "emulator/code/x87_stack.h"

namespace hindsight {
namespace {

bool IsAligned(const Block& block, bool again, UnicornEngine* engine) {
  if (again && (block.flags & Block::kKept) != 0) return true;
  for (const AlignmentCheck& check : block.alignment) {
    uint64_t sum = check.constant;
    for (int i = 0; i < check.term_count; ++i) {
      sum += engine->ReadGpr(check.terms[i].gpr) * check.terms[i].factor;
    }
    if (sum % AlignmentCheck::kModulus != 0) return false;
  }
  return true;
}

bool KeepsNoUpperHalf(const Block& block, UnicornEngine* engine) {
  for (const UpperHalfCheck& check : block.upper_halves) {
    if (check.lower != kNoGpr && static_cast<uint32_t>(engine->ReadGpr(check.lower)) != 0) {
      continue;
    }
    if (check.upper == kNoGpr || engine->ReadGpr(check.upper) >> 32 != 0) return false;
  }
  return true;
}

}  // namespace

bool PassesEntryChecks(const Block& block, bool again, UnicornEngine* engine) {
  return ((block.flags & Block::kAligned) == 0 || IsAligned(block, again, engine)) &&
         ((block.flags & Block::kUpperHalf) == 0 || KeepsNoUpperHalf(block, engine)) &&
         ((block.flags & Block::kX87Stack) == 0 || (engine->EmptyX87() & block.x87_needed) == 0);
}

bool ReadsEmptyRegister(absl::Span<const uint8_t> code, const RegisterFile& registers) {
  // The tag word orders physical registers, RegistersOfFcmov() those of the stack.
  const int top = static_cast<int>(registers.fsw >> 11 & 7);
  const unsigned full = static_cast<uint8_t>(std::rotr(static_cast<uint8_t>(registers.ftw), top));
  return (RegistersOfFcmov(code) & ~full) != 0;
}

}  // namespace hindsight

// Which of the status flags (CF, PF, AF, ZF, SF, OF) instructions read, and which they overwrite:
// where none is needed any more, translated code may change them.
//
// A flag that the architecture leaves undefined counts as kept, except AF, which logic leaves
// undefined and no program reads. A flag that an instruction may or may not write counts as kept.
//
// Functions of their arguments; any thread.

#ifndef HINDSIGHT_TRANSLATOR_FLAGS_H_
#define HINDSIGHT_TRANSLATOR_FLAGS_H_

#include <cstdint>
#include <vector>

#include "translator/guest/guest_instruction.h"
#include "translator/translator.h"

namespace hindsight {

inline constexpr uint32_t kStatusFlags = 0x8d5;  // as in RFLAGS

struct FlagUse {
  uint32_t read = 0;
  uint32_t overwritten = 0;
};
FlagUse FlagsOf(const GuestInstruction& instruction);

// Which flags may be read from `pc` on before they are overwritten. Looks at some instructions
// along the path, over direct jumps and calls; adds what it looked at to `relied_on`.
uint32_t FlagsReadFrom(uint64_t pc, const CodeAt& code_at, std::vector<CodeRange>* relied_on);

// Whether it looks beyond such instructions.
bool IsLookedThrough(Control control);

// Which of `wanted` are read from `pc` on, on some path, before they are overwritten, as far as
// some instructions along the paths show, over direct jumps and calls and both ways of `depth`
// conditional jumps. Adds what it looked at to `relied_on`.
uint32_t FlagsSurelyRead(uint64_t pc, uint32_t wanted, const CodeAt& code_at, int depth,
                         std::vector<CodeRange>* relied_on);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_FLAGS_H_

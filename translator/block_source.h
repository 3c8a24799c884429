// The guest's code that becomes a block: which instructions, how they are counted, and which status
// flags must be kept where.
//
// Functions of their arguments; any thread.

#ifndef HINDSIGHT_TRANSLATOR_BLOCK_SOURCE_H_
#define HINDSIGHT_TRANSLATOR_BLOCK_SOURCE_H_

#include <cstdint>
#include <vector>

#include "translator/flags.h"
#include "translator/guest/guest_instruction.h"
#include "translator/translator.h"

namespace hindsight {

// Instructions that are all executed if the first one is, unless one faults: numbers in the block.
// They are counted together.
struct BlockPart {
  int begin = 0;
  int end = 0;                               // after the last one that is counted
  uint32_t flags_read_after = kStatusFlags;  // status flags that are read wherever it leads
};

struct BlockSource {
  std::vector<GuestInstruction> instructions;
  Control control = Control::kNone;  // of the last one
  bool undecodable = false;          // what follows is no instruction
  // At least one if there are instructions. All but the last end with a side exit: a conditional
  // jump forward, after which the block goes on if it is not taken.
  std::vector<BlockPart> parts;
  // [i]: the status flags that are read at or after instruction i before they are overwritten.
  std::vector<uint32_t> flags_read;
  // Before which instruction the flags are put aside, since only what follows the block may read
  // them; -1: they are not.
  int aside_at = -1;
  // A cycle of blocks might have no other one that tests the counter.
  bool must_test = false;
  // Of a call: the status flags that are read where it returns.
  uint32_t flags_read_at_return = kStatusFlags;
  std::vector<CodeRange> relied_on;

  int size() const { return static_cast<int>(instructions.size()); }
  bool LastIsCounted() const {
    return control != Control::kSyscall && control != Control::kRefused;
  }
  int counted() const { return size() - (LastIsCounted() ? 0 : 1); }
  uint64_t next() const { return instructions.back().next(); }
};

// Of request.guest_pc. The instruction with number `refused_at`, if that is not negative, is left
// to the agent whatever it is. Empty: not even one instruction is there as a whole. `memory`: for
// the instructions, which are large; what it has is dropped.
BlockSource ReadBlockSource(const TranslateRequest& request, int refused_at,
                            std::vector<GuestInstruction> memory);

// Whether some of `flags` are surely read where `part`, which is one of the source's, leads outside
// of the block. Adds to source->relied_on.
bool AreReadAfterwards(uint32_t flags, const BlockPart& part, const TranslateRequest& request,
                       BlockSource* source);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_BLOCK_SOURCE_H_

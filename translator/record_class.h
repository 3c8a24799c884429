// How an instruction's accesses to memory are written in flavour record.
//
// A function of its argument; any thread.

#ifndef HINDSIGHT_TRANSLATOR_RECORD_CLASS_H_
#define HINDSIGHT_TRANSLATOR_RECORD_CLASS_H_

#include "translator/guest/guest_instruction.h"

namespace hindsight {

enum class RecordClass : uint8_t {
  kNoMemory,     // none, or none of its bytes are read or written
  kLoadMove,     // mov, movzx: the register becomes what is loaded
  kLoadVector,   // four or eight bytes for an xmm register, of which the rest becomes 0
  kLoadGeneral,  // a source that may as well be a general register
  kLoad,         // any other source
  // AVX-512: only what a mask says is accessed, and may be there.
  kLoadMasked,  // a vector becomes what is loaded; also by the mask that a vector is
  kTestMasked,  // a mask register becomes what is found out; it is not the mask
  kStore,       // can be done twice
  kStorePop,    // x87: can be done twice, popping the second time
  kStoreOnce,   // into the view, and then copied
  kUpdate,      // read and written: could as well be done to a general register
  kPush,
  kPop,
  kPushFlags,
  kPopFlags,
  kEnter,
  kLeave,
  kTranslateByte,  // xlat
  kOperation,      // left to the agent: translator/runtime/operation.h
  kFence,          // likewise, if it is an event
  kRefused,
};
RecordClass RecordClassOf(const GuestInstruction& instruction);

// Of moves of vectors by a mask, what one bit of that is for; 0: it is none.
int MaskedElementBytes(ZydisMnemonic mnemonic);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_RECORD_CLASS_H_

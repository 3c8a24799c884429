// Lets an instruction of the guest run although r10 and r11 are not the guest's, its code is not
// where it was, and GS has another base: what it uses of those is brought into other registers
// first, and results are brought back.
//
// Borrows the instruction and the writer. One instruction, one thread.

#ifndef HINDSIGHT_TRANSLATOR_SUBSTITUTION_H_
#define HINDSIGHT_TRANSLATOR_SUBSTITUTION_H_

#include <cstdint>

#include "translator/block_writer.h"
#include "translator/encoding.h"
#include "translator/guest_instruction.h"

namespace hindsight {

// Registers to work with: r11, and then such as have been spilled.
class Temporaries {
 public:
  // None that `instruction` uses.
  Temporaries(const GuestInstruction& instruction, BlockWriter* writer);

  // At most four. Writes the spill. For an instruction that uses ah, bh, ch or dh, and so cannot
  // have REX, it is one of the first eight registers.
  int Take();
  // The same, but never r11.
  int TakeSpilled();
  // `number` itself, spilled, so that it may be overwritten.
  void Spill(int number);
  // Restores those that were spilled. None is left.
  void Release();

 private:
  BlockWriter* writer_;
  uint16_t avoid_;  // bit i: register i is in use
  bool r11_taken_;
  int spilled_ = 0;
};

class Substitution {
 public:
  Substitution(const GuestInstruction& instruction, BlockWriter* writer, Temporaries* temporaries);

  // Whether the instruction can be copied as it is.
  bool IsNeeded() const;

  // Loads what is used of guest r10 and r11.
  void LoadRegisters();
  // The memory operand in host registers, without GS; after LoadRegisters.
  HostAddress Address();
  // Replaces r10 and r11 in `encoding`, not in its memory operand.
  void Apply(Encoding* encoding) const;
  // Brings results to guest r10 and r11.
  void StoreRegisters();

  // The host register for register `number` of the guest.
  int Host(int number) const;

 private:
  struct Reserved {
    int guest;
    int field;  // offset in the thread block
    int host = -1;
    bool read = false, written = false;
  };

  void NoteOperand(const ZydisDecodedOperand& operand);
  HostAddress Reachable(HostAddress address);

  const GuestInstruction& instruction_;
  BlockWriter* writer_;
  Temporaries* temporaries_;
  const ZydisDecodedOperand* memory_;
  Reserved reserved_[2];
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_SUBSTITUTION_H_

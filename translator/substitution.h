// Lets an instruction of the guest run although r10 and r11 are not the guest's, its code is not
// where it was, and GS has another base: what it uses of those is brought into other registers
// first, and results are brought back.
//
// Borrows the instruction and the writer. One instruction, one thread.

#ifndef HINDSIGHT_TRANSLATOR_SUBSTITUTION_H_
#define HINDSIGHT_TRANSLATOR_SUBSTITUTION_H_

#include <cstdint>

#include "isa/registers.h"
#include "translator/block_writer.h"
#include "translator/guest/encoding.h"
#include "translator/guest/guest_instruction.h"

namespace hindsight {

// Registers to work with: r11, and then such as have been spilled.
class Temporaries {
 public:
  // None that `instruction` uses.
  Temporaries(const GuestInstruction& instruction, BlockWriter* writer);

  // Writes the spill. For an instruction that uses ah, bh, ch or dh, and so cannot have REX, it is
  // one of the first eight registers. rcx comes last, of the others what RegisterChoice finds. Any
  // register, and failed(), if there is no more.
  int Take();
  // A slot of save[] that no spill uses, and none will use before Release. -1, and failed(), if
  // there is none.
  int TakeSlot();
  bool failed() const { return failed_; }
  // Restores those that were spilled, unless the writer may keep it. None is left.
  void Release();
  // The same where they have been restored already.
  void Forget();

 private:
  int Spill();

  BlockWriter* writer_;
  uint16_t avoid_;  // bit i: register i is in use
  bool r11_taken_;
  bool failed_ = false;
  const int first_;  // slot; the one before has what is kept
  bool kept_taken_ = false;
  int spilled_;       // in the slots up to this
  int reserved_ = 0;  // the last slots
};

class Substitution {
 public:
  Substitution(const GuestInstruction& instruction, BlockWriter* writer, Temporaries* temporaries);

  // Whether the instruction can be copied as it is.
  bool IsNeeded() const;

  // Loads what is used of guest r10 and r11.
  void LoadRegisters();
  // The memory operand in host registers, without GS and, if it is to be `flat`, without FS and so
  // that its view can be addressed. After LoadRegisters.
  HostAddress Address(bool flat = false);
  // The same for another address in terms of the guest's registers.
  HostAddress Translate(HostAddress address, bool flat);
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
  static bool IsR11(const Reserved& reserved) {
    return reserved.guest == kR11 && reserved.host == kR11;
  }
  HostAddress Reachable(HostAddress address);
  HostAddress Shiftable(const HostAddress& address);
  HostAddress WithBase(HostAddress address, int base_field);

  const GuestInstruction& instruction_;
  BlockWriter* writer_;
  Temporaries* temporaries_;
  const ZydisDecodedOperand* memory_;
  Reserved reserved_[2];
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_SUBSTITUTION_H_

// Which register of the guest to work with where one must be spilled. Each is correct; what differs
// is who waits for the value that comes back: nobody, if the guest overwrites the register before
// it reads it.
//
// Borrows the instructions. One thread at a time.

#ifndef HINDSIGHT_TRANSLATOR_GUEST_REGISTER_CHOICE_H_
#define HINDSIGHT_TRANSLATOR_GUEST_REGISTER_CHOICE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "translator/guest/guest_instruction.h"

namespace hindsight {

class RegisterChoice {
 public:
  // Of a block; it is taken to be a loop, as those that matter are.
  explicit RegisterChoice(absl::Span<const GuestInstruction> instructions)
      : instructions_(instructions) {}

  // Instruction `index` is being written.
  void Advance(size_t index) { index_ = index; }
  // The best of `candidates` (bit i: register i) at this instruction, which does not use it. -1:
  // there are none.
  int Take(uint16_t candidates);

 private:
  struct Use {
    uint16_t read = 0;         // also in part
    uint16_t overwritten = 0;  // as a whole, and not read
  };
  static Use UseOf(const GuestInstruction& instruction);
  int Find(uint16_t candidates);
  int LeastTaken(uint16_t candidates) const;

  const absl::Span<const GuestInstruction> instructions_;
  std::vector<Use> uses_;  // of all, once they are needed
  size_t index_ = 0;
  std::array<uint8_t, 16> taken_ = {};  // how often each was
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_GUEST_REGISTER_CHOICE_H_

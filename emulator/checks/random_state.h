// Random operand values that reach the corners: zeros, ones, single bits, denormals, infinities,
// NaNs, numbers near the limits of conversion. For tests; deterministic for a seed.

#ifndef HINDSIGHT_EMULATOR_CHECKS_RANDOM_STATE_H_
#define HINDSIGHT_EMULATOR_CHECKS_RANDOM_STATE_H_

#include <cstdint>
#include <random>

#include "isa/registers.h"

namespace hindsight {

class RandomState {
 public:
  explicit RandomState(uint64_t seed) : random_(seed) {}

  std::mt19937_64& random() { return random_; }
  uint64_t Below(uint64_t limit) { return random_() % limit; }
  // An integer.
  uint64_t Integer();
  // A double, or two floats.
  uint64_t Float();
  // A register file as a program could have it, all exceptions masked. rip, rsp and the segments
  // are zero. Mostly all x87 registers are in use. The extended registers that the host has are
  // random too.
  RegisterFile Registers();
  // An MXCSR with anything in it: flags, flush-to-zero, now and then exceptions that are not
  // masked.
  uint64_t Mxcsr();

 private:
  void X87(RegisterFile* registers);
  void Fill(uint64_t* words, size_t count);
  void Extended(RegisterFile* registers);

  std::mt19937_64 random_;
};

// Frees the x87 register that an instruction of this mnemonic pushes into, if it does.
void MakeRoomFor(uint16_t mnemonic, RegisterFile* registers);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CHECKS_RANDOM_STATE_H_

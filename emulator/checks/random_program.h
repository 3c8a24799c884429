// Random programs of many small blocks that jump to each other, use memory and the stack, and now
// and then write to their own code.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_CHECKS_RANDOM_PROGRAM_H_
#define HINDSIGHT_EMULATOR_CHECKS_RANDOM_PROGRAM_H_

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "isa/registers.h"

namespace hindsight {

struct RandomProgram {
  RegisterFile start;
  // What memory holds at the start; other pages do not exist.
  std::map<uint64_t, std::vector<uint8_t>> pages;
};

// It ends with `syscall` after some thousand instructions, or with an access to a page that does
// not exist. `patches`: how many of a hundred instructions write to code.
RandomProgram MakeRandomProgram(std::mt19937_64* random, unsigned patches);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CHECKS_RANDOM_PROGRAM_H_

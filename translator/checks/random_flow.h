// Random programs with branches of every kind: conditional, loops, calls, returns, indirect ones
// through every register and through memory. Most never end. For tests.
//
// A value of its seed. One thread.

#ifndef HINDSIGHT_TRANSLATOR_CHECKS_RANDOM_FLOW_H_
#define HINDSIGHT_TRANSLATOR_CHECKS_RANDOM_FLOW_H_

#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "translator/checks/random_form.h"

namespace hindsight {

// What a program is to be compared with.
enum class FlowUse : uint8_t {
  kStepped,   // itself, stepped: nothing that shows the trap flag, or where code lies
  kReplayed,  // what the emulator makes of it
};

class RandomFlow {
 public:
  // Code of at most `room` bytes at `pc`; operands in `memory`.
  RandomFlow(FlowUse use, uint64_t pc, uint64_t room, const OperandMemory& memory,
             std::mt19937_64* random);

  uint64_t begin() const { return pc_; }
  const std::vector<uint8_t>& code() const { return code_; }
  // Guest pcs of its blocks, for memory that is popped and jumped through.
  const std::vector<uint64_t>& blocks() const { return blocks_; }
  // Makes the registers that programs address memory with do so.
  static void Aim(const OperandMemory& memory, std::mt19937_64* random, RegisterFile* registers);

 private:
  uint64_t Below(uint64_t limit) { return (*random_)() % limit; }
  uint64_t here() const { return pc_ + code_.size(); }
  // The beginning of a block or, sometimes, a place within one.
  uint64_t AnyBlock();
  void Bytes(std::initializer_list<uint64_t> bytes);
  void Rel32(uint64_t target);
  void Pad(uint64_t until);
  void Body();
  void End();
  void Conditional();
  void Loop();
  void Indirect();

  const FlowUse use_;
  uint64_t pc_;
  const OperandMemory memory_;
  std::mt19937_64* random_;
  std::vector<uint8_t> code_;
  std::vector<uint64_t> blocks_;
  std::vector<uint64_t> inner_;  // where instructions begin
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_CHECKS_RANDOM_FLOW_H_

// Runs guest code in the emulator, from the state and the memory that it was run with as its
// translation, and says what differs: a replay of what a recording would tell.
//
// Owns a Cpu with its own copy of memory and code. One thread.

#ifndef HINDSIGHT_TRANSLATOR_CHECKS_EMULATED_RUN_H_
#define HINDSIGHT_TRANSLATOR_CHECKS_EMULATED_RUN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "emulator/assist/instruction_executor.h"
#include "emulator/cpu/cpu.h"
#include "isa/registers.h"
#include "translator/checks/translated_run.h"
#include "translator/guest/guest_instruction.h"

namespace hindsight {

class EmulatedRun final : public Pager {
 public:
  // Guest addresses, multiples of kPageBytes.
  struct Region {
    uint64_t begin = 0, bytes = 0;
  };
  EmulatedRun(Region memory, Region code);
  ~EmulatedRun() override;

  // Whether a replay takes what the instruction does from the trace; then the agent executes it.
  bool NeedsSideEffect(absl::Span<const uint8_t> instruction);

  // Puts `memory` and `code` into the view and executes from `registers` to the state that
  // `translated` stopped in, with what was told on the way. "": all agrees but what processors may
  // leave undefined, or up to where the program read a flag that is undefined and was not told.
  std::string Compare(const RegisterFile& registers, absl::Span<const uint8_t> memory,
                      absl::Span<const uint8_t> code, absl::Span<const ToldState> told,
                      const GuestStop& translated, absl::Span<const uint8_t> memory_after);
  uint64_t instructions() const { return instructions_; }
  // How many programs read undefined flags that were not told.
  uint64_t untold() const { return untold_; }

  // Whether the last run came to memory of neither region.
  bool left_memory() const { return left_memory_; }

  bool OnMissing(uint64_t page, Access access) override;
  bool OnFirstWrite(uint64_t page) override { return page - code_.begin >= code_.bytes; }

 private:
  void Fill(Region region, absl::Span<const uint8_t> bytes);
  std::string RunTo(uint64_t count);
  // The instruction at the present pc. False: there is none.
  bool DecodeNext(GuestInstruction* instruction) const;
  void TakeSplitStore(absl::Span<const uint8_t> memory_after);
  void PassFlags();

  const Region memory_, code_;
  InstructionExecutor executor_;
  std::unique_ptr<Cpu> cpu_;
  uint32_t undefined_ = 0;  // flags
  bool read_undefined_ = false, left_memory_ = false;
  uint64_t instructions_ = 0, untold_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_CHECKS_EMULATED_RUN_H_

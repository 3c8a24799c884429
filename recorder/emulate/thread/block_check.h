// Compares a piece of a program as the emulator executes it with the same piece executed by the
// recorded thread itself, instruction by instruction: registers, and the memory written.
//
//            emulate as a whole --- step natively --- compare: the same
//   start --<                                             |
//            step both, comparing after each  <---- not --+---> the instruction that differs
//
// Afterwards the Cpu and the process's memory and registers are those of the start again, with one
// exception: what the kernel has stored in the thread's struct rseq meanwhile stays in the
// process's memory, and is not in the Cpu's. What the architecture leaves undefined, and the
// accepted differences of docs/emulation.md, are not compared (comparison.h).
//
// Borrows the thread and the Cpu. Not copyable, not movable. The host thread that traces.

#ifndef HINDSIGHT_RECORDER_EMULATE_THREAD_BLOCK_CHECK_H_
#define HINDSIGHT_RECORDER_EMULATE_THREAD_BLOCK_CHECK_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emulator/code/instruction.h"
#include "emulator/cpu/cpu.h"
#include "isa/comparison.h"
#include "recorder/process/rseq.h"
#include "recorder/ptrace/tracee.h"

namespace hindsight {

class BlockCheck {
 public:
  // How to page for the Cpu and to run the thread.
  struct Hooks {
    std::function<std::vector<uint64_t>()> dirty_pages;  // written since the start
    std::function<bool()> back_to_start;                 // brings the Cpu there
    // Whether the thread may execute what the Cpu has executed since the start.
    std::function<bool()> may_step;
    std::function<TraceeStop()> step;  // has the thread execute one instruction, or one iteration
  };
  enum class Verdict : uint8_t {
    kAgrees,
    kDiffers,
    kNotChecked,   // something in it cannot be compared
    kInterrupted,  // the thread reported `stop` instead of executing an instruction
  };
  struct Outcome {
    Verdict verdict = Verdict::kNotChecked;
    std::string difference;          // kDiffers
    std::optional<TraceeStop> stop;  // kInterrupted
  };

  // `rseq`: where the thread's struct rseq lies, which the kernel writes to; 0: it has none.
  BlockCheck(Tracee* tracee, Cpu* cpu, Hooks hooks, uint64_t rseq)
      : tracee_(tracee), cpu_(cpu), hooks_(std::move(hooks)), rseq_(rseq) {}
  BlockCheck(const BlockCheck&) = delete;
  BlockCheck& operator=(const BlockCheck&) = delete;

  // Executes about `instructions`, to the end of a block, from the Cpu's present state. Requires:
  // the process's memory is that of this state, no other thread or process changes it, and no
  // signal is pending.
  Outcome Run(uint64_t instructions);

 private:
  struct SavedPage {
    uint64_t address = 0;
    std::array<uint8_t, kPageBytes> bytes;
  };
  enum class Stepped : uint8_t { kDone, kNotComparable, kStopped };

  Outcome RunAndCompare(uint64_t instructions);
  Outcome Compare(uint64_t executed);
  Outcome FindInstruction(uint64_t executed, const RegisterFile& as_a_whole);
  Outcome StepBoth(uint64_t executed, const RegisterFile& as_a_whole);
  Stepped StepNatively(const Instruction& instruction, uint64_t pc);
  bool Decode(uint64_t pc, Instruction* instruction, std::vector<uint8_t>* code) const;
  bool NextOfCpu(Instruction* instruction, std::vector<uint8_t>* code) const;
  bool InSequence(uint64_t pc) const;
  bool SavePages();
  bool Restore();
  bool IsInRseq(uint64_t address) const;
  void NoteRseqStores();
  void RestoreRseqStores();
  std::string DifferentMemory() const;
  std::string Describe(uint64_t pc, const std::vector<uint8_t>& code,
                       const std::string& what) const;
  Outcome Stopped();

  Tracee* const tracee_;
  Cpu* const cpu_;
  const Hooks hooks_;
  const uint64_t rseq_;
  RegisterFile start_;
  std::vector<SavedPage> saved_;  // of the process, from before they were written
  // What the kernel has stored in struct rseq, where that lies in a page that was restored.
  std::array<std::optional<uint8_t>, kRseqBytes> rseq_stores_;
  TraceeStop stop_;
  int iterations_left_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_BLOCK_CHECK_H_

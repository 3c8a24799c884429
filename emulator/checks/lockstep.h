// Runs a real process and a Cpu side by side, instruction by instruction, and compares all
// registers after each and the memory written after every few thousand.
//
// What the policy does not give to the emulator is taken over from the process; CPUID is answered
// for both as the recorder answers it. Borrows the process. Not copyable, not movable.

#ifndef HINDSIGHT_EMULATOR_CHECKS_LOCKSTEP_H_
#define HINDSIGHT_EMULATOR_CHECKS_LOCKSTEP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "emulator/checks/stepped_process.h"
#include "emulator/cpu/cpu.h"
#include "isa/comparison.h"
#include "isa/cpuid.h"

namespace hindsight {

struct LockstepReport {
  struct Finding {
    uint64_t times = 0;
    std::string first;  // where, and what differed
  };
  uint64_t instructions = 0;  // executed by the process
  uint64_t compared = 0;      // of them, executed by the emulator and compared
  uint64_t refused = 0;       // of them, touched memory that cannot be read from outside
  std::map<std::string, Finding> differences;          // by mnemonic; "memory" for contents
  std::map<std::string, uint64_t> taken_from_process;  // by mnemonic
  absl::flat_hash_set<uint16_t> mnemonics;             // compared
  bool exited = false;
  int wait_status = 0;
};

class Lockstep final : public Pager {
 public:
  // `model`: what CPUID answers to the process.
  static absl::StatusOr<std::unique_ptr<Lockstep>> Create(SteppedProcess* process,
                                                          CpuModel model = CpuModel::kPortable);

  // Goes on until the process is gone or `limit` instructions have run.
  const LockstepReport& Run(uint64_t limit);

  bool OnMissing(uint64_t page, Access access) override;
  bool OnFirstWrite(uint64_t page) override;

 private:
  Lockstep(SteppedProcess* process, CpuModel model) : process_(process), cpu_model_(model) {}

  bool AdvanceOne();
  bool Compare(const Instruction& instruction, absl::Span<const uint8_t> bytes, uint64_t pc);
  bool TakeFromProcess(bool memory_changed);
  bool StepProcess(uint64_t pc, bool rep);
  void AnswerCpuidForBoth();
  void CompareMemory();
  void ForgetMemory();
  void Note(const std::string& mnemonic, std::string what);
  const Agreement& AgreementOf(absl::Span<const uint8_t> bytes);

  SteppedProcess* const process_;
  const CpuModel cpu_model_;
  std::unique_ptr<Cpu> cpu_;
  LockstepReport report_;
  std::vector<uint64_t> held_;   // pages with rights
  std::vector<uint64_t> dirty_;  // pages written by the Cpu since they were compared
  absl::flat_hash_map<std::string, std::unique_ptr<Agreement>> agreements_;  // by code bytes
  uint64_t page_refused_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CHECKS_LOCKSTEP_H_

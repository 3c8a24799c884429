// Executes arbitrary bytes as one instruction in a BareProcess and in a Cpu, stepped and with its
// block, and compares: length, registers, memory.
//
// Not copyable, not movable. One thread.

#ifndef HINDSIGHT_EMULATOR_CHECKS_PREFIX_BENCH_H_
#define HINDSIGHT_EMULATOR_CHECKS_PREFIX_BENCH_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "emulator/checks/bare_process.h"
#include "emulator/checks/random_state.h"
#include "emulator/cpu/cpu.h"
#include "isa/comparison.h"

namespace hindsight {

class PrefixBench {
 public:
  // What one execution showed.
  struct Result {
    bool run = false;        // false: not for the Cpu, nothing compared
    bool completed = false;  // on both sides, alike
    std::string wrong;       // empty: they agree
  };

  static absl::StatusOr<std::unique_ptr<PrefixBench>> Create(uint64_t seed);
  ~PrefixBench();
  PrefixBench(const PrefixBench&) = delete;
  PrefixBench& operator=(const PrefixBench&) = delete;

  std::mt19937_64* random() { return &state_.random(); }
  // At most kMaxBytes. An error: there is no process to compare with.
  absl::StatusOr<Result> Run(absl::Span<const uint8_t> bytes);
  static constexpr size_t kMaxBytes = 20;

 private:
  class CodePager;
  explicit PrefixBench(uint64_t seed);
  absl::Status RenewCpu();
  void PlaceCode(absl::Span<const uint8_t> bytes);
  void FillMemory();
  void CopyMemoryToCpu();
  RegisterFile Operands(const Instruction& instruction);
  void Start(const RegisterFile& registers);
  std::string Compare(const Agreement& agreement, const RegisterFile& host);
  std::string RunInBlock(const Agreement& agreement, const RegisterFile& before,
                         const RegisterFile& host);

  RandomState state_;
  std::unique_ptr<BareProcess> process_;
  std::unique_ptr<CodePager> pager_;
  std::unique_ptr<Cpu> cpu_;
  std::vector<uint8_t> memory_;  // before
  uint64_t next_code_ = 0;
  uint64_t code_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CHECKS_PREFIX_BENCH_H_

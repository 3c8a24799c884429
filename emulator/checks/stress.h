// Executes single instructions with random operands on the host and in a Cpu and compares all
// registers and memory.
//
// Not copyable, not movable. One thread; one at a time in a process (it owns fixed addresses). Its
// fields are the two machines and the one instruction they execute: a test's fixture.

#ifndef HINDSIGHT_EMULATOR_CHECKS_STRESS_H_
#define HINDSIGHT_EMULATOR_CHECKS_STRESS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "emulator/checks/encodings.h"
#include "emulator/checks/native_stub.h"
#include "emulator/checks/random_state.h"
#include "emulator/cpu/cpu.h"
#include "isa/comparison.h"

namespace hindsight {

enum class Verdict : uint8_t {
  kAgrees,  // the same registers and memory, or a fault on both sides
  kNotRun,  // not emulated, or jumps, or needs operands the bench does not make
  kOnlyHostFaults,
  kOnlyEmulatorFaults,
  kDiffers,
};

struct StressResult {
  Verdict verdict = Verdict::kNotRun;
  std::string what;      // if kDiffers
  bool faulted = false;  // on both sides
};

// Many fields: the two sides that it compares, and what both begin with.
class StressBench {
 public:
  static absl::StatusOr<std::unique_ptr<StressBench>> Create(uint64_t seed);
  ~StressBench();

  std::mt19937_64* random() { return &state_.random(); }
  // Makes `encoding` the instruction to run. False: kNotRun.
  bool Load(const Encoding& encoding);
  // Runs it once with new operands.
  StressResult Run();
  // The same for an instruction that the Cpu computes itself where that is quicker, and jumps: once
  // so and once in Unicorn, which must agree in everything. False: kNotRun.
  bool LoadBridge(const Encoding& encoding);
  StressResult RunBridge();
  // From now on memory operands are misaligned, and the Cpus check that.
  void Misalign();
  // The same for an instruction in a block: once run through with the block, after another that
  // sets flags, and once stepped. The results must agree completely, undefined flags included: what
  // is recorded in one way may be replayed in the other.
  StressResult RunInBlock();

 private:
  class ZeroPager;
  struct Machine {
    std::unique_ptr<ZeroPager> pager;
    std::unique_ptr<Cpu> cpu;
  };
  static absl::StatusOr<Machine> MakeMachine();
  explicit StressBench(uint64_t seed);
  RegisterFile Operands();
  void UnusualControl(RegisterFile* registers);
  void AssistedOperands(RegisterFile* registers);
  uint64_t Destination();
  bool GoesToHost();
  void ClearMisalignedMask();
  void FindIndexRegister();
  void FillMemory();
  void CopyMemory(Cpu* cpu) const;
  void PutCode(Cpu* cpu) const;
  StressResult CompareMachines(const RunResult& here, const RunResult& other);
  StressResult Compare(int host_signal, const RegisterFile& host, const RunResult& emulated);

  RandomState state_;
  NativeStub stub_;
  Machine machine_;
  Cpu* cpu_ = nullptr;  // machine_'s
  Machine unicorn_;     // leaves bridge instructions to Unicorn
  uint8_t* host_memory_ = nullptr;
  uint64_t next_code_ = 0;
  Encoding encoding_;
  Instruction instruction_;
  Agreement agreement_;
  bool misaligned_ = false;
  bool on_host_ = false;     // the instruction is executed on the host
  int index_register_ = -1;  // of a gather or scatter
  bool wide_index_ = false;
  uint64_t destination_ = 0;
  uint64_t code_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CHECKS_STRESS_H_

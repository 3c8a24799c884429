// Executes arbitrary bytes by host assist, if it accepts them, and checks that nothing of the
// host's is read or written but the operand: the registers point into memory that must not matter,
// and the operand ends at a page that must not be touched.
//
// Not copyable, not movable. One thread; one at a time in a process (it owns fixed addresses).

#ifndef HINDSIGHT_EMULATOR_CHECKS_ASSIST_PROBE_H_
#define HINDSIGHT_EMULATOR_CHECKS_ASSIST_PROBE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "emulator/assist/host_assist.h"
#include "emulator/checks/random_state.h"

namespace hindsight {

class AssistProbe {
 public:
  struct Result {
    bool assisted = false;   // it was executed on the host,
    bool completed = false;  // without a fault
    std::string wrong;       // empty: nothing was reached
  };

  static absl::StatusOr<std::unique_ptr<AssistProbe>> Create(uint64_t seed);
  ~AssistProbe();
  AssistProbe(const AssistProbe&) = delete;
  AssistProbe& operator=(const AssistProbe&) = delete;

  // `code` begins with an instruction, or not.
  Result Try(absl::Span<const uint8_t> code);

 private:
  class Operand;
  struct Outcome {
    bool done = false;
    RegisterFile registers;
    std::vector<uint8_t> operand;
    bool operator==(const Outcome&) const = default;
  };

  explicit AssistProbe(uint64_t seed) : state_(seed) {}
  RegisterFile Registers();
  Outcome Run(const HostInstruction& instruction, const RegisterFile& before, uint8_t fill,
              bool at_end);

  RandomState state_;
  std::unique_ptr<HostAssist> assist_;
  int prepared_ = 0;
  uint8_t* forbidden_ = nullptr;  // below 4 GB
  uint8_t* pages_ = nullptr;      // two, the second of which has no rights
  std::string touched_;           // what a Run reached that it must not
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CHECKS_ASSIST_PROBE_H_

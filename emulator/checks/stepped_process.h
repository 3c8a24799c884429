// A child process that is single-stepped: the hardware's side of a lockstep comparison.
//
// Owns the process and kills it at the end. Not copyable, not movable. Every call must come from
// the thread that launched it (ptrace).

#ifndef HINDSIGHT_EMULATOR_CHECKS_STEPPED_PROCESS_H_
#define HINDSIGHT_EMULATOR_CHECKS_STEPPED_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "isa/registers.h"

namespace hindsight {

class SteppedProcess {
 public:
  // Keeps the calling thread, and the processes it launches, on one processor: they take turns at
  // every instruction, and the kernel writes a thread's processor number into its memory (rseq).
  static void StayOnOneProcessor();
  // Starts `argv` with standard input and output at /dev/null, stopped before its first
  // instruction, at addresses that are the same every time.
  static absl::StatusOr<std::unique_ptr<SteppedProcess>> Launch(
      const std::vector<std::string>& argv);
  ~SteppedProcess();
  SteppedProcess(const SteppedProcess&) = delete;
  SteppedProcess& operator=(const SteppedProcess&) = delete;

  RegisterFile registers() const;
  void SetRegisters(const RegisterFile& registers);

  // Executes one instruction, or one iteration of a repeated one; a signal that was pending is
  // delivered instead. False: the process is gone.
  bool Step();
  // The signal the next Step delivers; 0: none.
  int pending_signal() const { return pending_signal_; }
  // As wait(2) reports it, once the process is gone.
  int wait_status() const { return wait_status_; }

  // False if the bytes cannot be read.
  bool Read(uint64_t address, absl::Span<uint8_t> out) const;
  void WriteByte(uint64_t address, uint8_t byte);

 private:
  explicit SteppedProcess(pid_t pid) : pid_(pid) {}

  const pid_t pid_;
  bool gone_ = false;
  int pending_signal_ = 0;
  int wait_status_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CHECKS_STEPPED_PROCESS_H_

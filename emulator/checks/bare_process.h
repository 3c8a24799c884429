// A child process in which any bytes can be executed as one instruction: the hardware's answer to
// prefixes and lengths that nobody writes.
//
// Nothing is mapped there but memory shared with us, at addresses below 4 GB, and every system call
// fails. A process that an instruction has broken all the same is replaced.
//
// Owns the process and kills it at the end. Not copyable, not movable. Every call must come from
// the thread that launched it (ptrace).

#ifndef HINDSIGHT_EMULATOR_CHECKS_BARE_PROCESS_H_
#define HINDSIGHT_EMULATOR_CHECKS_BARE_PROCESS_H_

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "isa/registers.h"
#include "tracefmt/records.h"

namespace hindsight {

class BareProcess {
 public:
  // Readable and writable.
  static constexpr uint64_t kMemory = 0x1000'0000, kMemoryBytes = 8 * kPageBytes;
  // Readable and executable.
  static constexpr uint64_t kCode = 0x2000'0000, kCodeBytes = 1024 * kPageBytes;

  static absl::StatusOr<std::unique_ptr<BareProcess>> Launch();
  ~BareProcess();
  BareProcess(const BareProcess&) = delete;
  BareProcess& operator=(const BareProcess&) = delete;

  // The process's memory; writing here is writing there.
  absl::Span<uint8_t> memory() { return {shared_ + kCodeBytes, kMemoryBytes}; }
  absl::Span<uint8_t> code() { return {shared_, kCodeBytes}; }
  // The selectors that its registers must have.
  const RegisterFile& initial() const { return initial_; }

  // Executes the instruction at registers->rip, with all its iterations if it is a REP one. Returns
  // 0, or the signal it raised; then `registers` is as it was. An error: the process is gone, and
  // there is no new one.
  absl::StatusOr<int> Execute(bool rep, RegisterFile* registers);

 private:
  explicit BareProcess(uint8_t* shared, int file) : shared_(shared), file_(file) {}
  absl::Status Start();
  void Kill();
  void SetRegisters(const RegisterFile& registers);
  RegisterFile GetRegisters();
  // The signal that stopped it; 0: it has made a step. Negative: it is gone.
  int Step();

  uint8_t* const shared_;  // code, then memory
  const int file_;
  pid_t pid_ = 0;
  user_regs_struct general_ = {};
  RegisterFile initial_;
  std::vector<uint8_t> image_;  // XSAVE's
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CHECKS_BARE_PROCESS_H_

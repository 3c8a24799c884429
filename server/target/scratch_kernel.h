// Answers the system calls of a throw-away copy of the recorded process: memory, time, random
// bytes and output to the console, and no effect outside of the copy. Others fail with ENOSYS.
//
// Borrows machine and console, which must outlive it. One thread at a time.

#ifndef HINDSIGHT_SERVER_TARGET_SCRATCH_KERNEL_H_
#define HINDSIGHT_SERVER_TARGET_SCRATCH_KERNEL_H_

#include <cstdint>
#include <set>
#include <string>
#include <variant>

#include "isa/registers.h"
#include "server/target/scratch_machine.h"
#include "server/target/target.h"

namespace hindsight {

class ScratchKernel {
 public:
  // The output of the program is appended to `console`.
  ScratchKernel(ScratchMachine* machine, std::string* console)
      : machine_(machine), console_(console) {}

  // A call that the copy cannot go on after: what was asked for, and the signal to stop with.
  struct Refusal {
    std::string what;
    int signal = 0;
  };
  // The result of the system call that `registers` ask for: negative errno for failures.
  std::variant<int64_t, Refusal> Call(ThreadRef thread, const RegisterFile& registers);

 private:
  int64_t Write(uint64_t descriptor, uint64_t address, uint64_t size);
  int64_t MapMemory(const RegisterFile& registers);
  int64_t WriteTime(uint64_t clock, uint64_t address);
  int64_t WriteRandomBytes(uint64_t address, uint64_t size);
  int64_t WriteFileStatus(uint64_t descriptor, uint64_t address);
  int64_t WriteSignalMask(uint64_t address);
  bool MustWait(const RegisterFile& registers);
  int64_t NotServed(uint64_t number);

  ScratchMachine* machine_;
  std::string* console_;
  std::set<uint64_t> reported_;  // calls not served: one message each
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_SCRATCH_KERNEL_H_

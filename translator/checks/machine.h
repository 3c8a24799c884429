// Runs code in this process with all registers as wanted, until it raises a signal, and says what
// the registers are then. For tests of code that was made elsewhere.
//
// Entering and leaving is done by signal handlers, which alone can set and see everything at once.
//
// Owns the alternate stack and, while it runs something, the handlers of SIGTRAP, SIGSEGV, SIGBUS,
// SIGILL and SIGFPE. One at a time in a process; one thread.

#ifndef HINDSIGHT_TRANSLATOR_CHECKS_MACHINE_H_
#define HINDSIGHT_TRANSLATOR_CHECKS_MACHINE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "isa/registers.h"

namespace hindsight {

struct MachineStop {
  int signal = 0;
  uint64_t fault_address = 0;
  RegisterFile registers;  // rip of a breakpoint: behind it
};

class Machine {
 public:
  Machine();
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Runs from registers.rip on. FS base and segments are this process's own; GS base is
  // registers.gs_base. With `single_step`, the signal comes after one instruction.
  MachineStop Run(const RegisterFile& registers, bool single_step = false);

  // Calls `function`, which may fault. Returns the signal, with its address in *fault_address; 0 if
  // none came.
  int Try(const std::function<void()>& function, uint64_t* fault_address);

  // Asked first at every fault, with its address: true if what was missing is there now, and the
  // access is to be tried again.
  static void SetRepair(std::function<bool(uint64_t address)> repair);

 private:
  std::vector<uint8_t> stack_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_CHECKS_MACHINE_H_

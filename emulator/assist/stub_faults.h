// Turns signals that host code raises into a way out of it.
//
// The handlers (SIGFPE, SIGILL, SIGSEGV, SIGBUS) are installed once for the process, in front of
// those that are there, which still get what is none of ours.

#ifndef HINDSIGHT_EMULATOR_ASSIST_STUB_FAULTS_H_
#define HINDSIGHT_EMULATOR_ASSIST_STUB_FAULTS_H_

#include <cstdint>

namespace hindsight {

// While alive, a fault of this thread at an address in [begin, end) makes it go on at `bail`.
// Scopes do not nest.
class StubFaultScope {
 public:
  StubFaultScope(uint64_t begin, uint64_t end, uint64_t bail);
  ~StubFaultScope();
  StubFaultScope(const StubFaultScope&) = delete;
  StubFaultScope& operator=(const StubFaultScope&) = delete;

  // Puts the handlers in place, if they are not.
  static void Install();
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_STUB_FAULTS_H_

// Lets host code that raises a signal continue elsewhere instead.
//
// The handlers (SIGFPE, SIGILL, SIGSEGV, SIGBUS) are installed once per process and pass signals
// from elsewhere on to the handlers that were installed before.

#ifndef HINDSIGHT_EMULATOR_ASSIST_STUB_FAULTS_H_
#define HINDSIGHT_EMULATOR_ASSIST_STUB_FAULTS_H_

#include <cstdint>

namespace hindsight {

// While alive, a fault of this thread at an address in [begin, end) continues at `bail`.
// Scopes do not nest.
class StubFaultScope {
 public:
  StubFaultScope(uint64_t begin, uint64_t end, uint64_t bail);
  ~StubFaultScope();
  StubFaultScope(const StubFaultScope&) = delete;
  StubFaultScope& operator=(const StubFaultScope&) = delete;

  // Installs the handlers, unless they are installed already.
  static void Install();
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_STUB_FAULTS_H_

// Turns SIGSEGV in generated code into a question to the FaultClient of this host thread.
//
// Installing the handler is a process-wide act, done once at the first FaultScope; faults that are
// not ours go to the handler that was there before. The fault is synchronous: it interrupts only
// accesses to guest memory, never our allocator or locks, so answering may run ordinary code.

#ifndef HINDSIGHT_EMULATOR_VIEW_FAULT_HANDLER_H_
#define HINDSIGHT_EMULATOR_VIEW_FAULT_HANDLER_H_

namespace hindsight {

class FaultClient {
 public:
  virtual ~FaultClient() = default;
  // True: the access at `pointer` can be tried again.
  virtual bool OnHostFault(void* pointer, bool write) = 0;
};

// While alive, faults of this thread are offered to `client`. Scopes nest.
class FaultScope {
 public:
  explicit FaultScope(FaultClient* client);
  ~FaultScope();
  FaultScope(const FaultScope&) = delete;
  FaultScope& operator=(const FaultScope&) = delete;

 private:
  FaultClient* previous_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_VIEW_FAULT_HANDLER_H_

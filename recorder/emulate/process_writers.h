// StoresOfOthers for one thread of a recorded process.
//
// Borrows everything. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_PROCESS_WRITERS_H_
#define HINDSIGHT_RECORDER_EMULATE_PROCESS_WRITERS_H_

#include <vector>

#include "recorder/emulate/sync/thread_memory.h"

namespace hindsight {

class RecordedProcess;
class EmulateEngine;
class ThreadEngine;

class ProcessWriters final : public StoresOfOthers {
 public:
  ProcessWriters(EmulateEngine* engine, RecordedProcess* process, const ThreadEngine* thread)
      : engine_(engine), process_(process), thread_(thread) {}
  ProcessWriters(const ProcessWriters&) = delete;
  ProcessWriters& operator=(const ProcessWriters&) = delete;

  bool WrittenElsewhere() override;
  std::vector<MemoryRange> TakeWritten() override;
  void ShareEffects(const SyscallOutputs& effects) override;
  bool TrustsOutputs() override;
  void StopTrustingOutputs() override;
  bool UntrackedWrites() override;
  void NoteUntrackedWrites() override;

 private:
  EmulateEngine* const engine_;
  RecordedProcess* const process_;
  const ThreadEngine* const thread_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_PROCESS_WRITERS_H_

// What the kernel keeps of a process for signals: actions, signals that wait, interval timers.

#ifndef HINDSIGHT_RECORDER_RESTORE_RESTORED_SIGNALS_H_
#define HINDSIGHT_RECORDER_RESTORE_RESTORED_SIGNALS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "recorder/restore/remote.h"
#include "recorder/restore/restore_notes.h"
#include "recorder/restore/restored_threads.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// Fills in the signal for which the snapshot was taken, before it was delivered.
void FindSignal(const TraceReader& trace, uint64_t snapshot, const KernelState& kernel,
                std::vector<RestoredThread>* threads);

// That signal waits with the others. Timers begin to run here, and signals wait until the threads
// have their masks: this is the last that is restored before registers.
absl::Status RestoreSignals(const KernelState& kernel, const std::vector<RestoredThread>& threads,
                            Remote* remote, RestoreNotes* notes);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_RESTORE_RESTORED_SIGNALS_H_

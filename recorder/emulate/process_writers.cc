#include "recorder/emulate/process_writers.h"

#include "recorder/emulate/emulate_engine.h"
#include "recorder/emulate/recorded_process.h"
#include "recorder/emulate/thread_engine.h"

namespace hindsight {

bool ProcessWriters::WrittenElsewhere() { return process_->sharing().written_elsewhere(); }

std::vector<MemoryRange> ProcessWriters::TakeWritten() { return process_->sharing().TakeWritten(); }

void ProcessWriters::ShareEffects(const SyscallOutputs& effects) {
  if (!process_->sharing().many_threads()) return;
  for (const auto& engine : process_->threads()) {
    if (engine.get() != thread_ && engine->begun()) engine->memory().NoteEffectsOfOther(effects);
  }
}

bool ProcessWriters::TrustsOutputs() { return process_->TrustsOutputs(); }

void ProcessWriters::StopTrustingOutputs() { process_->sharing().StopTrusting(); }

bool ProcessWriters::UntrackedWrites() { return engine_->untracked_writes(); }

void ProcessWriters::NoteUntrackedWrites() { engine_->NoteUntrackedWrites(); }

}  // namespace hindsight

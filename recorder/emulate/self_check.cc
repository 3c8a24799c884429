// ThreadEngine: blocks that the thread executes itself as well, to be compared.

#include "recorder/emulate/emulate_engine.h"
#include "recorder/emulate/thread/block_check.h"
#include "recorder/emulate/thread_engine.h"

namespace hindsight {

// Not while others may change memory; nor in a restartable sequence, which the kernel
// would abort because the thread stops; nor in a process that must survive the recorder's death.
bool ThreadEngine::MayCheckBlock() {
  if (process_->image().commit_area() != nullptr || process_->sharing().shared() ||
      process_->sharing().asynchronous() || pager_.has_shared_pages()) {
    return false;
  }
  return !InSequence() && !tracee_->signals().HasDeliverable();
}

// The block is executed again afterwards, like any other.
void ThreadEngine::CheckBlock() {
  checks_.Schedule(cpu_->count());
  if (!MayCheckBlock()) return;
  CommitToProcess();
  BlockCheck check(tracee_.get(), cpu_.get(),
                   {.dirty_pages = [this] { return pager_.DirtyPages(); },
                    .back_to_start = [this] { return sync_.GoBack(); },
                    .may_step = [this] { return !pager_.has_shared_pages(); },
                    .step = [this] { return ResumeAndWait(ResumeHow::kStep, 0); }},
                   kernel_words_.rseq());
  BlockCheck::Outcome outcome = check.Run(checks_.PickLength());
  memory_.ResyncRseq();
  switch (outcome.verdict) {
    case BlockCheck::Verdict::kAgrees:
    case BlockCheck::Verdict::kDiffers:
      engine_->session().NoteBlockCheck(outcome.difference);
      break;
    case BlockCheck::Verdict::kInterrupted:
      StepNatively(cpu_->next().value_or(Instruction{}), /*reload_map=*/false, outcome.stop);
      break;
    case BlockCheck::Verdict::kNotChecked:
      break;
  }
}

}  // namespace hindsight

// ThreadEngine: blocks that the thread executes itself as well, to be compared.

#include <algorithm>

#include "recorder/emulate/emulate_engine.h"
#include "recorder/emulate/thread/block_check.h"
#include "recorder/emulate/thread_engine.h"
#include "recorder/process/rseq.h"

namespace hindsight {
namespace {

constexpr uint64_t kMillion = 1'000'000;
// Most code is met early: there the distance grows with what has been executed.
constexpr uint64_t kFirstMean = 1000;
constexpr uint64_t kGrowth = 16;
// Pieces of different sizes: one has one block, another a run of assisted instructions.
constexpr uint64_t kMostInstructions = 24;

}  // namespace

// At random, lest a loop be met always in the same state.
void ThreadEngine::ScheduleCheck() {
  const uint64_t rate = engine_->session().options().self_checks_per_million;
  if (rate == 0) return;
  const uint64_t count = cpu_->count();
  const uint64_t wanted = std::max<uint64_t>(1, kMillion / rate);
  const uint64_t mean = std::min(wanted, std::max(kFirstMean, count / kGrowth));
  next_check_ = count + 1 + check_random_() % (2 * mean);
}

// Not where memory may be changed meanwhile, by whomever; nor where the kernel would have the
// thread start over because it was stopped; nor in a process that must survive this one's death.
bool ThreadEngine::MayCheckBlock() {
  if (process_->image().commit_area() != nullptr || process_->sharing().shared() ||
      process_->sharing().asynchronous() || pager_.has_shared_pages()) {
    return false;
  }
  const auto read = [this](uint64_t address, absl::Span<uint8_t> out) {
    return cpu_->ReadHeld(address, out) || tracee_->memory().Read(address, out);
  };
  const uint64_t rseq = kernel_words_.rseq();
  if (rseq != 0 && SequenceAt(rseq, cpu_->pc(), read).has_value()) return false;
  return !tracee_->HasDeliverableSignal();
}

// The block is executed again afterwards, like any other.
void ThreadEngine::CheckBlock() {
  ScheduleCheck();
  if (!MayCheckBlock()) return;
  ToProcess();
  BlockCheck check(tracee_.get(), cpu_.get(),
                   {.dirty_pages = [this] { return pager_.DirtyPages(); },
                    .back_to_start = [this] { return sync_.GoBack(); },
                    .may_step = [this] { return !pager_.has_shared_pages(); },
                    .step = [this] { return ResumeAndWait(ResumeHow::kStep, 0); }},
                   kernel_words_.rseq());
  BlockCheck::Outcome outcome = check.Run(1 + check_random_() % kMostInstructions);
  ResyncRseq();
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

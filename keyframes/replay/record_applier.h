// Applies the records of one segment to a Cpu, in order: imports and uncached reads to its view,
// transitions from the trace to its registers; compares hashes and the registers at the end.
//
// The records of a state's count come in two parts: those that complete the state (Settle), then
// the transition out of it, if that is recorded rather than emulated (ApplyTransition).
//
// Errors are divergences (divergence.h); after one the Cpu is in no recorded state. Borrows
// everything. Not copyable, not movable. One thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_REPLAY_RECORD_APPLIER_H_
#define HINDSIGHT_KEYFRAMES_REPLAY_RECORD_APPLIER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "emulator/cpu/cpu.h"
#include "keyframes/replay/checkpoints.h"
#include "keyframes/replay/divergence.h"
#include "keyframes/replay/page_history.h"
#include "keyframes/replay/watched_memory.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// What to do with the imports by which a turn begins: what others changed while the thread waited.
enum class TurnImports : uint8_t {
  kApply,
  kHoldBack,  // lines that another thread had before are left as they are; so are, where threads
              // ran at the same time, pages that are not in the view
};

class RecordApplier {
 public:
  RecordApplier(const TraceReader* trace, Cpu* cpu, Checkpoints* checkpoints,
                WatchedMemory* watched)
      : trace_(trace), cpu_(cpu), checkpoints_(checkpoints), watched_(watched) {}
  RecordApplier(const RecordApplier&) = delete;
  RecordApplier& operator=(const RecordApplier&) = delete;

  // The segment whose records are applied from now on; borrowed. Its first record is next.
  void Begin(const Segment* segment);
  // Index of the next record. The Cpu goes back to a state with that of then.
  size_t cursor() const { return cursor_; }
  void set_cursor(size_t cursor) { cursor_ = cursor; }

  // The transition out of the present state is recorded: a side effect or a discontinuity.
  bool TransitionIsNext() const { return side_effect() != nullptr || discontinuity() != nullptr; }
  // That transition is the delivery of a signal: the instruction at pc is not executed from here.
  bool SignalIsNext() const;
  // Count of the next record or, without one, of the segment's end: the Cpu runs no further.
  uint64_t NextCount() const;
  // How many records lie between here and the state `target`.
  uint64_t RecordsBefore(uint64_t target) const;
  // If the view has the page, but what it holds is not known any more (PageLeft): the state since
  // which that is so.
  std::optional<uint64_t> LeftSince(uint64_t page) const {
    return history_->LeftSince(page, cursor_);
  }
  bool no_page_was_left() const { return history_->empty(); }

  // Applies the records of the present count up to its transition.
  absl::Status Settle(TurnImports imports);
  // Makes the recorded transition, and settles the state it leads to. Requires: TransitionIsNext().
  absl::Status ApplyTransition(TurnImports imports);

  // Brings in a page that is missing where the present state's instruction, or one of its block,
  // uses it, if the segment has it all the same (Segment::ImportOfUnlisted). False: it has not.
  bool ImportUnlisted(uint64_t page);

  // Comparisons made since it was made.
  uint64_t checks() const { return checks_; }

 private:
  const Record* Next() const;
  const SideEffect* side_effect() const;
  const Discontinuity* discontinuity() const;

  absl::Status ApplyPage(const PageImport& import, TurnImports imports);
  absl::Status ApplyLine(const LineImport& import);
  absl::Status ApplyUncached(const UncachedRead& read);
  absl::Status CheckHash(uint64_t expected);
  absl::Status CheckEnd(const RegisterWords& recorded);
  absl::Status Differs(absl::string_view what) const {
    return Diverged({*trace_, *segment_, *cpu_}, what);
  }
  // Lines that another thread of the trace is seen to change. Where threads are missing, none.
  uint64_t KnownElsewhere(const PageImport& import) const {
    return segment_->info().thinned ? 0 : import.known_mask;
  }
  // `known_mask`: lines that are not new to the process, see PageImport.
  void ChangeBytes(uint64_t address, absl::Span<const uint8_t> bytes, uint64_t known_mask = 0);

  const TraceReader* const trace_;
  Cpu* const cpu_;
  Checkpoints* const checkpoints_;
  WatchedMemory* const watched_;
  const Segment* segment_ = nullptr;
  std::unique_ptr<const PageHistory> history_ = std::make_unique<PageHistory>();
  size_t cursor_ = 0;  // the first record not applied
  uint64_t checks_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_REPLAY_RECORD_APPLIER_H_

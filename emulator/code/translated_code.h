// Which code may be executed, and what was translated and decoded from it: keeps all of it in step
// with pages that change.
//
// Whether Unicorn itself notices writes to translated code depends on its version; nothing here
// relies on it. Instead pages with translations are unwritable on the host, or compared before they
// are executed (code_pages.h). What must be dropped while an engine runs is queued, and dropped by
// ApplyPending() when it has stopped.
//
//   epoch    raised when a page of code lost its rights: blocks of an older one are validated again
//   version  raised when code changed: what was decoded or prepared at an older one is void
//
// Its methods are many since each kind of event (a write, lost rights, an unmapped chunk, a stop)
// must keep the same few tables in step.
//
// Not copyable, not movable. One thread at a time.

#ifndef HINDSIGHT_EMULATOR_CODE_TRANSLATED_CODE_H_
#define HINDSIGHT_EMULATOR_CODE_TRANSLATED_CODE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "emulator/code/block_cache.h"
#include "emulator/code/code_pages.h"
#include "emulator/code/instruction.h"
#include "emulator/view/view.h"
#include "tracefmt/records.h"

namespace hindsight {

// What holds translations.
class TranslationDropper {
 public:
  virtual ~TranslationDropper() = default;
  virtual void DropTranslations(uint64_t begin, uint64_t end) = 0;
  // Forgets the chunk of the view at `base`, from which nothing translated is left.
  virtual void Unmap(uint64_t base) = 0;
};

class TranslatedCode {
 public:
  // Both are borrowed.
  TranslatedCode(View* view, TranslationDropper* engines) : view_(view), engines_(engines) {}
  TranslatedCode(const TranslatedCode&) = delete;
  TranslatedCode& operator=(const TranslatedCode&) = delete;

  BlockCache& blocks() { return blocks_; }
  const BlockCache& blocks() const { return blocks_; }
  uint32_t epoch() const { return epoch_; }
  uint64_t version() const { return version_; }
  // How many writes to pages with code there were.
  uint64_t writes() const { return writes_; }

  const absl::flat_hash_set<uint64_t>& breakpoints() const { return breakpoints_; }
  void SetBreakpoints(const absl::flat_hash_set<uint64_t>& addresses);

  // The rights of pages, in the view: raises the epoch where code loses them.
  void SetRights(uint64_t page, PageRights rights);
  void DropRights(absl::Span<const uint64_t> pages);
  void DropAllRights();
  // Requires, of both: no engine runs.
  void Release(absl::Span<const uint64_t> pages);
  void ReleaseChunk(uint64_t base);

  // Whether a change of `page` matters: there is code.
  bool HasCode(uint64_t page) const { return view_->is_code(page) || !IsSettled(page); }
  // Whether translations on `page` are those of its bytes, without a comparison.
  bool IsSettled(uint64_t page) const {
    return code_pages_.state(page) == CodePages::State::kSettled;
  }

  // Drops what was made of these lines (bit i: the i-th). Requires: no engine runs.
  void DropLines(uint64_t page, uint64_t lines);
  void DropPage(uint64_t page);
  // `page`, of which nothing translated is left, is gone.
  void Forget(uint64_t page) { code_pages_.Forget(page); }
  // The same, when the engine has stopped. No lines: the page is compared then.
  void DropLater(uint64_t page, uint64_t lines) { pending_.push_back({page, lines}); }
  bool has_pending() const { return !pending_.empty(); }
  // `work`, here and below: instructions executed so far, see code_pages.h.
  void ApplyPending(uint64_t work);

  // The program is about to write to `page`, which has translations. `own`: from a block on it.
  void NoteWrite(uint64_t page, uint64_t work, bool own);
  // An instruction on the page of `pc` was stepped.
  void NoteStep(uint64_t pc) { code_pages_.NoteStep(PageOf(pc)); }
  // Unicorn has translated these bytes: arranges that a change of them will be noticed.
  void NoteTranslated(uint64_t address, uint32_t size);
  // Drops the translations on `page` that its bytes have changed under. Requires: no engine runs.
  void Settle(uint64_t page, uint64_t work);

  // Examines the code of a block that is new, or whose pages lost their rights or were written to
  // since it was last examined. `may_execute` makes a page present. nullptr: it must be examined
  // again when the engine has stopped.
  Block* Validate(uint64_t address, uint32_t size,
                  absl::FunctionRef<bool(uint64_t page)> may_execute);
  // Whether a guarded block was translated from the bytes that are there now. False: as Validate.
  bool IsUnchanged(const Block& block);

  // The decoded instruction at `pc` if it is known. Valid until the next Remember().
  const Instruction* Known(uint64_t pc) const {
    const Decoded& slot = decoded_[pc & (decoded_.size() - 1)];
    return slot.pc == pc && slot.version == version_ && IsFetchable(pc) ? &slot.instruction
                                                                        : nullptr;
  }
  // `instruction` lies on one page.
  void Remember(uint64_t pc, const Instruction& instruction);
  // Whether what is known of code at `pc` holds as long as version() stays: it is on a page with
  // code, which is held.
  bool IsFetchable(uint64_t pc) const {
    const uint64_t page = PageOf(pc);
    return view_->is_code(page) && view_->rights(page) != PageRights::kNone;
  }

  // Unicorn's buffer has a gigabyte, in which dropped translations stay until it is full. True if
  // they are many: then it is time for a new engine, and they are counted anew.
  bool TakeMuchGarbage();

 private:
  struct Decoded {
    uint64_t pc = ~uint64_t{0};
    uint64_t version = 0;
    Instruction instruction;
  };
  struct Pending {
    uint64_t page = 0;
    uint64_t lines = 0;
  };

  // True if blocks were there that write to memory.
  bool DropRange(uint64_t begin, uint64_t end);

  View* const view_;
  TranslationDropper* const engines_;
  BlockCache blocks_;
  CodePages code_pages_;
  std::vector<Decoded> decoded_ = std::vector<Decoded>(1 << 12);
  std::vector<Pending> pending_;
  absl::flat_hash_set<uint64_t> breakpoints_;
  uint32_t epoch_ = 1;
  uint64_t version_ = 1;
  uint64_t writes_ = 0;
  uint64_t garbage_ = 0;  // translations dropped since the engine was new
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CODE_TRANSLATED_CODE_H_

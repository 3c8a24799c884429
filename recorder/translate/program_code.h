// A program's code and its translation: translates what is asked for, and what can be reached from
// there.
//
// Borrows the memory file, which must outlive it. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_PROGRAM_CODE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_PROGRAM_CODE_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "emulator/assist/instruction_executor.h"
#include "isa/cpuid.h"
#include "recorder/session/options.h"
#include "recorder/translate/code_cache.h"
#include "recorder/translate/code_source.h"
#include "recorder/translate/guard/code_guard.h"
#include "recorder/translate/memo/read_ahead.h"
#include "recorder/translate/memo/translation_memo.h"
#include "recorder/translate/memory_file.h"
#include "recorder/translate/recorded_birth.h"
#include "recorder/translate/stream/executed_pages.h"

namespace hindsight {

struct TranslationOptions {
  CpuModel cpu = CpuModel::kPortable;
  Flavour flavour = Flavour::kPlain;
  TranslationTrials trials;
  MemoryModel order = MemoryModel::kKernel;  // which instructions are ordered among threads
  uint64_t seed = 1;
  // Of all processes of a recording; unset: a new one.
  std::shared_ptr<TranslationMemo> memo;
  std::shared_ptr<CodeGuards> guards;           // likewise
  std::shared_ptr<ExecutedPagePool> page_pool;  // likewise
  std::shared_ptr<CodeFiles> code_files;        // likewise
  // How processes are recorded; null: they are not.
  std::shared_ptr<const ServiceRecording> recording;
  // Of one process that is recorded: where what it executes is published. May be null.
  std::shared_ptr<ExecutedPages> executed_pages;
  // Whether a process's memory is exclusive (base/control.h) until its agent says otherwise.
  bool exclusive_memory = false;
};

class ProgramCode {
 public:
  // Requires: options.memo and guards.
  ProgramCode(pid_t process, const TranslationOptions& options, MemoryFile* file);
  ProgramCode(const ProgramCode&) = delete;
  ProgramCode& operator=(const ProgramCode&) = delete;

  // Takes what `maker` knows of code that is the same here, and what it was translated to.
  // Requires: as for CodeSource::Inherit; both have exclusive memory.
  void Inherit(ProgramCode* maker);

  // Takes in what is known of code that children have asked for, as far as it is the same here.
  void TakeAsked(absl::Span<const uint64_t> guest_pcs);

  // Host address of the translation of `guest_pc`; 0: there is no code that can be executed.
  // Requires: the thread that asks waits; so what it can write to can be read.
  uint64_t Translate(uint64_t guest_pc);
  // The same for the one instruction there, with what it reads taken from the view; nothing else
  // leads to that.
  uint64_t TranslateOne(uint64_t guest_pc);
  // What the table of indirect branches may say of `guest_pc`, if flags are read from there on; 0:
  // nothing.
  uint64_t TranslateIndirectTo(uint64_t guest_pc);
  // Translates one more block that is likely to be asked for, or takes in one more page of known
  // ones, or looks for one for a while, as long as the program runs. False if there is none.
  bool TranslateAhead();
  // There is none until code is asked for again.
  void StopAhead();

  // Code that has not been written to for a while need not be checked by its blocks: see CodeGuard.
  // With a userfaultfd of the process. False: it cannot be used.
  bool OpenGuard(UniqueFd file) { return guard_.Open(std::move(file)); }
  // Sees to one page for which it is time. False: there is none.
  bool GuardSettledPage();
  std::optional<CodeGuard::Clock::duration> UntilSettledPage() const { return guard_.UntilDue(); }

  // The code in [start, end) has changed, or may have.
  void Invalidate(uint64_t start, uint64_t end);
  void InvalidateAll();
  // Memory is not exclusive any more: all code is translated anew. Requires: no thread is in
  // translated code.
  void ShareMemory();
  std::optional<GuestPlace> Recover(uint64_t host) const { return memo_->places().At(host); }

  uint64_t block_count() const { return cache_.block_count(); }
  uint64_t code_bytes() const { return cache_.code_bytes(); }

 private:
  // A replay takes what it does from the trace. Otherwise what it needs for it is added to needs_.
  bool NeedsSideEffect(absl::Span<const uint8_t> instruction);
  uint64_t FindUnchanged(uint64_t guest_pc);
  TranslateRequest RequestFor(uint64_t guest_pc, uint64_t host);
  absl::StatusOr<TranslatedBlock> TranslateChecked(TranslateRequest request) const;
  // `alone`: for TranslateOne.
  std::unique_ptr<Translation> MakeBlock(uint64_t guest_pc, bool alone);
  // Adds the translation at `guest_pc`, which has none, to the cache. kNone: there is no code.
  enum class Source : uint8_t { kNone, kMemo, kTranslator };
  Source AddBlock(uint64_t guest_pc);
  static size_t CostOf(Source source);
  void Add(const Translation* translation);
  void AddKnownBlocks(uint64_t guest_pc);
  void NoteAsked(uint64_t guest_pc);
  const TranslationMemo::KnownPage* PageToTake(uint64_t guest_pc);
  bool TakeNextPage();
  bool TakeLinkedPage();
  bool AddKnownPage(const TranslationMemo::KnownPage& page);
  void NoteRegion(const MapRegion& region);
  TranslationMemo::Module* ModuleOf(uint64_t guest_pc) const;
  bool WatchesLoads(uint64_t guest_pc) const;
  bool MayGoAhead(uint64_t guest_pc) const;
  // Whether a guard can take the place of its check.
  bool CanBeGuarded(const Translation& translation) const;
  // Whether blocks that check their code compare it with the view, too.
  bool ChecksView() const { return options_.flavour == Flavour::kRecord && !exclusive_; }
  void PublishRange(uint64_t start, uint64_t end);
  void Publish(const Translation& translation);
  void PublishPages(uint64_t first_byte, uint64_t last_byte);
  void NoteChange();

  const TranslationOptions options_;
  MemoryFile* const file_;
  const std::shared_ptr<TranslationMemo> memo_;
  CodeCache cache_;
  CodeSource source_;
  const BytesAt bytes_at_;    // of source_
  const BytesAt lasting_at_;  // but for what may change
  const LeftToAgent needs_side_effect_;
  InstructionExecutor executor_;  // says what a replay can execute
  HostFeatures needs_;            // of the block that is being translated
  absl::flat_hash_map<uint64_t, TranslationMemo::Module*> modules_;  // by start of the region
  absl::flat_hash_set<uint64_t> changing_;  // pages whose code was found to have changed
  CodeGuard guard_;
  bool exclusive_ = false;  // memory is
  // Of TranslateOne, by guest pc.
  absl::flat_hash_map<uint64_t, const Translation*> ones_;
  absl::flat_hash_set<uint64_t> executed_, fetched_;  // pages in options_.executed_pages
  absl::flat_hash_set<uint64_t> looked_up_;           // pages whose blocks the memo was asked for
  uint64_t asked_pc_ = 0;
  std::deque<uint64_t> reachable_;  // from what was translated last
  size_t ahead_ = 0;                // cost of what was added ahead since the last request
  // The modules of which known pages were asked for, the last one last.
  std::vector<std::pair<TranslationMemo::Module*, ReadAhead>> read_ahead_;
  // That page; null: the last request was not answered by a known one.
  const TranslationMemo::KnownPage* asked_page_ = nullptr;
  size_t next_link_ = 0;     // of its links, to be followed
  size_t linked_pages_ = 0;  // taken since the last request
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_PROGRAM_CODE_H_

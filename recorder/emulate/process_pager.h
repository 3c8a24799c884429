// Feeds a Cpu's view from a stopped process, logs what was fed, and writes back what was changed.
//
// The process's memory is that of the last sync point; the view runs ahead of it. Between two sync
// points nobody changes the process's memory, so a page may be fetched at any time.
//
//            OnMissing                 OnFirstWrite
//   absent ------------> held, clean --------------> held, dirty
//      ^                  |   ^                        |
//      +-- grant used up -+   +------- WriteBack ------+
//
// After something may have changed memory (a system call), Resync() makes the view agree again.
// Dropping every page and faulting each back in costs some microseconds a page, fetching and
// comparing a page 0.3, so pages in use are kept and compared: a page has a grant of resyncs it
// survives without being asked for, doubled whenever it must be faulted in again. The same holds,
// separately, for staying writable across WriteBack. Pages of ELF files that cannot be written are
// not compared: nobody rewrites a library in place.
//
// A page that was dropped still is what the trace says of it as long as nothing can have written to
// it. So Resync is told what a system call may have done (SyscallOutputs): the pages that it may
// have written are imported, and where that is not known, or not wanted, the page is logged as left
// (PageLeft): readers of the trace do not take its old bytes for its contents.
//
// The same reasoning saves looking at the pages in use, where the caller answers for it that
// nothing but the call can have written: then Resync compares those that the call may have written
// and those that others can change at any time (shared memory, files not copied yet, what the
// kernel may discard). See docs/architecture.md, "What is compared".
//
// Where other threads of the process exist, the kernel may be writing to its memory on their behalf
// at any time: then only the bytes that were changed are written back.
//
// Memory that others change at any time (AddressSpace, "uncached") has no rights: what touches it
// faults, and is done alone between OpenUncached and CloseUncached.
//
// Borrows everything it is made of. Not copyable, not movable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_PROCESS_PAGER_H_
#define HINDSIGHT_RECORDER_EMULATE_PROCESS_PAGER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "emulator/cpu/cpu.h"
#include "recorder/log/module_table.h"
#include "recorder/log/page_witness.h"
#include "recorder/log/thread_log.h"
#include "recorder/process/address_space.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/syscalls/syscall_outputs.h"

namespace hindsight {

class ProcessPager final : public Pager {
 public:
  ProcessPager(Tracee* tracee, const ModuleTable* modules, ThreadLog* log, PageWitnesses* witnesses)
      : tracee_(tracee), modules_(modules), log_(log), witnesses_(witnesses) {}
  ~ProcessPager() override;
  ProcessPager(const ProcessPager&) = delete;
  ProcessPager& operator=(const ProcessPager&) = delete;

  // Requires: before the first fault.
  void set_cpu(Cpu* cpu) { cpu_ = cpu; }
  // The count imports are logged at: no less than that of any record logged so far, and of a state
  // in which the page's contents in the process are what the thread would see.
  void set_count(uint64_t count) { count_ = count; }

  const AddressSpace& space() const { return *space_; }
  // After a change of it, before anything else is asked for. Pages whose region is another one now
  // lose their rights.
  void SetSpace(std::shared_ptr<const AddressSpace> space);
  // From now on other threads of the process exist. Requires: nothing was written to the view since
  // WriteBack.
  void BeCareful();

  bool OnMissing(uint64_t page, Access access) override;
  bool OnFirstWrite(uint64_t page) override;
  bool MayExecute(uint64_t page) override;

  // Whether there is something to write back.
  bool has_changes() const { return !dirty_.empty(); }
  // Brings the process's memory to the view's contents. Unless `others_store`, nobody else has
  // stored anything in the process since the last Resync or FollowOthers, nor can before this
  // returns: then not only the bytes that changed are written, but all between them, which is
  // quicker. False if the process is gone or, by mischief of another process, a page cannot be
  // written any more.
  bool WriteBack(bool others_store = true);
  // Which pages held are compared.
  enum class Compare : uint8_t {
    kAll,
    // Those that the effects name, and those that may change without the process's doing anything.
    kOutputs,
    // All, to see whether kOutputs would have been enough.
    kProbe,
  };
  // The process's memory may differ from the view: in pages held as `compare` says, in others as
  // `effects` says. False if a probe has found a change that `effects` does not tell of: then all
  // pages that the segment knows have been looked at, as after a call that is not known.
  // Requires: nothing was written to the view since WriteBack. kOutputs and kProbe: all threads of
  // the process are this one, and effects.known.
  bool Resync(const SyscallOutputs& effects, Compare compare = Compare::kAll);
  // How many pages kAll would compare.
  size_t pages_in_use() const { return unsealed_.size(); }
  // The recorder has changed `pages`.
  void ResyncPages(absl::Span<const uint64_t> pages);
  // Leaves pages that other threads of the process have changed since the last time, and that are
  // not held: they know what is in them.
  void FollowOthers();
  // System calls that store more than this in one place: what they store is imported only where the
  // thread uses it. 0: all is.
  void set_bulk_bytes(uint64_t bytes) { bulk_bytes_ = bytes; }
  // Memory may be written at any time by others than threads of the process.
  void set_written_elsewhere(bool written) { written_elsewhere_ = written; }
  // As Resync, for memory that others can change while the process is stopped.
  void ResyncShared();
  // As Resync, for memory that may show what was just stored to uncached memory.
  void ResyncSeenTwice();
  // Lets the next instruction touch uncached memory. Requires: nothing was written to the view
  // since WriteBack.
  void OpenUncached() { uncached_open_ = true; }
  // Ends that. Requires: WriteBack.
  void CloseUncached();
  bool IsUncached(uint64_t address) const;
  // Takes back what was written to the view since the last WriteBack. False if that is impossible
  // because the process is gone; the view is garbage then.
  bool Rollback();
  // The first write after a WriteBack to a page, and the state of the Cpu at or shortly after it.
  struct NotedWrite {
    uint64_t page = 0;
    uint64_t count = 0;
  };
  enum class NoteWrites : uint8_t { kNone, kShared, kAll };
  // Notes these writes from now on: none, to pages that several threads use, or all.
  void set_note_writes(NoteWrites which) { note_writes_ = which; }
  // What was noted since this was last asked.
  std::vector<NotedWrite> TakeNotedWrites() { return std::exchange(noted_writes_, {}); }
  // How many pages the segment has imported.
  uint64_t segment_pages() const;
  // What was written to since the last WriteBack, or may still be without anybody being told.
  std::vector<uint64_t> DirtyPages() const;
  // A new segment: it knows no page yet.
  void StartSegment();
  // Pages that may be written and that the thread, or the kernel for it, may have written.
  std::vector<MemoryRange> WritablePages() const;
  // A new address space.
  void Reset();
  // The thread has ended: what it wrote and nobody has looked at since is kept for the witnesses.
  // No calls after it.
  void Leave();

  // Held pages may be changed behind our back (shared mappings).
  bool has_shared_pages() const { return shared_held_ > 0; }

  // What the trace's open segment knows of a page.
  enum class Knowledge : uint8_t {
    kNone,   // nothing
    kLeft,   // what it held before it was left
    kKnown,  // its contents
  };
  Knowledge KnowledgeOf(uint64_t page) const;
  // As replay has it. False if not all of it is known.
  bool ReadKnown(uint64_t address, absl::Span<uint8_t> out) const;
  // Pages held that this thread has written to, at most `number`, others at each call.
  std::vector<uint64_t> SomeWrittenPages(size_t number);

 private:
  // How many more syncs a page is kept in a state without proving that it is used.
  struct Grant {
    uint8_t size = 0;
    uint8_t left = 0;
    void Renew();
    bool Use();
  };
  // What a page shows, as far as maps can tell.
  struct Backing {
    uint32_t protection = 0;
    uint32_t device_major = 0, device_minor = 0;
    uint64_t inode = 0;
    uint64_t file_offset = 0;  // of the page
    bool shared = false, uncached = false, follows = false;
    bool operator==(const Backing&) const = default;
  };
  struct Page {
    uint64_t address = 0;
    Backing backing;  // when it was described last: since it is held, at least
    uint8_t* host = nullptr;
    bool in_segment = false;  // the open segment has an import of it
    bool held = false;        // the view grants access
    bool dirty = false;       // kReadWrite, on the dirty list
    bool sealed = false;      // need not be compared
    bool shared = false;
    bool follows = false;     // AddressSpace::follows
    bool maybe_code = false;  // was executable at some time: the Cpu may have translated it
    bool written = false;     // by this thread, ever
    bool of_file = false;     // private, and shows a file that may be written
    bool of_others = false;   // shows a file, or the kernel's own data, as long as it is not copied
    bool copied = false;      // by a write: nobody else's any more, if private
    bool discarded = false;   // the kernel may take it away until it is written
    bool released = false;    // its contents are not known here though the segment has them
    bool left = false;        // the last thing logged of it in this segment is that it was left
    Grant keep, stay_writable;
    // Of a dirty page that is shared or of a process with other threads: what it was. Only bytes
    // changed by the thread may be written back.
    std::unique_ptr<std::array<uint8_t, kPageBytes>> pristine;
  };

  Page* Lookup(uint64_t address);
  void Release(absl::Span<Page* const> pages, bool gone);
  void Import(Page* page, const uint8_t* bytes);
  void LogFirst(const Page& page, const uint8_t* bytes);
  void MarkDirty(Page* page);
  void SavePristine(Page* page);
  uint64_t KnownLines(const Page& page, const uint8_t* bytes) const;
  void Drop(absl::Span<Page* const> pages);
  void Refresh(absl::Span<Page* const> pages);
  void Describe(Page* page, const MapRegion& region);
  Backing BackingOf(const MapRegion& region, uint64_t page) const;
  std::vector<Page*> PagesWithin(absl::Span<const AddressSpace::Range> ranges);

  // process_pager_outputs.cc
  // It can change without a system call of the process.
  static bool Watched(const Page& page) {
    return page.shared || page.follows || page.discarded || (page.of_others && !page.copied);
  }
  void Hold(Page* page);
  void CompareInUse(absl::Span<Page* const> pages);
  void CompareOutputs(const SyscallOutputs& effects);
  void TakeEffects(const SyscallOutputs& effects);
  // The trace says what is in the page, nobody looks at it, and it can change.
  static bool Believed(const Page& page) {
    return page.in_segment && !page.held && !page.left && !page.sealed;
  }
  // Imports the pages; returns those that cannot be read.
  std::vector<Page*> Fetch(absl::Span<Page* const> pages);
  void Confirm(absl::Span<Page* const> pages);
  void Leave(Page* page);
  void TakeUnknown();
  void TakeWritten(const MemoryRange& range);
  void TakeUnfilled(absl::Span<const MemoryRange> ranges);
  uint64_t EndOfWritable(const MemoryRange& range) const;
  void TakeOutputPages(const MapRegion& region, uint64_t first, uint64_t end, bool bulk);
  template <typename Predicate>
  std::vector<Page*> PagesIn(absl::Span<const MemoryRange> ranges, Predicate predicate) const;
  std::vector<Page*> BelievedIn(absl::Span<const MemoryRange> ranges) const;
  std::vector<Page*> HeldIn(absl::Span<const MemoryRange> ranges) const;
  void AppendChanges(Page* page, bool others_store, std::vector<MemoryPiece>* pieces) const;

  Tracee* const tracee_;
  const ModuleTable* const modules_;
  ThreadLog* const log_;
  Cpu* cpu_ = nullptr;
  PageWitnesses* const witnesses_;
  std::shared_ptr<const AddressSpace> space_ = std::make_shared<AddressSpace>();
  uint64_t space_version_ = 0;  // that SetSpace has seen
  bool careful_ = false;
  bool uncached_open_ = false;
  NoteWrites note_writes_ = NoteWrites::kNone;
  std::vector<NotedWrite> noted_writes_;
  bool written_elsewhere_ = false;
  uint64_t witnessed_ = 0;  // up to when other threads' changes are known
  uint64_t bulk_bytes_ = 0;
  uint64_t count_ = 0;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Page>> pages_;
  absl::flat_hash_map<uint64_t, size_t> chunk_pages_;  // of pages_, by chunk of the view
  std::deque<uint64_t> empty_chunks_;                  // that were, when they were put here
  absl::flat_hash_set<uint64_t> released_;  // pages the open segment has, and pages_ no more
  std::vector<Page*> unsealed_;             // held and not sealed
  std::vector<Page*> watched_;              // of those all that are Watched, and some that were
  uint64_t changes_ = 0;                    // imports that were news to the view
  std::vector<Page*> dirty_;
  size_t shared_held_ = 0;
  size_t next_sample_ = 0;  // in unsealed_
  std::vector<uint8_t> scratch_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_PROCESS_PAGER_H_

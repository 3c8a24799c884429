// Feeds a Cpu's view from a stopped process, logs what was fed, and writes back what was changed.
//
// The process's memory is that of the last sync point; the view runs ahead of it. Between two sync
// points the process's memory does not change, so a page may be fetched at any time.
//
//            OnMissing                 OnFirstWrite
//   absent ------------> held, clean --------------> held, dirty
//      ^                  |   ^                        |
//      +-- grant used up -+   +------- WriteBack ------+
//
//   KnownPages       which pages are in use, and for how long     (known_pages.h)
//   PageImporter     from the process into view and trace         (page_importer.h)
//   OutputImporter   what calls stored in pages not in use        (output_importer.h)
//   WrittenPages     what goes back to the process                (written_pages.h)
//
// The pager answers the Cpu and decides which pages in use are compared, and when.
//
// After something may have changed memory (a system call), Resync() makes the view agree again.
// Dropping every page and faulting each back in costs some microseconds a page, fetching and
// comparing a page 0.3, so pages in use are kept and compared: a page has a grant of resyncs it
// survives without being asked for, doubled whenever it must be faulted in again. The same holds,
// separately, for staying writable across WriteBack. Pages of ELF files that cannot be written are
// not compared: libraries are not rewritten in place.
//
// A page that was dropped still is what the trace says of it as long as nothing can have written to
// it. So Resync is given what a system call may have done (SyscallOutputs): the pages that it may
// have written are imported, and where that is not known, or not wanted, the page is logged as left
// (PageLeft): readers of the trace do not take its old bytes for its contents.
//
// For the same reason pages in use need not all be compared where the caller knows that nothing but
// the call can have written: then Resync compares those that the call may have written
// and those that others can change at any time (shared memory, files not copied yet, what the
// kernel may discard). See docs/architecture.md, "What is compared".
//
// Where other threads of the process exist, the kernel may be writing to its memory on their behalf
// at any time: then only the bytes that were changed are written back.
//
// Memory that others change at any time (AddressSpace, "uncached") has no rights: what touches it
// faults, and is done alone between OpenUncached and CloseUncached.
//
// Borrows everything it is given. Not copyable, not movable. One host thread. It has more
// than 30 methods because it is the interface to its parts: most only forward a call.

#ifndef HINDSIGHT_RECORDER_EMULATE_PAGER_PROCESS_PAGER_H_
#define HINDSIGHT_RECORDER_EMULATE_PAGER_PROCESS_PAGER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "emulator/cpu/cpu.h"
#include "recorder/emulate/pager/known_pages.h"
#include "recorder/emulate/pager/output_importer.h"
#include "recorder/emulate/pager/page_importer.h"
#include "recorder/emulate/pager/written_pages.h"
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
      : tracee_(tracee),
        witnesses_(witnesses),
        importer_(&tracee->memory(), modules, log, witnesses, this),
        outputs_(&pages_, &importer_) {}
  ~ProcessPager() override;
  ProcessPager(const ProcessPager&) = delete;
  ProcessPager& operator=(const ProcessPager&) = delete;

  // Requires: before the first fault.
  void set_cpu(Cpu* cpu) {
    cpu_ = cpu;
    importer_.set_cpu(cpu);
    outputs_.set_cpu(cpu);
  }
  // The count imports are logged at: no less than that of any record logged so far, and of a state
  // in which the page's contents in the process are what the thread would see.
  // Faults import as well, so this cannot be an argument: SyncPoint sets it, and a turn's
  // beginning.
  void set_count(uint64_t count) { importer_.set_count(count); }

  const AddressSpace& space() const { return *space_; }
  // After a change of it, before anything else is asked for. Pages whose region is another one now
  // lose their rights.
  void SetSpace(std::shared_ptr<const AddressSpace> space);
  // From now on other threads of the process exist. Requires: nothing was written to the view since
  // WriteBack.
  void NoteSiblings();

  bool OnMissing(uint64_t page, Access access) override;
  bool OnFirstWrite(uint64_t page) override;
  bool MayExecute(uint64_t page) override;

  // Whether there is something to write back.
  bool has_changes() const { return !written_.empty(); }
  // Brings the process's memory to the view's contents. Unless `others_store`, nothing else has
  // stored anything in the process since the last Resync or FollowOthers, nor can before this
  // returns: then not only the bytes that changed are written, but all between them, which is
  // quicker. False if the process is gone or, because another process has changed it, a page cannot
  // be written any more.
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
  // `effects` says. False if a probe has found a change that `effects` does not name: then all
  // pages that the segment knows have been looked at, as after a call that is not known.
  // Requires: nothing was written to the view since WriteBack. kOutputs and kProbe: all threads of
  // the process are this one, and effects.known.
  bool Resync(const SyscallOutputs& effects, Compare compare = Compare::kAll);
  // How many pages kAll would compare.
  size_t pages_in_use() const { return pages_.in_use().size(); }
  // The recorder has changed `pages`.
  void ResyncPages(absl::Span<const uint64_t> pages);
  // Leaves pages that other threads of the process have changed since the last time, and that are
  // not held: they know what is in them.
  void FollowOthers();
  // System calls that store more than this in one place: what they store is imported only where the
  // thread uses it. 0: all is.
  void set_bulk_bytes(uint64_t bytes) { outputs_.set_bulk_bytes(bytes); }
  // Memory may be written at any time by others than threads of the process.
  void set_written_elsewhere(bool written) { outputs_.set_written_elsewhere(written); }
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
  using NotedWrite = hindsight::NotedWrite;
  using NoteWrites = WrittenPages::Note;
  // Notes first writes since a WriteBack from now on: none, to pages that several threads use, or
  // all.
  void set_note_writes(NoteWrites which) { written_.set_note(which); }
  // What was noted since the last call.
  std::vector<NotedWrite> TakeNotedWrites() { return written_.TakeNoted(); }
  // How many pages the segment has imported.
  uint64_t segment_pages() const { return pages_.segment_pages(); }
  // What was written to since the last WriteBack, or may be without being noticed.
  std::vector<uint64_t> DirtyPages() const { return written_.addresses(); }
  // From now on pages of ELF files that cannot be written are compared as well.
  void Unseal();
  // A new segment: it knows no page yet.
  void StartSegment();
  // Pages that may be written and that the thread, or the kernel for it, may have written.
  std::vector<MemoryRange> WritablePages() const;
  // A new address space.
  void Reset();
  // The thread has ended, and the kernel has stored to `words` as it did: imports these pages,
  // through the memory of another thread of the process. After it only Leave is called.
  void ImportAtEnd(const ProcessMemory* memory, absl::Span<const MemoryRange> words);
  // The thread has ended: what it wrote, and no thread has imported since, is kept for the
  // witnesses. No calls after it.
  void Leave();

  // Pages in use may be changed by others (shared mappings).
  bool has_shared_pages() const { return pages_.has_shared(); }

  using Knowledge = PageStanding;
  Knowledge KnowledgeOf(uint64_t page) const { return pages_.KnowledgeOf(page); }
  // As replay has it. False if not all of it is known.
  bool ReadKnown(uint64_t address, absl::Span<uint8_t> out) const {
    return pages_.ReadKnown(address, out);
  }
  // Pages held that this thread has written to, at most `number`, others at each call.
  std::vector<uint64_t> SomeWrittenPages(size_t number) { return pages_.SomeWritten(number); }

 private:
  void MarkDirty(KnownPage* page);
  void Drop(absl::Span<KnownPage* const> pages);
  void Refresh(absl::Span<KnownPage* const> pages);
  void Release(absl::Span<KnownPage* const> pages, bool gone);
  void CompareInUse(absl::Span<KnownPage* const> pages);
  void CompareOutputs(const SyscallOutputs& effects);

  Tracee* const tracee_;
  PageWitnesses* const witnesses_;
  Cpu* cpu_ = nullptr;
  KnownPages pages_;
  PageImporter importer_;
  OutputImporter outputs_;
  WrittenPages written_;
  std::shared_ptr<const AddressSpace> space_ = std::make_shared<AddressSpace>();
  uint64_t space_version_ = 0;  // that SetSpace has seen
  bool has_siblings_ = false;   // other threads of the process exist
  bool uncached_open_ = false;
  bool unsealed_ = false;
  uint64_t witnessed_ = 0;  // up to when other threads' changes are known
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_PAGER_PROCESS_PAGER_H_

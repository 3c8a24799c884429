// The view of a translated thread: a copy of the pages it has seen, at a constant distance from
// them, and what of it the trace knows.
//
//                 Touch                    Drop
//   not held  ------------> held  --------------------> not held, the trace has old bytes
//   (faults)                (read, write)      Touch: all lines are imported anew
//
// Translated code reaches it directly; a page that is not held faults when it is used first
// (view_memory.h), which leads to Touch. What was held when a segment begins is imported again at
// once, from the view.
//
// Runs inside the program: no library, no allocation, general registers only. The thread whose view
// it is alone.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_VIEW_THREAD_VIEW_H_
#define HINDSIGHT_RECORDER_TRANSLATE_VIEW_THREAD_VIEW_H_

#include <stdint.h>

#include "recorder/translate/view/entry_writer.h"
#include "recorder/translate/view/view_memory.h"

namespace hindsight {

class ThreadView {
 public:
  static constexpr int kMostShared = 16;
  static constexpr int kMaxWindows = 3;
  static constexpr uint64_t kPage = 4096;
  static constexpr uint64_t kMostPages = 128 * 1024, kKeptOfMore = 16 * 1024;

  // Tables, zero at first, which take memory only where they are used. Reserved by the caller.
  struct Tables {
    uint8_t* held;        // TableBytes()
    uint8_t* in_segment;  // TableBytes()
    uint64_t* pages;      // in_segment, each once; room for max_pages
    uint64_t max_pages;
    ViewMemory::Shared* shared;  // of the process's views
  };
  static uint64_t TableBytes(const ViewWindow* windows, int count);

  // Copies the process's own memory; false, without a fault, if not all of it can be read.
  using ReadMemory = bool (*)(void* to, const void* from, uint64_t bytes);
  // Whether memory has the same; false, without a fault, if not all of it can be read. `bytes` is a
  // multiple of 64.
  using SameMemory = bool (*)(const void* memory, const void* other, uint64_t bytes);
  struct MemoryAccess {
    ReadMemory read;
    SameMemory is_same;
  };

  // Lines of a page, bit i: line i, 64 bytes.
  struct Known {
    uint64_t lines = 0;                 // that other views show, together
    HsShown shown[HS_MOST_SHOWN] = {};  // and some of these views that show a whole one
  };
  // Which of `lines` of the page at guest address `page` other views show as they are in `bytes`,
  // the whole page, as far as `view` shows something else.
  using KnownLines = Known (*)(const ThreadView& view, uint64_t page, uint64_t lines,
                               const uint8_t* bytes);

  // A state of the thread: that of `count`; or, if `host` is not 0, the one in which translated
  // code has come to this address, as HsPage has it.
  struct StateAt {
    uint64_t count = 0;
    uint64_t host = 0;
  };

  // Whether other processes may write to the memory at `address`.
  using IsShared = bool (*)(uint64_t address);

  // The memory at `distance` from each window is reserved, with no rights. `known` and `is_shared`
  // may be null.
  void Init(uint64_t distance, const ViewWindow* windows, int count, const Tables& tables,
            const MemoryAccess& memory, EntryWriter* writer, KnownLines known = nullptr,
            IsShared is_shared = nullptr);

  // Whether `address` is one of the view's: what the thread sees at address - distance.
  bool IsView(uint64_t address) const;
  uint64_t distance() const { return distance_; }
  bool Holds(uint64_t address) const;
  // The bit of Tables::held for the page at `address`. False: it is in no window.
  bool PageIndex(uint64_t address, uint64_t* index) const;

  // The page of guest address `address` is used for the first time, in state `at`: it enters the
  // view, and maybe some pages after it. False if memory cannot be read there, or there is no room.
  bool Touch(uint64_t address, StateAt at);
  // The same for all pages of [address, address + size).
  bool TouchAll(uint64_t address, uint64_t size, uint64_t count);
  // [address, address + size) may differ from the view: lines of these pages that do are imported.
  // Pages that are not held are left alone. False if memory cannot be read there.
  bool Compare(uint64_t address, uint64_t size, uint64_t count);
  // Memory had `old` at this address, and the view something else, when an instruction changed both
  // at `time`, a time stamp that has been announced (0: just now): that is imported, and no more.
  void TakeOld(uint64_t address, uint64_t size, const void* old, uint64_t time, uint64_t count);
  // All pages that the segment has had are in the view, as memory has them; those that cannot be
  // read any more are not.
  void CompareAll(uint64_t count);
  // A segment is about to begin in state `count`: all pages that are in the view are as memory has
  // them, which the segment's first imports say; those that cannot be read any more leave, and if
  // they are more than kMostPages, all but the kKeptOfMore that came first. An entry has the time
  // from which on that was looked at.
  void Refresh(uint64_t count);
  // Of the pages that the segment has, the first `most` stay in the view.
  void KeepFirst(uint64_t most);
  // Pages that other processes may write to are as memory has them, up to kMostShared of them: the
  // ones that entered the view last.
  void CompareShared(uint64_t count);
  // What is mapped at [start, end) is something else from now on.
  void Drop(uint64_t start, uint64_t end);
  // The same in state `count`, for who looks on: pages that the segment has had there enter again,
  // as they are `moved` bytes further up now.
  void EnterAgain(uint64_t start, uint64_t end, uint64_t moved, uint64_t count);
  // The thread is gone.
  void GiveUp() { memory_.GiveUp(); }
  // A segment begins in state `count`, with what the view has.
  void BeginSegment(uint64_t count);

  // There was no room for a page.
  bool is_full() const { return full_; }
  // That the segment has imported.
  uint64_t page_count() const { return page_count_; }
  // Pages imported as a whole, and changed ones, so far.
  uint64_t touched() const { return touched_; }
  uint64_t changed() const { return changed_; }

 private:
  bool ComparePage(uint64_t page, uint64_t count);
  void Import(uint64_t page, const uint8_t* bytes, uint64_t lines, const EntryWriter::Seen& seen,
              uint64_t count);
  bool Enter(uint64_t page, uint64_t index, StateAt at);
  int HeldBeside(uint64_t index) const;
  bool DropPage(uint64_t page, int64_t* runs);
  void DropInWindow(uint64_t start, uint64_t end);
  HsEntry* LogAll(uint64_t page, StateAt at, const uint8_t* bytes, bool first);
  bool Read(uint64_t address, uint8_t* out, uint64_t size) const {
    return access_.read(out, reinterpret_cast<const void*>(address), size);
  }
  // Copies what the page has at the time that is taken. False if it cannot be read: none is.
  bool ReadAsSeen(uint64_t page, uint8_t* bytes, EntryWriter::Seen* seen);
  bool IsSame(uint64_t page, const uint8_t* bytes) const {
    return access_.is_same(reinterpret_cast<const void*>(page), bytes, kPage);
  }
  uint8_t* Seen(uint64_t address) const { return reinterpret_cast<uint8_t*>(address + distance_); }

  uint64_t distance_ = 0;
  ViewWindow windows_[kMaxWindows] = {};
  int window_count_ = 0;
  Tables tables_ = {};
  ViewMemory memory_;
  MemoryAccess access_ = {};
  KnownLines known_ = nullptr;
  IsShared is_shared_ = nullptr;
  uint64_t shared_[kMostShared] = {};  // pages; 0: none
  uint64_t next_shared_ = 0;           // in shared_, modulo its size
  EntryWriter* writer_ = nullptr;
  uint64_t page_count_ = 0;  // in tables_.pages
  uint64_t next_page_ = 0;   // after the pages touched last
  uint64_t cluster_ = 1;     // pages to touch at once
  bool full_ = false;
  uint64_t touched_ = 0;
  uint64_t changed_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_VIEW_THREAD_VIEW_H_

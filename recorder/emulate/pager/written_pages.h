// The pages that a thread has written to since its last write-back: what must go to the process, or
// be taken back.
//
//           Add                    Settle (written back)
//   clean -------> dirty ---------------------------------> clean, writes are noticed again
//                    |                                  \-> dirty, as long as its grant lasts: the
//                    |                                      page was written in each turn so far
//                    +-- Rollback, or the page is let go of --> clean
//
// Which bytes go: of a page whose earlier contents are kept (`pristine`), those that differ; else
// all of it. They are kept where another thread or process may store to the page: in shared memory,
// and in all once the process has other threads (KeepPristine).
//
// Knows no process. Borrows the pages. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_PAGER_WRITTEN_PAGES_H_
#define HINDSIGHT_RECORDER_EMULATE_PAGER_WRITTEN_PAGES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "recorder/emulate/pager/known_pages.h"
#include "recorder/process/process_memory.h"

namespace hindsight {

// The first write after a write-back to a page, and the state of the Cpu at or shortly after it.
struct NotedWrite {
  uint64_t page = 0;
  uint64_t count = 0;
};

class WrittenPages {
 public:
  enum class Note : uint8_t { kNone, kShared, kAll };

  WrittenPages() = default;
  WrittenPages(const WrittenPages&) = delete;
  WrittenPages& operator=(const WrittenPages&) = delete;

  bool empty() const { return pages_.empty(); }
  std::vector<uint64_t> addresses() const;

  // The thread, in state `count`, is about to write to the page. `used_by_several` threads.
  void Add(KnownPage* page, uint64_t count, bool used_by_several);
  // From now on, or no longer, others may store to any page.
  void KeepPristine(bool keep);
  // Notes first writes from now on: none, to pages that several threads use, or all.
  void set_note(Note which) { note_ = which; }
  std::vector<NotedWrite> TakeNoted() { return std::exchange(noted_, {}); }

  // What to write to the process, by address. Unless `others_store`, nothing else has stored to
  // these pages: then what lies between changes may be written as well, which is quicker.
  std::vector<MemoryPiece> Changes(bool others_store);
  // They have been written. `each` is called with every page; returns those that are clean now,
  // whose next write must be noticed.
  std::vector<uint64_t> Settle(const std::function<void(const KnownPage&)>& each);
  // Gives the pages' bytes in the view back what they were, from `memory` where it is not kept.
  // Calls `changed` where that changed any. Nothing: `memory` cannot be read; the view is garbage.
  // Else the pages, all clean now.
  std::optional<std::vector<uint64_t>> Rollback(
      const ProcessMemory& memory, const std::function<void(const KnownPage&)>& changed);
  // Pages that are not dirty any more have been let go of.
  void DropClean();
  void Clear() { pages_.clear(); }

 private:
  std::vector<KnownPage*> pages_;
  bool keep_pristine_ = false;
  Note note_ = Note::kNone;
  std::vector<NotedWrite> noted_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_PAGER_WRITTEN_PAGES_H_

// What a thread tells of memory that it uses directly, without a view (exclusive_memory.h): nobody
// sees when it uses a page first. It tells what is mapped, what pages hold that are not as the map
// says, what others than its instructions have stored, and in the end which pages it has used.
//
// Runs inside the program: no library, no allocation, general registers only. The process's one
// thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_VIEW_DIRECT_PAGES_H_
#define HINDSIGHT_RECORDER_TRANSLATE_VIEW_DIRECT_PAGES_H_

#include <stdint.h>

#include "recorder/translate/view/entry_writer.h"

namespace hindsight {

class DirectPages {
 public:
  static constexpr uint64_t kPage = 4096;

  // As ThreadView::ReadMemory.
  using ReadMemory = bool (*)(void* to, const void* from, uint64_t bytes);

  void Init(ReadMemory read, EntryWriter* writer);

  // A segment has begun, with pages that are told next, and then TellOthersMapped.
  void TellBegin(uint64_t count);
  // All pages that have not been told since are as the map says.
  void TellOthersMapped(uint64_t count);
  // [start, end), whole pages, is as the map says.
  void TellMapped(uint64_t start, uint64_t end, uint64_t count);
  // The page holds what it does now. False if it cannot be read.
  bool TellPage(uint64_t page, uint64_t count);
  // Pages of all those since the segment began.
  uint64_t mapped_pages() const { return mapped_pages_; }
  // Something was stored to [address, address + bytes), and nowhere else. False if not all of it
  // can be read.
  bool TellStored(uint64_t address, uint64_t bytes, uint64_t count);

  // The page has been used in this segment. Ascending, until TellUsed.
  void AddUsed(uint64_t page, uint64_t count);
  // Those that were added. `all`: there are no others.
  void TellUsed(bool all, uint64_t count);
  // Memory is not used directly any more.
  void TellShared(uint64_t count);

 private:
  static constexpr uint64_t kMostRuns = 256;

  void TellRange(uint64_t start, uint64_t end, uint16_t flags, uint64_t count);
  bool TellLines(uint64_t page, uint64_t first, uint64_t last, uint64_t count);

  ReadMemory read_ = nullptr;
  EntryWriter* writer_ = nullptr;
  uint64_t mapped_pages_ = 0;
  uint64_t run_count_ = 0;
  HsPageRun runs_[kMostRuns] = {};
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_VIEW_DIRECT_PAGES_H_

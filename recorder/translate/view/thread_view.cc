#include "recorder/translate/view/thread_view.h"

#include <sys/syscall.h>

#include "recorder/translate/view/raw_call.h"

namespace hindsight {
namespace {

constexpr uint64_t kLine = 64;
constexpr uint64_t kMaxCluster = 16;

bool Bit(const uint8_t* bits, uint64_t index) { return (bits[index / 8] >> index % 8 & 1) != 0; }
void SetBit(uint8_t* bits, uint64_t index) {
  bits[index / 8] = static_cast<uint8_t>(bits[index / 8] | 1 << index % 8);
}
void ClearBit(uint8_t* bits, uint64_t index) {
  bits[index / 8] = static_cast<uint8_t>(bits[index / 8] & ~(1 << index % 8));
}

uint64_t ChangedLines(const uint8_t* from, const uint8_t* to) {
  uint64_t changed = 0;
  for (uint64_t line = 0; line < ThreadView::kPage / kLine; ++line) {
    const auto* source = reinterpret_cast<const uint64_t*>(from + line * kLine);
    const auto* target = reinterpret_cast<const uint64_t*>(to + line * kLine);
    uint64_t difference = 0;
#pragma GCC unroll 8
    for (uint64_t i = 0; i < kLine / 8; ++i) difference |= source[i] ^ target[i];
    if (difference != 0) changed |= uint64_t{1} << line;
  }
  return changed;
}

constexpr uint64_t PageOf(uint64_t address) { return address & ~(ThreadView::kPage - 1); }

}  // namespace

uint64_t ThreadView::TableBytes(const ViewWindow* windows, int count) {
  uint64_t pages = 0;
  for (int i = 0; i < count; ++i) pages += (windows[i].end - windows[i].start) / kPage;
  return pages / 8 + 1;
}

void ThreadView::Init(uint64_t distance, const ViewWindow* windows, int count, const Tables& tables,
                      const MemoryAccess& memory, EntryWriter* writer, KnownLines known,
                      IsShared is_shared) {
  distance_ = distance;
  window_count_ = count;
  for (int i = 0; i < count; ++i) windows_[i] = windows[i];
  tables_ = tables;
  memory_.Init(distance, windows_, count, tables.shared);
  page_count_ = next_page_ = touched_ = changed_ = 0;
  cluster_ = 1;
  full_ = false;
  access_ = memory;
  known_ = known;
  is_shared_ = is_shared;
  for (uint64_t& page : shared_) page = 0;
  writer_ = writer;
}

bool ThreadView::PageIndex(uint64_t address, uint64_t* index) const {
  uint64_t before = 0;
  for (int i = 0; i < window_count_; ++i) {
    const ViewWindow& window = windows_[i];
    if (address >= window.start && address < window.end) {
      *index = before + (address - window.start) / kPage;
      return true;
    }
    before += (window.end - window.start) / kPage;
  }
  return false;
}

bool ThreadView::IsView(uint64_t address) const {
  uint64_t index;
  return PageIndex(address - distance_, &index);
}

bool ThreadView::Holds(uint64_t address) const {
  uint64_t index;
  return PageIndex(address, &index) && Bit(tables_.held, index);
}

bool ThreadView::Touch(uint64_t address, StateAt at) {
  const uint64_t page = PageOf(address);
  // Who goes through memory in order gets more at once.
  cluster_ = page != next_page_ ? 1 : cluster_ < kMaxCluster ? 2 * cluster_ : kMaxCluster;
  uint64_t index;
  if (!PageIndex(page, &index)) return false;
  if (Bit(tables_.held, index)) return true;
  uint64_t pages = 0;
  for (; pages < cluster_; ++pages) {
    const uint64_t next = page + pages * kPage;
    if (!PageIndex(next, &index) || Bit(tables_.held, index) || !Enter(next, index, at)) break;
  }
  next_page_ = page + pages * kPage;
  return pages != 0;
}

bool ThreadView::TouchAll(uint64_t address, uint64_t size, uint64_t count) {
  for (uint64_t page = PageOf(address); page < address + size; page += kPage) {
    if (!Holds(page) && !Touch(page, {count})) return false;
  }
  return true;
}

// The thread may lose its processor after it has read, and what others store meanwhile would look
// as if it had been overwritten by what was read: memory must still be the same after the time.
bool ThreadView::ReadAsSeen(uint64_t page, uint8_t* bytes, EntryWriter::Seen* seen) {
  constexpr int kTries = 4;  // others may store there all the time
  for (int i = 1;; ++i) {
    if (!Read(page, bytes, kPage)) return false;
    *seen = writer_->TakeSeen();
    if (i == kTries || IsSame(page, bytes)) return true;
    writer_->CancelSeen(*seen);
  }
}

int ThreadView::HeldBeside(uint64_t index) const {
  return (index > 0 && Bit(tables_.held, index - 1) ? 1 : 0) +
         (Bit(tables_.held, index + 1) ? 1 : 0);
}

bool ThreadView::Enter(uint64_t page, uint64_t index, StateAt at) {
  alignas(64) uint8_t bytes[kPage];
  EntryWriter::Seen seen;
  if (!ReadAsSeen(page, bytes, &seen)) return false;
  const bool first = !Bit(tables_.in_segment, index);
  full_ =
      (first && page_count_ == tables_.max_pages) || !memory_.Put(page, bytes, HeldBeside(index));
  if (full_) {
    writer_->CancelSeen(seen);
    return false;
  }
  if (first) {
    tables_.pages[page_count_++] = page;
    SetBit(tables_.in_segment, index);
  }
  SetBit(tables_.held, index);
  if (is_shared_ != nullptr && is_shared_(page)) shared_[next_shared_++ % kMostShared] = page;
  writer_->CommitSeen(LogAll(page, at, bytes, first), seen);
  ++touched_;
  return true;
}

// The entry is to be committed.
HsEntry* ThreadView::LogAll(uint64_t page, StateAt at, const uint8_t* bytes, bool first) {
  if (first) {
    auto* const entry =
        reinterpret_cast<HsPage*>(writer_->Begin(HS_ENTRY_PAGE, at.count, sizeof(HsPage)));
    entry->host = at.host;
    entry->address = page;
    __builtin_memcpy(entry->bytes, bytes, kPage);
    return &entry->entry;
  }
  auto* const entry =
      reinterpret_cast<HsLines*>(writer_->Begin(HS_ENTRY_LINES, at.count, sizeof(HsLines) + kPage));
  entry->host = at.host;
  entry->address = page;
  entry->mask = ~uint64_t{0};
  entry->known = 0;
  __builtin_memset(entry->shown, 0, sizeof(entry->shown));
  __builtin_memcpy(entry->bytes, bytes, kPage);
  return &entry->entry;
}

bool ThreadView::Compare(uint64_t address, uint64_t size, uint64_t count) {
  bool all = true;
  for (uint64_t page = PageOf(address); page < address + size; page += kPage) {
    if (Holds(page) && !ComparePage(page, count)) all = false;
  }
  return all;
}

void ThreadView::CompareAll(uint64_t count) {
  for (uint64_t i = 0; i < page_count_; ++i) {
    const uint64_t page = tables_.pages[i];
    uint64_t index;
    if (!PageIndex(page, &index)) continue;
    // What has been dropped may be something else by now.
    const bool is =
        Bit(tables_.held, index) ? ComparePage(page, count) : Enter(page, index, {count});
    if (!is) Drop(page, page + kPage);
  }
}

void ThreadView::Refresh(uint64_t count) {
  if (page_count_ > kMostPages) KeepFirst(kKeptOfMore);
  writer_->BeginTimed(HS_ENTRY_REFRESH, count, sizeof(HsEntry));
  writer_->CommitTimed();
  alignas(64) uint8_t bytes[kPage];
  for (uint64_t i = 0; i < page_count_; ++i) {
    const uint64_t page = tables_.pages[i];
    if (!Holds(page) || IsSame(page, Seen(page))) continue;
    if (!Read(page, bytes, kPage)) {
      Drop(page, page + kPage);
    } else if (ChangedLines(bytes, Seen(page)) != 0) {
      __builtin_memcpy(Seen(page), bytes, kPage);
    }
  }
}

void ThreadView::CompareShared(uint64_t count) {
  for (const uint64_t page : shared_) {
    if (page != 0 && Holds(page) && !ComparePage(page, count)) Drop(page, page + kPage);
  }
}

void ThreadView::TakeOld(uint64_t address, uint64_t size, const void* old, uint64_t time,
                         uint64_t count) {
  for (uint64_t page = PageOf(address); page < address + size; page += kPage) {
    if (!Holds(page)) continue;
    alignas(64) uint8_t bytes[kPage];
    __builtin_memcpy(bytes, Seen(page), kPage);
    uint64_t lines = 0;
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t offset = address + i - page;
      if (offset >= kPage) continue;
      bytes[offset] = static_cast<const uint8_t*>(old)[i];
      lines |= uint64_t{1} << offset / kLine;
    }
    EntryWriter::Seen seen = writer_->TakeSeen();
    if (time != 0) seen.time = time;
    Import(page, bytes, lines, seen, count);
  }
}

bool ThreadView::ComparePage(uint64_t page, uint64_t count) {
  if (IsSame(page, Seen(page))) return true;  // most are
  alignas(64) uint8_t bytes[kPage];
  EntryWriter::Seen seen;
  if (!ReadAsSeen(page, bytes, &seen)) return false;
  const uint64_t lines = ChangedLines(bytes, Seen(page));
  if (lines == 0) {
    writer_->CancelSeen(seen);
    return true;
  }
  Import(page, bytes, lines, seen, count);
  for (uint64_t left = lines; left != 0; left &= left - 1) {
    const uint64_t offset = static_cast<uint64_t>(__builtin_ctzll(left)) * kLine;
    __builtin_memcpy(Seen(page) + offset, bytes + offset, kLine);
  }
  return true;
}

// These lines of `bytes`, the whole page, were seen then. The view does not have them yet, or had
// others before.
void ThreadView::Import(uint64_t page, const uint8_t* bytes, uint64_t lines,
                        const EntryWriter::Seen& seen, uint64_t count) {
  const Known known = known_ != nullptr ? known_(*this, page, lines, bytes) : Known();
  uint64_t number = 0;
  for (uint64_t left = lines; left != 0; left &= left - 1) ++number;
  auto* const entry = reinterpret_cast<HsLines*>(
      writer_->Begin(HS_ENTRY_LINES, count, sizeof(HsLines) + number * kLine));
  entry->host = 0;
  entry->address = page;
  entry->mask = lines;
  entry->known = known.lines;
  __builtin_memcpy(entry->shown, known.shown, sizeof(entry->shown));
  uint8_t* out = entry->bytes;
  for (uint64_t left = lines; left != 0; left &= left - 1) {
    const uint64_t offset = static_cast<uint64_t>(__builtin_ctzll(left)) * kLine;
    __builtin_memcpy(out, bytes + offset, kLine);
    out += kLine;
  }
  writer_->CommitSeen(&entry->entry, seen);
  ++changed_;
}

// `runs`: how their number changes.
bool ThreadView::DropPage(uint64_t page, int64_t* runs) {
  uint64_t index;
  if (!PageIndex(page, &index) || !Bit(tables_.held, index)) return false;
  ClearBit(tables_.held, index);
  *runs += HeldBeside(index) - 1;
  return true;
}

void ThreadView::Drop(uint64_t start, uint64_t end) {
  // What lies between the views of two windows is not this view's.
  for (int i = 0; i < window_count_; ++i) {
    const ViewWindow& window = windows_[i];
    const uint64_t from = start > window.start ? start : window.start;
    const uint64_t to = end < window.end ? end : window.end;
    if (from < to) DropInWindow(from, to);
  }
}

void ThreadView::KeepFirst(uint64_t most) {
  for (uint64_t i = most; i < page_count_;) {
    const uint64_t start = tables_.pages[i];
    uint64_t end = start;
    for (; i < page_count_ && tables_.pages[i] == end; ++i) end += kPage;
    Drop(start, end);
  }
}

void ThreadView::DropInWindow(uint64_t start, uint64_t end) {
  uint64_t first = ~uint64_t{0}, last = 0;
  int64_t runs = 0;
  const auto drop = [&](uint64_t page) {
    if (page < start || page >= end || !DropPage(page, &runs)) return;
    if (page < first) first = page;
    if (page > last) last = page;
  };
  // Only what a segment has can be held.
  if ((end - start) / kPage < page_count_) {
    for (uint64_t page = PageOf(start); page < end; page += kPage) drop(page);
  } else {
    for (uint64_t i = 0; i < page_count_; ++i) drop(tables_.pages[i]);
  }
  if (first <= last) memory_.Remove(first, last + kPage, runs);
}

void ThreadView::EnterAgain(uint64_t start, uint64_t end, uint64_t moved, uint64_t count) {
  const auto enter = [&](uint64_t page) {
    uint64_t index, target;
    if (page < start || page >= end || !PageIndex(page, &index)) return;
    if (!Bit(tables_.in_segment, index) || !PageIndex(page + moved, &target)) return;
    if (!Bit(tables_.held, target)) Enter(page + moved, target, {count});
  };
  const uint64_t known = page_count_;
  if ((end - start) / kPage < known) {
    for (uint64_t page = PageOf(start); page < end; page += kPage) enter(page);
  } else {
    for (uint64_t i = 0; i < known; ++i) enter(tables_.pages[i]);
  }
}

void ThreadView::BeginSegment(uint64_t count) {
  uint64_t kept = 0;
  for (uint64_t i = 0; i < page_count_; ++i) {
    const uint64_t page = tables_.pages[i];
    uint64_t index;
    if (!PageIndex(page, &index)) continue;
    if (!Bit(tables_.held, index)) {
      ClearBit(tables_.in_segment, index);
      continue;
    }
    tables_.pages[kept++] = page;
    LogAll(page, {count}, Seen(page), /*first=*/true);
    writer_->Commit();
  }
  page_count_ = kept;
}

}  // namespace hindsight

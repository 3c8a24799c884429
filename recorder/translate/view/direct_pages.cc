#include "recorder/translate/view/direct_pages.h"

namespace hindsight {
namespace {

constexpr uint64_t kLine = 64;

constexpr uint64_t PageOf(uint64_t address) { return address & ~(DirectPages::kPage - 1); }

}  // namespace

void DirectPages::Init(ReadMemory read, EntryWriter* writer) {
  read_ = read;
  writer_ = writer;
  run_count_ = 0;
}

void DirectPages::TellBegin(uint64_t count) {
  mapped_pages_ = 0;
  TellRange(0, 0, HS_MAPPED_BEGINS, count);
}

void DirectPages::TellOthersMapped(uint64_t count) {
  TellRange(0, PageOf(~uint64_t{0}), HS_MAPPED_BEGINS, count);
}

void DirectPages::TellMapped(uint64_t start, uint64_t end, uint64_t count) {
  mapped_pages_ += (end - start) / kPage;
  TellRange(start, end, 0, count);
}

void DirectPages::TellRange(uint64_t start, uint64_t end, uint16_t flags, uint64_t count) {
  auto* const entry =
      reinterpret_cast<HsMapped*>(writer_->Begin(HS_ENTRY_MAPPED, count, sizeof(HsMapped)));
  entry->entry.flags = flags;
  entry->start = start;
  entry->end = end;
  writer_->Commit();
}

bool DirectPages::TellPage(uint64_t page, uint64_t count) {
  auto* const entry =
      reinterpret_cast<HsPage*>(writer_->Begin(HS_ENTRY_PAGE, count, sizeof(HsPage)));
  entry->host = 0;
  entry->address = page;
  // What is not committed is as if it had not been begun.
  if (!read_(entry->bytes, reinterpret_cast<const void*>(page), kPage)) return false;
  writer_->Commit();
  return true;
}

bool DirectPages::TellLines(uint64_t page, uint64_t first, uint64_t last, uint64_t count) {
  const uint64_t lines = last - first + 1;
  auto* const entry = reinterpret_cast<HsLines*>(
      writer_->Begin(HS_ENTRY_LINES, count, sizeof(HsLines) + lines * kLine));
  entry->host = 0;
  entry->address = page;
  entry->mask = ~uint64_t{0} >> (64 - lines) << first;
  entry->known = 0;
  __builtin_memset(entry->shown, 0, sizeof(entry->shown));
  if (!read_(entry->bytes, reinterpret_cast<const void*>(page + first * kLine), lines * kLine)) {
    return false;
  }
  writer_->Commit();
  return true;
}

bool DirectPages::TellStored(uint64_t address, uint64_t bytes, uint64_t count) {
  const uint64_t end = address + bytes;
  for (uint64_t page = PageOf(address); bytes != 0 && page < end; page += kPage) {
    const uint64_t first = address <= page ? 0 : (address - page) / kLine;
    const uint64_t last = end >= page + kPage ? kPage / kLine - 1 : (end - 1 - page) / kLine;
    if (!TellLines(page, first, last, count)) return false;
  }
  return true;
}

void DirectPages::AddUsed(uint64_t page, uint64_t count) {
  if (run_count_ != 0 && runs_[run_count_ - 1].end == page) {
    runs_[run_count_ - 1].end += kPage;
    return;
  }
  if (run_count_ == kMostRuns) TellUsed(/*all=*/false, count);
  runs_[run_count_++] = {page, page + kPage};
}

void DirectPages::TellUsed(bool all, uint64_t count) {
  auto* const entry = reinterpret_cast<HsUsed*>(
      writer_->Begin(HS_ENTRY_USED, count, sizeof(HsUsed) + run_count_ * sizeof(HsPageRun)));
  entry->entry.flags = all ? HS_USED_ALL : 0;
  entry->size = run_count_;
  for (uint64_t i = 0; i < run_count_; ++i) entry->runs[i] = runs_[i];
  run_count_ = 0;
  writer_->Commit();
}

void DirectPages::TellShared(uint64_t count) {
  writer_->Begin(HS_ENTRY_SHARED, count, sizeof(HsEntry));
  writer_->Commit();
}

}  // namespace hindsight

#include "recorder/emulate/sync/memory_hashes.h"

#include <algorithm>

#include "tracefmt/memory_hash.h"

namespace hindsight {
namespace {

// Of what one call sends. Reading and hashing so much takes about 3 us, a tenth of a call.
constexpr uint64_t kMaxBytesPerCall = 16 << 10;

// A page is sampled every so many calls: about 1 us each.
constexpr uint64_t kCallsPerSample = 16;

}  // namespace

void MemoryHashes::LogSent(int64_t number, const uint64_t* arguments, uint64_t count, bool others) {
  const auto read = [this](uint64_t address, absl::Span<uint8_t> out) {
    return tracee_->memory().Read(address, out);
  };
  for (const MemoryRange& range : SentMemory(number, arguments, kMaxBytesPerCall, read)) {
    LogRange(range, count, others);
  }
  if (++calls_ % kCallsPerSample == 0) LogSomePages(1, count);
}

// In parts whose pages are all known or all unknown. Of pages that were left nothing can be
// compared.
void MemoryHashes::LogRange(const MemoryRange& range, uint64_t count, bool others) {
  const uint64_t end = range.address + range.size;
  for (uint64_t begin = range.address; begin < end;) {
    const ProcessPager::Knowledge knowledge = pager_->KnowledgeOf(PageOf(begin));
    uint64_t next = PageOf(begin) + kPageBytes;
    while (next < end && pager_->KnowledgeOf(next) == knowledge) next += kPageBytes;
    next = std::min(next, end);
    if (knowledge != ProcessPager::Knowledge::kLeft) {
      LogPart({begin, next - begin}, knowledge == ProcessPager::Knowledge::kKnown, count, others);
    }
    begin = next;
  }
}

void MemoryHashes::LogPart(const MemoryRange& part, bool known, uint64_t count, bool others) {
  in_process_.resize(part.size);
  if (!tracee_->memory().Read(part.address, absl::MakeSpan(in_process_))) return;
  const std::vector<uint8_t>* bytes = &in_process_;
  if (known && others) {
    in_view_.resize(part.size);
    if (!pager_->ReadKnown(part.address, absl::MakeSpan(in_view_))) return;
    if (in_view_ != in_process_) {
      std::vector<uint64_t> pages;
      for (uint64_t page = PageOf(part.address); page < part.address + part.size;
           page += kPageBytes) {
        pages.push_back(page);
      }
      pager_->ResyncPages(pages);
      // They may change again at any time: what counts is what the view was given.
      if (!pager_->ReadKnown(part.address, absl::MakeSpan(in_view_))) return;
    }
    bytes = &in_view_;
  }
  log_->Append(count, MemoryHash{part.address, part.size, HashMemory(*bytes)});
}

void MemoryHashes::LogSomePages(size_t pages, uint64_t count) {
  in_view_.resize(kPageBytes);
  for (const uint64_t page : pager_->SomeWrittenPages(pages)) {
    if (!pager_->ReadKnown(page, absl::MakeSpan(in_view_))) continue;
    log_->Append(count, MemoryHash{page, kPageBytes, HashMemory(in_view_)});
  }
}

}  // namespace hindsight

#include "translator/checks/twin_view.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace hindsight {
namespace {

constexpr uint64_t kPage = 4096;

}  // namespace

TwinView::TwinView(absl::Span<const uint8_t> memory, uint64_t distance)
    : memory_(memory),
      begin_(reinterpret_cast<uint64_t>(memory.data())),
      distance_(distance),
      missing_(memory.size() / kPage) {
  void* const wanted = reinterpret_cast<void*>(begin_ + distance_);
  CHECK(mmap(wanted, memory.size(), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == wanted);
}

TwinView::~TwinView() { munmap(view().data(), memory_.size()); }

absl::Span<uint8_t> TwinView::view() const {
  return {reinterpret_cast<uint8_t*>(begin_ + distance_), memory_.size()};
}

void TwinView::Begin(std::mt19937_64* random) {
  for (size_t page = 0; page < missing_.size(); ++page) Unprotect(page);
  std::copy(memory_.begin(), memory_.end(), view().begin());
  // From none to all words are old.
  const uint64_t rarity = 1 + (*random)() % 8;
  const uint64_t kind = (*random)() % 4;
  for (size_t i = 0; kind != 0 && i < memory_.size(); i += 8) {
    if (kind == 1 || (*random)() % rarity == 0) view()[i + (*random)() % 8] ^= 1 << (*random)() % 8;
  }
  old_memory_.assign(memory_.begin(), memory_.end());
  old_view_.assign(view().begin(), view().end());
  for (size_t page = 0; page < missing_.size(); ++page) {
    if ((*random)() % 4 != 0) continue;
    missing_[page] = true;
    CHECK(mprotect(view().data() + page * kPage, kPage, PROT_NONE) == 0);
  }
}

void TwinView::Unprotect(size_t page) {
  if (!missing_[page]) return;
  missing_[page] = false;
  CHECK(mprotect(view().data() + page * kPage, kPage, PROT_READ | PROT_WRITE) == 0);
}

// Pages that are missing come first.
void TwinView::Provide(uint64_t at, uint64_t bytes) {
  for (uint64_t page = at / kPage; page * kPage < at + bytes && page < missing_.size(); ++page) {
    Repair(begin_ + distance_ + page * kPage);
  }
}

bool TwinView::Import(uint64_t address, uint64_t bytes) {
  // Of an operand that is read by a mask, the first bytes need not be there.
  const uint64_t before = address < begin_ ? std::min(begin_ - address, bytes) : 0;
  bytes -= before;
  const uint64_t at = address + before - begin_;
  if (bytes == 0 || at >= memory_.size()) return false;
  bytes = std::min(bytes, memory_.size() - at);
  Provide(at, bytes);
  std::copy_n(memory_.begin() + at, bytes, view().begin() + at);
  return true;
}

bool TwinView::Repair(uint64_t address) {
  const uint64_t at = address - distance_ - begin_;
  const size_t page = at / kPage;
  if (at >= memory_.size() || !missing_[page]) return false;
  Unprotect(page);
  std::copy_n(memory_.begin() + page * kPage, kPage, view().begin() + page * kPage);
  return true;
}

bool TwinView::Shows(uint64_t address, uint64_t bytes) const {
  const uint64_t at = address - begin_;
  if (at >= memory_.size() || at + bytes > memory_.size()) return true;
  for (uint64_t i = at; i < at + bytes; ++i) {
    if (missing_[i / kPage] || view()[i] != memory_[i]) return false;
  }
  return true;
}

std::string TwinView::Verify() const {
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (missing_[i / kPage]) {
      if (memory_[i] == old_memory_[i]) continue;
    } else if (view()[i] == memory_[i] ||
               (view()[i] == old_view_[i] && memory_[i] == old_memory_[i])) {
      continue;
    }
    return absl::StrCat("the view at ", absl::Hex(begin_ + i), " is not what memory holds");
  }
  return "";
}

}  // namespace hindsight

// Rights of the pages of a chunk, as much of them as is in use: a chunk of which few pages are used
// takes little memory.
//
// Not copyable. One thread at a time.

#ifndef HINDSIGHT_EMULATOR_VIEW_PAGE_TABLE_H_
#define HINDSIGHT_EMULATOR_VIEW_PAGE_TABLE_H_

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace hindsight {

enum class PageRights : uint8_t { kNone, kRead, kReadWrite };

class PageTable {
 public:
  static constexpr uint64_t kPages = 65536;

  // Logical rights.
  PageRights rights(uint64_t index) const {
    const Leaf* const leaf = At(index);
    return leaf == nullptr ? PageRights::kNone : leaf->rights[index % kLeafPages];
  }
  void set_rights(uint64_t index, PageRights rights) {
    if (Leaf* const leaf = For(index, rights == PageRights::kNone)) {
      leaf->rights[index % kLeafPages] = rights;
    }
  }
  // What the host grants; no more than the logical rights but for poisoned pages.
  PageRights granted(uint64_t index) const {
    const Leaf* const leaf = At(index);
    return leaf == nullptr ? PageRights::kNone : leaf->granted[index % kLeafPages];
  }
  // Of `count` pages from `first` on. Returns by how much the runs of pages granted the same become
  // more or fewer.
  int64_t SetGranted(uint64_t first, uint64_t count, PageRights rights) {
    const int64_t before = Borders(first, first + count);
    for (uint64_t i = first; i < first + count;) {
      const uint64_t end = std::min(first + count, LeafEnd(i));
      if (Leaf* const leaf = For(i, rights == PageRights::kNone)) {
        std::fill_n(leaf->granted.begin() + i % kLeafPages, end - i, rights);
      }
      i = end;
    }
    return Borders(first, first + count) - before;
  }
  // Whether pages [first, end) are all granted `rights`.
  bool AreGranted(uint64_t first, uint64_t end, PageRights rights) const {
    for (uint64_t i = first; i < end; ++i) {
      if (granted(i) != rights) return false;
    }
    return true;
  }
  // Translated code lies there: never writable on the host.
  bool code(uint64_t index) const {
    const Leaf* const leaf = At(index);
    return leaf != nullptr && leaf->code[index % kLeafPages];
  }
  void set_code(uint64_t index, bool code) {
    if (Leaf* const leaf = For(index, !code)) leaf->code[index % kLeafPages] = code;
  }
  void DropAllRights() {
    for (const auto& leaf : leaves_) {
      if (leaf != nullptr) leaf->rights.fill(PageRights::kNone);
    }
  }

 private:
  static constexpr uint64_t kLeafPages = 512;
  struct Leaf {
    std::array<PageRights, kLeafPages> rights = {};
    std::array<PageRights, kLeafPages> granted = {};
    std::bitset<kLeafPages> code;
  };

  static uint64_t LeafEnd(uint64_t index) { return (index / kLeafPages + 1) * kLeafPages; }
  const Leaf* At(uint64_t index) const { return leaves_[index / kLeafPages].get(); }
  // `optional`: null where there is none, else it is made.
  Leaf* For(uint64_t index, bool optional) {
    std::unique_ptr<Leaf>& leaf = leaves_[index / kLeafPages];
    if (leaf == nullptr && !optional) leaf = std::make_unique<Leaf>();
    return leaf.get();
  }
  // How often pages are granted something else than those before them, in [first, end].
  int64_t Borders(uint64_t first, uint64_t end) const {
    int64_t borders = 0;
    for (uint64_t i = std::max<uint64_t>(first, 1); i <= std::min(end, kPages - 1);) {
      borders += granted(i - 1) != granted(i);
      i = At(i) == nullptr ? LeafEnd(i) : i + 1;  // nothing is granted up to there
    }
    return borders;
  }

  std::array<std::unique_ptr<Leaf>, kPages / kLeafPages> leaves_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_VIEW_PAGE_TABLE_H_

// Where the bytes of a page are in the trace already, by hash.

#ifndef HINDSIGHT_TRACEFMT_STORAGE_PAGE_INDEX_H_
#define HINDSIGHT_TRACEFMT_STORAGE_PAGE_INDEX_H_

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"

namespace hindsight {

enum class PageSourceKind : uint8_t { kZero = 0, kStored = 1, kModule = 2 };

// Says where a page's bytes are, as a keyframe's page table does (trace.capnp, PageTable).
struct PageSource {
  PageSourceKind kind = PageSourceKind::kZero;
  uint32_t owner = 0;
  uint64_t position = 0;
};

bool IsZeroPage(absl::Span<const uint8_t> page);

// XXH3-128. Two different pages of one trace sharing a hash is beyond what happens by accident
// (2^-64 for four billion pages), so equal hashes are taken for equal bytes.
class PageIndex {
 public:
  using Hash = std::pair<uint64_t, uint64_t>;
  static Hash HashOf(absl::Span<const uint8_t> page);

  // nullptr if the page is not known. Valid until the next Add.
  const PageSource* Find(const Hash& hash) const {
    const auto found = sources_.find(hash);
    return found == sources_.end() ? nullptr : &found->second;
  }
  // Pages of keyframes are not known any more.
  void ForgetStored() {
    absl::erase_if(
        sources_, [](const auto& source) { return source.second.kind == PageSourceKind::kStored; });
  }
  // Nor are those of `modules`.
  void ForgetModules(const absl::flat_hash_set<uint32_t>& modules) {
    absl::erase_if(sources_, [&](const auto& source) {
      return source.second.kind == PageSourceKind::kModule && modules.contains(source.second.owner);
    });
  }
  // The first source of a hash stays.
  void Add(const Hash& hash, const PageSource& source) { sources_.emplace(hash, source); }

 private:
  absl::flat_hash_map<Hash, PageSource> sources_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_STORAGE_PAGE_INDEX_H_

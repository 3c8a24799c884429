#include "tracefmt/ranges/range_expansion.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"

namespace hindsight {
namespace {

// Asking the budget for every page would take longer than making its import.
constexpr uint64_t kPagesPerQuestion = 512;

struct Insertion {
  size_t range = 0;  // index of the MappedRange that it follows
  uint64_t address = 0;
};

bool IsTransition(const Record& record) {
  return std::holds_alternative<SideEffect>(record.body) ||
         std::holds_alternative<Discontinuity>(record.body);
}

PageImport ImportOf(const MappedRange& range, uint64_t address) {
  PageImport page;
  page.address = address;
  page.first = true;
  page.module = range.module;
  if (range.module >= 0) page.module_offset = range.module_offset + (address - range.address);
  return page;
}

// Collects the page imports of a segment's ranges.
class Expander {
 public:
  Expander(const std::vector<Record>& records, const ExpansionLimits& limits, ReadBudget* budget)
      : records_(records), limits_(limits), budget_(budget) {}

  // False: the range at `failed()` makes too many.
  bool Run() {
    if (!FindUsedPages()) return false;
    for (size_t begin = 0; begin < records_.size();) {
      const size_t end = EndOfState(begin);
      begins_ = begin == 0;
      FindReplaced(begin, end);
      for (size_t i = begin; i < end; ++i) {
        const auto* range = std::get_if<MappedRange>(&records_[i].body);
        if (range != nullptr && !Expand(i, *range)) return false;
      }
      begin = end;
    }
    return Settle();
  }

  size_t failed() const { return range_; }
  std::vector<Insertion> TakeInsertions() { return std::move(insertions_); }

 private:
  // The union of all lists.
  bool FindUsedPages() {
    size_t size = 0;
    for (const Record& record : records_) {
      const auto* used = std::get_if<UsedPages>(&record.body);
      if (used == nullptr) continue;
      complete_ |= used->complete;
      size += used->pages.size();
    }
    // The range that fails, if this does.
    while (!std::holds_alternative<MappedRange>(records_[range_].body)) ++range_;
    if (!complete_) return true;
    if (!budget_->Take(size * sizeof(uint64_t))) return false;
    used_.reserve(size);
    for (const Record& record : records_) {
      const auto* used = std::get_if<UsedPages>(&record.body);
      if (used != nullptr) used_.insert(used_.end(), used->pages.begin(), used->pages.end());
    }
    std::sort(used_.begin(), used_.end());
    used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
    return true;
  }

  // The records from `begin` on that are of the same state, its transition included.
  size_t EndOfState(size_t begin) const {
    size_t end = begin;
    while (end < records_.size() && records_[end].count == records_[begin].count) {
      if (IsTransition(records_[end++])) break;
    }
    return end;
  }

  // Pages whose contents are imported in one state, and by which record last.
  void FindReplaced(size_t begin, size_t end) {
    replaced_.clear();
    const auto is_range = [](const Record& record) {
      return std::holds_alternative<MappedRange>(record.body);
    };
    const auto at = [this](size_t i) { return records_.begin() + static_cast<ptrdiff_t>(i); };
    if (std::none_of(at(begin), at(end), is_range)) return;
    for (size_t i = begin; i < end; ++i) {
      const auto* page = std::get_if<PageImport>(&records_[i].body);
      if (page != nullptr && page->first) replaced_[page->address] = i;
    }
  }

  bool Expand(size_t index, const MappedRange& range) {
    range_ = index;
    const uint64_t end = range.address + range.bytes;
    if (complete_) {
      auto page = std::lower_bound(used_.begin(), used_.end(), range.address);
      for (; page != used_.end() && *page < end; ++page) {
        if (seen_ == limits_.pages || !Add(*page)) return false;
      }
      return true;
    }
    const uint64_t most = range.address + limits_.pages_of_unknown_range * kPageBytes;
    for (uint64_t page = range.address; page < std::min(end, most); page += kPageBytes) {
      if (seen_ == limits_.pages || insertions_.size() == limits_.pages_if_unknown) return true;
      if (!Add(page)) return false;
    }
    return true;
  }

  // False: the budget is used up.
  bool Add(uint64_t page) {
    ++seen_;
    const auto replaced = replaced_.find(page);
    if (replaced != replaced_.end() && (begins_ || replaced->second > range_)) return true;
    insertions_.push_back({range_, page});
    return insertions_.size() - paid_ < kPagesPerQuestion || Settle();
  }

  bool Settle() {
    const uint64_t open = insertions_.size() - std::exchange(paid_, insertions_.size());
    return budget_->Take(open * sizeof(Record));
  }

  const std::vector<Record>& records_;
  const ExpansionLimits limits_;
  ReadBudget* const budget_;
  bool complete_ = false;
  std::vector<uint64_t> used_;  // ascending; only if complete
  bool begins_ = false;         // the state that the segment begins with: the order does not matter
  absl::flat_hash_map<uint64_t, size_t> replaced_;
  size_t range_ = 0;   // being expanded
  uint64_t seen_ = 0;  // pages of ranges
  uint64_t paid_ = 0;  // insertions that the budget was asked for
  std::vector<Insertion> insertions_;
};

// From the back, in place: a second list would take as much again.
void Insert(const std::vector<Insertion>& insertions, std::vector<Record>* records) {
  size_t from = records->size();
  records->resize(from + insertions.size());
  size_t to = records->size();
  for (auto next = insertions.rbegin(); next != insertions.rend(); ++next) {
    while (from > next->range + 1) (*records)[--to] = std::move((*records)[--from]);
    const Record& range = (*records)[next->range];
    (*records)[--to] = {range.count, ImportOf(std::get<MappedRange>(range.body), next->address)};
  }
}

}  // namespace

absl::Status ExpandRanges(ReadBudget* budget, std::vector<Record>* records,
                          const ExpansionLimits& limits) {
  const bool any = std::any_of(records->begin(), records->end(), [](const Record& record) {
    return std::holds_alternative<MappedRange>(record.body);
  });
  if (!any) return absl::OkStatus();
  Expander expander(*records, limits, budget);
  const bool fits = expander.Run();
  std::vector<Insertion> insertions = expander.TakeInsertions();
  if (!fits) {
    records->resize(expander.failed());
    std::erase_if(insertions,
                  [&](const Insertion& insertion) { return insertion.range >= expander.failed(); });
  }
  Insert(insertions, records);
  if (fits) return absl::OkStatus();
  return absl::ResourceExhaustedError("mapped ranges have more pages than such a file can hold");
}

void UnlistedPages::Find(const std::vector<Record>* records) {
  records_ = records;
  ranges_.clear();
  complete_ = false;
  for (size_t i = 0; i < records->size(); ++i) {
    const RecordBody& body = (*records)[i].body;
    if (std::holds_alternative<MappedRange>(body)) ranges_.push_back(i);
    if (const auto* used = std::get_if<UsedPages>(&body)) complete_ |= used->complete;
  }
}

std::optional<PageImport> UnlistedPages::ImportOf(size_t applied, uint64_t page) const {
  const auto end = std::lower_bound(ranges_.begin(), ranges_.end(), applied);
  for (auto i = end; i != ranges_.begin();) {
    const auto& range = std::get<MappedRange>((*records_)[*--i].body);
    if (page - range.address >= range.bytes) continue;
    if (range.module < 0 && complete_) return std::nullopt;
    return hindsight::ImportOf(range, page);
  }
  return std::nullopt;
}

}  // namespace hindsight

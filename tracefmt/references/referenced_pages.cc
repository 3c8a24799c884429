#include "tracefmt/references/referenced_pages.h"

#include <algorithm>
#include <cstddef>
#include <variant>

#include "absl/strings/str_format.h"

namespace hindsight {
namespace {

// Of the map, for a page: a slot at the load that it grows at, twice while it grows.
constexpr uint64_t kBytesPerPage = 64;

bool CanBeReferredTo(const PageImport& page) { return page.first && page.module < 0; }

}  // namespace

ReferencePages::ReferencePages(const std::vector<Record>& records, ReadBudget* budget) {
  const auto page_of = [](const Record& record) {
    const auto* page = std::get_if<PageImport>(&record.body);
    return page != nullptr && CanBeReferredTo(*page) ? page : nullptr;
  };
  const auto count = std::count_if(records.begin(), records.end(), page_of);
  if (!budget->Take(static_cast<uint64_t>(count) * kBytesPerPage)) return;
  for (const Record& record : records) {
    if (const PageImport* const page = page_of(record)) pages_.try_emplace(page->address, page);
  }
}

const PageImport* ReferencePages::Find(uint64_t address) const {
  const auto found = pages_.find(address);
  return found == pages_.end() ? nullptr : found->second;
}

bool HasReferences(const std::vector<Record>& records) {
  return std::any_of(records.begin(), records.end(), [](const Record& record) {
    return std::holds_alternative<ReferencedPage>(record.body);
  });
}

absl::Status ResolveReferences(const ReferencePages& pages, std::vector<Record>* records) {
  for (size_t i = 0; i < records->size(); ++i) {
    const auto* const referenced = std::get_if<ReferencedPage>(&(*records)[i].body);
    if (referenced == nullptr) continue;
    const PageImport* const page = pages.Find(referenced->address);
    if (page == nullptr) {
      const uint64_t address = referenced->address;
      records->resize(i);
      return absl::DataLossError(absl::StrFormat(
          "page %#x is to be as in the segment's reference segment, which does not have it",
          address));
    }
    (*records)[i].body = *page;
  }
  return absl::OkStatus();
}

}  // namespace hindsight

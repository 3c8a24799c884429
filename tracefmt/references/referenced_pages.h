// Page imports in place of referenced pages, which have the contents that a page had where another
// segment, the reference segment, imported it first. The rule is in docs/trace-format.md,
// "Referenced pages".

#ifndef HINDSIGHT_TRACEFMT_REFERENCES_REFERENCED_PAGES_H_
#define HINDSIGHT_TRACEFMT_REFERENCES_REFERENCED_PAGES_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "tracefmt/records.h"
#include "tracefmt/storage/read_budget.h"

namespace hindsight {

// What other segments can refer to in a segment with these records, as they are stored: they and
// what they point to must outlive this. Immutable.
class ReferencePages {
 public:
  ReferencePages() = default;
  // Takes its memory from `budget`; without, it is as if there were no pages.
  ReferencePages(const std::vector<Record>& records, ReadBudget* budget);

  // Null: there is no such page.
  const PageImport* Find(uint64_t address) const;

 private:
  absl::flat_hash_map<uint64_t, const PageImport*> pages_;
};

// Whether any of the records is a ReferencedPage.
bool HasReferences(const std::vector<Record>& records);

// Puts page imports of `pages` in place of referenced pages. kDataLoss: one is not there; the
// records from it on are gone.
absl::Status ResolveReferences(const ReferencePages& pages, std::vector<Record>* records);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_REFERENCES_REFERENCED_PAGES_H_

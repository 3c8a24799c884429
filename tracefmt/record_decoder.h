// Records out of a block.
//
// Every field is checked before it is used; the records handed out satisfy what records.h says of
// them, so that a replay need not check again: addresses are aligned, `lines` has as
// many bytes as the mask says, modules and register indices exist, a siginfo is no larger than a
// siginfo_t, counts never decrease, those of an OrderRun ascend between the record before and its
// own, a MappedRange fits the address space and the file offsets, UsedPages ascend.

#ifndef HINDSIGHT_TRACEFMT_RECORD_DECODER_H_
#define HINDSIGHT_TRACEFMT_RECORD_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tracefmt/records.h"
#include "tracefmt/storage/block.h"
#include "tracefmt/storage/read_budget.h"

namespace hindsight {

// What records may refer to.
struct RecordLimits {
  size_t module_count = 0;
  size_t register_words = 0;
  ReadBudget* budget = nullptr;  // for the memory the records take; borrowed
};

// How far the decoder has got in a segment.
struct RecordCursor {
  uint64_t record = 0;   // records met, those skipped included
  uint64_t count = 0;    // of the last record
  bool ended = false;    // by SegmentEnd or Gap
  uint64_t ordered = 0;  // counts in OrderRuns met
  uint64_t used = 0;     // pages in UsedPages met
};

// The counts that OrderRuns point to, and the pages of UsedPages: an array of each per block that
// has any.
using DecodedLists = std::vector<std::unique_ptr<uint64_t[]>>;

// Appends the records of `block` to `out`; their spans point into `block` and `lists`. On error
// the records before the wrong one have been appended. kUnimplemented: a record of a newer,
// critical kind; kUnavailable: a module added to a live trace after it was opened;
// kResourceExhausted: they take more memory than the budget has.
absl::Status DecodeRecords(const std::string& path, const RawBlock& block,
                           const RecordLimits& limits, RecordCursor* cursor,
                           std::vector<Record>* out, DecodedLists* lists);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_RECORD_DECODER_H_

// Records out of a block.
//
// Every field is checked before it is used; the records handed out satisfy what records.h says of
// them, so that whoever replays them need not check again: addresses are aligned, `lines` has as
// many bytes as the mask says, modules and register indices exist, counts never decrease.

#ifndef HINDSIGHT_TRACEFMT_RECORD_DECODER_H_
#define HINDSIGHT_TRACEFMT_RECORD_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tracefmt/block.h"
#include "tracefmt/records.h"

namespace hindsight {

// What records may refer to.
struct RecordLimits {
  size_t module_count = 0;
  size_t register_words = 0;
};

// Where in a segment the decoder stands.
struct RecordCursor {
  uint64_t record = 0;  // records met, those skipped included
  uint64_t count = 0;   // of the last record
  bool ended = false;   // by SegmentEnd or Gap
};

// Appends the records of `block` to `out`; their spans point into `block`. On error the records
// before the wrong one have been appended. kUnimplemented: a record of a newer, critical kind;
// kUnavailable: a module added to a live trace after it was opened.
absl::Status DecodeRecords(const std::string& path, const RawBlock& block,
                           const RecordLimits& limits, RecordCursor* cursor,
                           std::vector<Record>* out);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_RECORD_DECODER_H_

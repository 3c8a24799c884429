// Reading a trace's file `events`.

#ifndef HINDSIGHT_TRACEFMT_EVENT_FILE_H_
#define HINDSIGHT_TRACEFMT_EVENT_FILE_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tracefmt/records.h"
#include "tracefmt/storage/read_budget.h"
#include "tracefmt/storage/trace_directory.h"

namespace hindsight {

// Appends all events to `events`; what comes before damage is usable. kOutOfRange where the file
// just ends.
absl::Status ReadEventFile(const TraceDirectory& files, ReadBudget* budget,
                           std::vector<ProcessEvent>* events);

// Those of the first block: of a trace that has lost its oldest part, what it begins with instead.
absl::StatusOr<std::vector<ProcessEvent>> ReadFirstEvents(const TraceDirectory& files);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_EVENT_FILE_H_

// A snapshot's process under full recording.

#ifndef HINDSIGHT_CLI_SNAPSHOTS_REFINE_RECORD_H_
#define HINDSIGHT_CLI_SNAPSHOTS_REFINE_RECORD_H_

#include "absl/status/statusor.h"
#include "cli/snapshots/refine_plan.h"
#include "recorder/session/options.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// Records it from its next instruction to its end. Errors: as of RestoreEdited and RecordProgram.
// `notes`: what the process does not have.
absl::StatusOr<RecordResult> RecordRefinement(const TraceReader& trace, const RefinePlan& plan,
                                              RestoreNotes* notes);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_SNAPSHOTS_REFINE_RECORD_H_

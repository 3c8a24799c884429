// A snapshot's process under full recording.

#ifndef HINDSIGHT_CLI_SNAPSHOTS_REFINE_RECORD_H_
#define HINDSIGHT_CLI_SNAPSHOTS_REFINE_RECORD_H_

#include "absl/status/statusor.h"
#include "cli/snapshots/refine_plan.h"
#include "recorder/restore/refinement.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// Records it from its next instruction to its target, or its end. Errors: as of RestoreEdited and
// RecordProgram. No process is left.
absl::StatusOr<RefineResult> RecordRefinement(const TraceReader& trace, const RefinePlan& plan);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_SNAPSHOTS_REFINE_RECORD_H_

#include "cli/snapshots/refine_record.h"

#include <memory>

#include "base/status_macros.h"
#include "recorder/record.h"
#include "recorder/restore/refinement.h"

namespace hindsight {

absl::StatusOr<RecordResult> RecordRefinement(const TraceReader& trace, const RefinePlan& plan,
                                              RestoreNotes* notes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<RestoredProcess> process,
                   RestoreEdited(trace, *plan.from, plan.options, /*control_file=*/""));
  *notes = process->notes();
  RecordOptions options;
  options.directory = plan.options.snapshots.directory;
  options.attach_pid = process->pid();
  options.traced_threads = process->threads();
  return RecordProgram(options);
}

}  // namespace hindsight

// From what the user asked for to what is to be done: places, variables and edits looked up in the
// trace.

#ifndef HINDSIGHT_CLI_SNAPSHOTS_REFINE_PLAN_H_
#define HINDSIGHT_CLI_SNAPSHOTS_REFINE_PLAN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "cli/snapshots/refine_options.h"
#include "recorder/restore/refinement.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

struct RefinePlan {
  std::shared_ptr<const FullKeyframe> from;
  bool listens = true;  // to the process's points
  RefineOptions options;
};

// kInvalidArgument, kNotFound: a line for the user. Requires: `trace` is one of snapshots.
absl::StatusOr<RefinePlan> PlanRefinement(const TraceReader& trace, const RefineChoice& choice);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_SNAPSHOTS_REFINE_PLAN_H_

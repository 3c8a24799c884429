// Which engine records, where the options leave that open: the one that translates, unless it
// cannot do what is asked for or record this program; then the one that emulates, and the options'
// `remark` is told why.

#ifndef HINDSIGHT_RECORDER_CHOICE_ENGINE_CHOICE_H_
#define HINDSIGHT_RECORDER_CHOICE_ENGINE_CHOICE_H_

#include <sys/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/session/options.h"

namespace hindsight {

// Before anything starts: sets `engine` and `cpu`. InvalidArgument: the engine that the options
// name cannot do what they ask for.
absl::Status ChooseEngine(RecordOptions* options);

// `process` has been launched for the chosen engine and has not executed anything. If `cpu` is left
// open, it becomes what the program says that it needs. False: another
// engine has been chosen, for which it must be launched anew. InvalidArgument: the engine that the
// options name cannot record it.
absl::StatusOr<bool> SuitsEngine(pid_t process, RecordOptions* options);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_CHOICE_ENGINE_CHOICE_H_

// Records one run of a program.

#ifndef HINDSIGHT_RECORDER_RECORD_H_
#define HINDSIGHT_RECORDER_RECORD_H_

#include "absl/status/statusor.h"
#include "recorder/session/options.h"

namespace hindsight {

// Runs the program to its end. stdin, stdout, stderr, environment and working directory are the
// caller's. While it runs this process ignores SIGINT and SIGQUIT (a terminal sends them to the
// program too) and passes SIGTERM and SIGHUP on. kNotFound, kPermissionDenied and
// kInvalidArgument: the program cannot be run, and nothing was written; others: the trace cannot be
// written, and the program was killed.
//
// Requires: no other thread of the caller forks or waits for children meanwhile, and only one
// RecordProgram at a time.
absl::StatusOr<RecordResult> RecordProgram(const RecordOptions& options);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_RECORD_H_

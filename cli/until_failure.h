// Records a program repeatedly until it fails.

#ifndef HINDSIGHT_CLI_UNTIL_FAILURE_H_
#define HINDSIGHT_CLI_UNTIL_FAILURE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "recorder/session/options.h"

namespace hindsight {

// How a recorded run ended.
struct RunOutcome {
  int wait_status = 0;  // the program's own, as wait(2) reports it
  bool timed_out = false;
  bool ended = false;         // the program, while it was recorded
  int recorder_exit = 0;      // not 0: recording failed, which has been printed; an exit status
  bool at_line_start = true;  // RecordOptions::at_line_start of what comes next

  bool failed() const { return wait_status != 0 || timed_out; }
};

// "killed by signal 6 (Aborted), seed 17": how a run ended that was recorded with `seed`.
std::string FailureText(const RunOutcome& outcome, uint64_t seed);

// Records one run; called in a process of its own.
using RecordRun = std::function<RunOutcome(const RecordOptions& options)>;

// Records at most `most` runs (0: any number), the first with the seed of `options`, each other
// with the one that follows. Keeps the trace of the first run that fails, and removes all others.
// Each run reads the same standard input, if that is a file. SIGINT, SIGQUIT, SIGTERM and SIGHUP
// kill the run in progress, remove its trace and end the search.
//
// Returns the last run's outcome. Where no run failed and recording did not either, that is one of
// success, or has `recorder_exit` 128 and the signal that ended the search.
//
// Requires: no other thread runs.
RunOutcome RecordUntilFailure(const RecordOptions& options, uint64_t most, const RecordRun& record);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_UNTIL_FAILURE_H_

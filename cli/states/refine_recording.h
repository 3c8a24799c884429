// hindsight refine, of a recording: snapshots of states that it is replayed to.

#ifndef HINDSIGHT_CLI_STATES_REFINE_RECORDING_H_
#define HINDSIGHT_CLI_STATES_REFINE_RECORDING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// Snapshots are taken at `from` and `to`, and between them wherever one of the others says so; if
// none does, at ten moments evenly spaced, those two included.
struct RecordingRefinement {
  // Places as `monitor goto` takes them, or numbers of snapshots. Empty: the recording's start,
  // end.
  std::string from, to;
  std::string directory;           // of the new trace: must not exist or be empty
  uint64_t count = 0;              // so many, evenly spaced
  uint64_t every_moments = 0;      // instructions of all threads together
  absl::Duration every;            // of the recorded time, between the times that the trace has
  std::vector<std::string> at;     // places in code (recorder/symbols/code_place.h)
  std::vector<std::string> watch;  // variables, or ADDRESS,SIZE: after each change
  uint64_t max = 0;                // no more than these; 0: 1000
  bool quiet = false;
};

// Returns the exit status; errors have been printed.
int RefineRecording(const TraceReader& trace, const RecordingRefinement& refinement);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_STATES_REFINE_RECORDING_H_

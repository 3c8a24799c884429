// What a capture is asked for: which points pass, when snapshots are taken besides, how many, and
// what is saved. One struct, whether it comes from the command line or from a file.
//
// A setting has the same name and the same values in both: `--on-signal=SEGV,ABRT` and
// `on-signal = ["SEGV", "ABRT"]`. A setting that is given again replaces what it was: the command
// line is applied after the file.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_CAPTURE_CONFIGURATION_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_CAPTURE_CONFIGURATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "recorder/snapshot/points/point_filter.h"

namespace hindsight {

struct SavedRange {
  uint64_t begin = 0;
  uint64_t end = 0;  // exclusive, above `begin`
};

// Registers and the map are saved always. Of memory everything, or what the others name together.
struct SavedMemory {
  bool all = true;
  bool stacks = false;                 // of every thread, from the stack pointer upward
  std::vector<SavedRange> ranges;      // addresses
  std::vector<std::string> variables;  // by symbol
};

struct CaptureConfiguration {
  PointFilter points;
  absl::Duration every = absl::ZeroDuration();  // a snapshot so often; 0: none by time
  std::vector<int> signals;                     // a snapshot before one of these is delivered
  std::vector<std::string> functions;           // a snapshot where one of these begins
  uint64_t max_snapshots = 0;                   // no more than these; 0: no limit
  SavedMemory save;

  // Replaces the setting `name` (see CaptureSettings). kInvalidArgument: a line for the user; the
  // configuration is unchanged.
  absl::Status Apply(absl::string_view name, absl::Span<const std::string> values);
};

struct CaptureSetting {
  absl::string_view name;
  absl::string_view placeholder;  // of its value, in a text of help
  absl::string_view help;
  bool is_list = false;  // may be given several times
};

// All settings, in the order of a text of help.
absl::Span<const CaptureSetting> CaptureSettings();

// Applies the lines of the file at `path`, a subset of TOML:
//
//   # comment
//   level = 2
//   class = [1, "4-7"]
//   every = "100ms"
//
// Only settings of these names may be there. kInvalidArgument: "PATH:LINE: what is wrong", and the
// configuration is unchanged; kNotFound if it cannot be read.
absl::Status ReadCaptureFile(const std::string& path, absl::Span<const std::string> names,
                             CaptureConfiguration* configuration);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_CAPTURE_CONFIGURATION_H_

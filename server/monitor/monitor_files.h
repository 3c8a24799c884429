// Files that monitor commands write, of recordings and of sequences of snapshots: `monitor core
// FILE`, and texts.

#ifndef HINDSIGHT_SERVER_MONITOR_MONITOR_FILES_H_
#define HINDSIGHT_SERVER_MONITOR_MONITOR_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "keyframes/inspect/core_file.h"
#include "keyframes/inspect/core_output.h"
#include "keyframes/inspect/process_view.h"

namespace hindsight {

// Writes the process to `path` and returns the lines for the user. `files` may be null: then no
// files are written here. kInvalidArgument: a message for the user; kCancelled.
absl::StatusOr<std::string> WriteCoreFor(ProcessView* view, const CoreOptions& options,
                                         absl::string_view path, CoreFiles* files);

// Writes `text` to `path`; the rest is as above.
absl::Status WriteTextFor(absl::string_view text, OutputKind kind, absl::string_view path,
                          CoreFiles* files);

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_MONITOR_MONITOR_FILES_H_

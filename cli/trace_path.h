// Where traces are when the user names none.

#ifndef HINDSIGHT_CLI_TRACE_PATH_H_
#define HINDSIGHT_CLI_TRACE_PATH_H_

#include <string>

#include "absl/status/statusor.h"

namespace hindsight {

// "DIRECTORY/NAME-N.hindsight" for the last component of `program` and the lowest N not taken.
std::string NewTracePath(const std::string& directory, const std::string& program);

// The trace in `directory` ("*.hindsight") that was recorded last: by the time its recording ended,
// or, where that did not happen, began. kNotFound if none.
absl::StatusOr<std::string> NewestTrace(const std::string& directory);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_TRACE_PATH_H_

// Where the traces of a recording's processes lie: that of the first in the recording's own
// directory, the others in processes/NAME below it.
//
// For tracefmt's own sources.

#ifndef HINDSIGHT_TRACEFMT_RECORDING_LAYOUT_H_
#define HINDSIGHT_TRACEFMT_RECORDING_LAYOUT_H_

#include <string>

namespace hindsight {

inline constexpr char kProcessesDirectory[] = "processes";

// The recording that the trace in `directory` is a child's of; empty if it is none.
std::string RecordingOf(const std::string& directory);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_RECORDING_LAYOUT_H_

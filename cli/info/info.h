// What `hindsight info` shows, as text and as JSON.

#ifndef HINDSIGHT_CLI_INFO_INFO_H_
#define HINDSIGHT_CLI_INFO_INFO_H_

#include <string>

#include "cli/info/recording_info.h"

namespace hindsight {

// `threads`: one line for each thread too.
std::string InfoText(const RecordingInfo& info, bool threads);
std::string InfoJson(const RecordingInfo& info, bool threads);

// How the recording of a process ended; its state in one word.
std::string EndText(const Manifest& manifest);
const char* StateName(TraceState state);
// Of everything that replay needs and that grows with the run: segments and events.
double BitsPerInstruction(const TraceReader::Sizes& sizes, uint64_t instructions);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_INFO_INFO_H_

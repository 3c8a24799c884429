// The recording that replay_fuzzer damages: three threads, cut into short segments, with full
// keyframes between them.

#ifndef HINDSIGHT_KEYFRAMES_FUZZ_TOY_TO_FUZZ_H_
#define HINDSIGHT_KEYFRAMES_FUZZ_TOY_TO_FUZZ_H_

#include <string>

namespace hindsight {

// Writes it into `directory`, which exists and is empty.
void WriteToyTrace(const std::string& directory);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_FUZZ_TOY_TO_FUZZ_H_

// How users write places of a recording: start, end, 1A:3F (a position), 50%, snapshot N,
// bookmark NAME, thread TID, thread TID end.

#ifndef HINDSIGHT_KEYFRAMES_STATE_PLACE_TEXT_H_
#define HINDSIGHT_KEYFRAMES_STATE_PLACE_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "keyframes/state/places.h"
#include "keyframes/state/process_state.h"

namespace hindsight {

// The moment meant, and the thread to look at there: the one that the place names, if it is alive
// then, else the one that runs next. kInvalidArgument, with a message for the user: not a place.
// kOutOfRange: a position that the recording does not have.
absl::StatusOr<Place> ParsePlace(absl::string_view text, const ProcessState& process,
                                 const Places& places);

// A thread of the recording, alive or not, by its id. kInvalidArgument if there is none.
absl::StatusOr<int32_t> ParseThread(absl::string_view text, const ProcessState& process);

// What is missing at `moment` in a ring by threads, for the user; empty where nothing is.
std::string ThinnedText(const ProcessState& process, uint64_t moment);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_STATE_PLACE_TEXT_H_

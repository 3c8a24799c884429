// The agent: a program of its own that runs inside the recorded one, built to a flat image.
//
// Stateless; any thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_IMAGE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_IMAGE_H_

#include <cstdint>

#include "absl/types/span.h"

namespace hindsight {

// To be mapped at kAgentImage; begins with an AgentImageHeader. A multiple of the page size.
absl::Span<const uint8_t> AgentImage();

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_IMAGE_H_

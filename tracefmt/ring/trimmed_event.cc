#include "tracefmt/ring/trimmed_event.h"

#include <algorithm>

namespace hindsight {
namespace {

constexpr size_t kFixed = 5;
constexpr uint64_t kOthersWrite = 1, kThinned = 2;

}  // namespace

ProcessEvent ToEvent(const TrimmedEvent& trimmed) {
  ProcessEvent event = {.kind = EventKind::kTrimmed,
                        .number = static_cast<int64_t>(trimmed.oldest_keyframe),
                        .arguments = {trimmed.others_write ? kOthersWrite : 0, trimmed.segments,
                                      trimmed.keyframes, trimmed.events, trimmed.time_ns},
                        .text = trimmed.program};
  if (trimmed.thinned()) {
    event.arguments[0] |= kThinned;
    event.arguments.push_back(trimmed.whole_keyframe);
  }
  for (const auto& [thread, segment] : trimmed.first_segments) {
    event.arguments.push_back(static_cast<uint64_t>(thread));
    event.arguments.push_back(segment);
  }
  return event;
}

std::optional<TrimmedEvent> TrimmedFrom(const ProcessEvent& event) {
  if (event.kind != EventKind::kTrimmed || event.number <= 0) return std::nullopt;
  TrimmedEvent trimmed = {.oldest_keyframe = static_cast<uint64_t>(event.number),
                          .whole_keyframe = static_cast<uint64_t>(event.number),
                          .program = event.text};
  const std::vector<uint64_t>& arguments = event.arguments;
  if (arguments.size() < kFixed) return trimmed;
  trimmed.others_write = (arguments[0] & kOthersWrite) != 0;
  trimmed.segments = arguments[1];
  trimmed.keyframes = arguments[2];
  trimmed.events = arguments[3];
  trimmed.time_ns = arguments[4];
  size_t i = kFixed;
  if ((arguments[0] & kThinned) != 0 && i < arguments.size()) {
    trimmed.whole_keyframe = std::max(trimmed.oldest_keyframe, arguments[i++]);
  }
  for (; i + 1 < arguments.size(); i += 2) {
    trimmed.first_segments.emplace_back(static_cast<int32_t>(arguments[i]), arguments[i + 1]);
  }
  return trimmed;
}

}  // namespace hindsight

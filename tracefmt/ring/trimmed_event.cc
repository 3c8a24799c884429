#include "tracefmt/ring/trimmed_event.h"

namespace hindsight {
namespace {

constexpr size_t kFixed = 5;
constexpr uint64_t kOthersWrite = 1;

}  // namespace

ProcessEvent ToEvent(const TrimmedEvent& trimmed) {
  ProcessEvent event = {.kind = EventKind::kTrimmed,
                        .number = static_cast<int64_t>(trimmed.oldest_keyframe),
                        .arguments = {trimmed.others_write ? kOthersWrite : 0, trimmed.segments,
                                      trimmed.keyframes, trimmed.events, trimmed.time_ns},
                        .text = trimmed.program};
  for (const auto& [thread, segment] : trimmed.first_segments) {
    event.arguments.push_back(static_cast<uint64_t>(thread));
    event.arguments.push_back(segment);
  }
  return event;
}

std::optional<TrimmedEvent> TrimmedFrom(const ProcessEvent& event) {
  if (event.kind != EventKind::kTrimmed || event.number <= 0) return std::nullopt;
  TrimmedEvent trimmed = {.oldest_keyframe = static_cast<uint64_t>(event.number),
                          .program = event.text};
  const std::vector<uint64_t>& arguments = event.arguments;
  if (arguments.size() < kFixed) return trimmed;
  trimmed.others_write = (arguments[0] & kOthersWrite) != 0;
  trimmed.segments = arguments[1];
  trimmed.keyframes = arguments[2];
  trimmed.events = arguments[3];
  trimmed.time_ns = arguments[4];
  for (size_t i = kFixed; i + 1 < arguments.size(); i += 2) {
    trimmed.first_segments.emplace_back(static_cast<int32_t>(arguments[i]), arguments[i + 1]);
  }
  return trimmed;
}

}  // namespace hindsight

#include "tracefmt/samples/sample_ring.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tracefmt/samples/ring_recorder.h"
#include "tracefmt/samples/sample_trace.h"

namespace hindsight {
namespace {

constexpr int32_t kQuiet = 5000;

}  // namespace

void WriteSampleRing(const std::string& directory) {
  Recorder recorder(directory, {.keyframes = 3, .text = "3"});
  recorder.Begin(kQuiet);
  for (int i = 0; i < 4; ++i) {
    recorder.Execute(SampleManifest().pid);
    recorder.Keyframe();
    CHECK(recorder.writer()->Flush().ok());
  }
  recorder.End(kQuiet);
  recorder.Finish();
}

void WriteSampleRingByThread(const std::string& directory) {
  constexpr uint64_t kMost = 40 << 10;
  Recorder recorder(directory, {.bytes = kMost, .by_thread = true, .text = "40K by threads"});
  recorder.Begin(kQuiet);
  for (int i = 0; i < 24; ++i) {
    recorder.RoundOfFirst();
    if (i % 20 == 0) recorder.Execute(kQuiet);
    CHECK(recorder.writer()->Flush().ok());
  }
  recorder.Finish();
}

std::string DescribeRing(const TraceReader& trace) {
  std::string text = absl::StrCat("ring ", trace.manifest().ring, "\n");
  if (const TrimmedEvent* trimmed = trace.trimmed()) {
    absl::StrAppend(&text, "begins at full keyframe ", trimmed->oldest_keyframe, ", whole from ",
                    trimmed->whole_keyframe, ", others write ", trimmed->others_write,
                    "\ndropped: segments ", trimmed->segments, " keyframes ", trimmed->keyframes,
                    " events ", trimmed->events, "\n");
    for (const auto& [thread, segment] : trimmed->first_segments) {
      absl::StrAppend(&text, "thread ", thread, " from segment ", segment, "\n");
    }
  }
  for (const int32_t thread : trace.threads()) {
    for (const SegmentInfo& info : trace.segments(thread)) {
      if (info.thinned) absl::StrAppend(&text, "thinned ", thread, "/", info.number, "\n");
    }
  }
  return text + Describe(trace);
}

}  // namespace hindsight

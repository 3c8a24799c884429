// A point as the program tells it, and the filter as the program reads it: the contents of the
// control file (libhindsight/control.h) as values.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_POINTS_POINT_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_POINTS_POINT_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "libhindsight/control.h"
#include "recorder/snapshot/points/point_filter.h"

namespace hindsight {

// Values as in libhindsight/control.h and in the event `snapshot` of a trace.
enum class Trigger : uint32_t {
  kCall = 1,
  kPoint = 2,
  kCondition = 3,
  kAssertion = 4,
  kException = 5,
  kSignal = 6,
  kTimer = 7,
  kFunction = 8,
  kOutside = 9,
};

// A point at which a thread waits. The thread exists; the rest is what the program says.
struct Point {
  pid_t process = 0;
  pid_t thread = 0;
  Trigger trigger = Trigger::kCall;  // kCall to kException
  int32_t level = 0;
  uint32_t class_number = 0;
  uint32_t id = 0;
  std::string label;                                            // any bytes, no NUL
  std::vector<std::pair<std::string, std::string>> attributes;  // any bytes, no NUL
  bool is_cut = false;                                          // label and attributes did not fit

  uint32_t slot = 0;    // for Answer()
  uint32_t ticket = 0;  // for Answer()
};

// What a slot says. `slot` is a copy: nobody changes it while it is looked at.
Point PointOf(const hs_slot& slot);

// Lines "label=LABEL" and "KEY=VALUE", as in the event `snapshot` of a trace.
std::string PointText(const Point& point);

// kInvalidArgument: the filter does not fit into the file; a line for the user.
absl::Status FilterFits(const PointFilter& filter);
// Requires: FilterFits, and that nothing is active.
void WriteFilter(const PointFilter& filter, hs_control& control);

// What the program has counted in an earlier control file, whose bytes these are, counts on: points
// passed for skip and stride, and which of those marked `once` have passed. Bytes that are no such
// file change nothing.
void ContinueCounts(absl::Span<const uint8_t> earlier, hs_control& control);

// Whether the points that pass `filter`, with counts continued, can be counted like those that
// passed in that earlier file: neither leaves points out (by skip, stride or interval), or both the
// same. True if the bytes are no such file. Requires: FilterFits.
bool CountAlike(absl::Span<const uint8_t> earlier, const PointFilter& filter);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_POINTS_POINT_H_

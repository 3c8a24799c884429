// Which of the points that a program passes are taken: plain values, made by the capture
// configuration and given to a PointListener.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_POINTS_POINT_FILTER_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_POINTS_POINT_FILTER_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace hindsight {

// Numbers from `first` to `last`, both among them.
struct NumberRange {
  uint32_t first = 0;
  uint32_t last = 0;
};

// A key that a point must have; with a value unless any will do ("").
struct WantedAttribute {
  std::string key;
  std::string value;
};

// The first four say which of the program's offline breakpoints (hs_breakpoint) pass; a list that
// is empty lets all pass. `triggers` and how often count for every trigger of the library.
struct PointFilter {
  int32_t minimum_level = std::numeric_limits<int32_t>::min();
  std::vector<NumberRange> classes;
  std::vector<NumberRange> ids;
  std::vector<WantedAttribute> attributes;  // of each key one of its values

  // Types, as in C++ ("std::bad_alloc"), whose objects, or those of classes derived from them, are
  // worth a point when thrown; "*" is every type.
  std::vector<std::string> exceptions;

  bool calls = true;       // hs_snapshot
  bool points = true;      // hs_breakpoint
  bool conditions = true;  // HS_SNAPSHOT_IF
  bool assertions = true;  // HS_ASSERT

  uint64_t skip = 0;                               // the first so many do not pass
  uint64_t stride = 1;                             // of the others, every so manieth; not 0
  absl::Duration interval = absl::ZeroDuration();  // at least so long between two
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_POINTS_POINT_FILTER_H_

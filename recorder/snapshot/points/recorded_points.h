// The control file for a program that is recorded: what passes is in it, and nothing is ever
// written to it; a point that passes is seen in the recording, as a system call
// (libhindsight/control.h).
//
// Owns the file, a sealed memfd that programs open by its path: this process must live for that.
// Neither copyable nor movable.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_POINTS_RECORDED_POINTS_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_POINTS_RECORDED_POINTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/unique_fd.h"
#include "recorder/snapshot/points/point.h"
#include "recorder/snapshot/points/point_filter.h"

namespace hindsight {

class RecordedPoints {
 public:
  // `earlier`: as of ContinueCounts (point.h). kInvalidArgument: the filter does not fit into the
  // file.
  static absl::StatusOr<std::unique_ptr<RecordedPoints>> Make(
      const PointFilter& filter, absl::Span<const uint8_t> earlier = {});
  RecordedPoints(const RecordedPoints&) = delete;
  RecordedPoints& operator=(const RecordedPoints&) = delete;

  // For the environment of the programs.
  static const char* variable();
  std::string path() const;

 private:
  explicit RecordedPoints(UniqueFd fd) : fd_(std::move(fd)) {}

  const UniqueFd fd_;
};

// Whether a system call is one by which a point is told.
bool IsRecordedPoint(int64_t number, const uint64_t* arguments);
// What such a call tells, whose second argument is `address`; `read` copies from the program's
// memory, and returns whether all is there. nullopt: it tells nothing. Process and thread are not
// in it.
std::optional<Point> RecordedPointAt(
    uint64_t address, const std::function<bool(uint64_t address, absl::Span<uint8_t> out)>& read);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_POINTS_RECORDED_POINTS_H_

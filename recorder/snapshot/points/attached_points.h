// The points of a process that was not launched by the capturer: the control file is made in the
// process, and its variable `hs_control` set.
//
//   Make --> fd() for a PointListener, which is started --> Listen --> ... --> the destructor
//
// The destructor sets the variable back and unmaps the file; if a thread may be using it just then,
// an empty mapping stays in its place. Not copyable. One host thread, the one that captures; the
// process is not traced meanwhile.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_POINTS_ATTACHED_POINTS_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_POINTS_ATTACHED_POINTS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "recorder/ptrace/whole/process_stop.h"

namespace hindsight {

class AttachedPoints {
 public:
  // Null: the process has no points, or another listens to them. kFailedPrecondition: its library
  // is of another version. Others as of ProcessStop::Make.
  static absl::StatusOr<std::unique_ptr<AttachedPoints>> Make(pid_t process);
  ~AttachedPoints();
  AttachedPoints(const AttachedPoints&) = delete;
  AttachedPoints& operator=(const AttachedPoints&) = delete;

  UniqueFd TakeFd() { return std::move(fd_); }
  // From now on the process has the file.
  void Listen();

 private:
  AttachedPoints(pid_t process, std::vector<uint64_t> variables)
      : process_(process), variables_(std::move(variables)) {}
  absl::Status Map();
  bool MayBeInUse(const ProcessStop& stop) const;

  const pid_t process_;
  const std::vector<uint64_t> variables_;  // where `hs_control` is
  UniqueFd fd_;
  uint64_t address_ = 0;  // of the file in the process
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_POINTS_ATTACHED_POINTS_H_

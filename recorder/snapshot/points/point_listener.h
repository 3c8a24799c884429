// The capturer's side of the control file: hears of the points that a program linked with
// libhindsight passes, and lets their threads go on.
//
// Owns the control file (a sealed memfd, described in libhindsight/control.h) and a LifeMark in it,
// so that no point waits for a listener that is gone. The program writes into the file what it
// likes: everything is copied out once and bounded. Neither copyable nor movable. One thread at a
// time, except Stop() and Interrupt().

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_POINTS_POINT_LISTENER_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_POINTS_POINT_LISTENER_H_

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/unique_fd.h"
#include "libhindsight/control.h"
#include "recorder/snapshot/points/life_mark.h"
#include "recorder/snapshot/points/point.h"
#include "recorder/snapshot/points/point_filter.h"

namespace hindsight {

class PointListener {
 public:
  // The file is there, in `fd` if that is valid: a memfd of zeros that can be sealed. Nothing
  // passes before Start().
  static absl::StatusOr<std::unique_ptr<PointListener>> Make(const PointFilter& filter,
                                                             UniqueFd fd = UniqueFd());
  // As Stop(), and every point that waits goes on.
  ~PointListener();

  PointListener(const PointListener&) = delete;
  PointListener& operator=(const PointListener&) = delete;

  // For the environment of a program to be launched: "HINDSIGHT_CONTROL=/proc/...".
  std::string Environment() const;
  // The file, for a process that is attached to: it maps size() bytes of path() shared, readable
  // and writable, and stores the address in its variable `hs_control`.
  std::string path() const;
  size_t size() const;

  // As of ContinueCounts (point.h). Before Start.
  void Continue(absl::Span<const uint8_t> earlier) { ContinueCounts(earlier, *control_); }

  // From now on the points of `process` pass; with `children`, those of every process that has the
  // file. May be called before the process runs its program (after fork, before exec).
  void Start(pid_t process, bool children = false);
  // Nothing passes any more. Points that wait already are still heard of. Safe from any thread.
  void Stop();
  // Replaces the filter, between two points. kInvalidArgument: it does not fit into the file.
  absl::Status SetFilter(const PointFilter& filter);

  // The point that has waited longest and was not heard of yet; nothing after `timeout`, or sooner
  // if a signal handler ran or Interrupt() was called.
  std::optional<Point> Wait(absl::Duration timeout);
  // Ends the Wait() under way, else the next one. Safe from any thread and in a signal handler.
  void Interrupt();
  // Its thread goes on. Each point that Wait() returned is answered once, in any order.
  void Answer(const Point& point);

 private:
  PointListener(UniqueFd fd, hs_control* control) : fd_(std::move(fd)), control_(control) {}
  std::optional<Point> Next();
  bool Identify(Point& point) const;
  static void Free(hs_slot& slot, uint32_t word);

  const pid_t own_process_ = getpid();  // a child made by fork may ask for the path
  const UniqueFd fd_;
  hs_control* const control_;  // shared with the program
  std::unique_ptr<LifeMark> life_;
  absl::Mutex active_;  // held while control_->active changes
  pid_t process_ = 0;
  pid_t named_process_ = 0;  // as it knows itself
  bool children_ = false;
  bool interrupted_ = false;
  // The word of each slot whose point Wait() returned and nobody has answered; 0: none.
  std::array<uint32_t, HS_SLOTS> heard_ = {};
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_POINTS_POINT_LISTENER_H_

// Taking snapshots of one program from its start, or from now on, to its end.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_SNAPSHOT_SESSION_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_SNAPSHOT_SESSION_H_

#include <signal.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "recorder/snapshot/capture.h"
#include "recorder/snapshot/capture_configuration.h"
#include "recorder/snapshot/points/point_listener.h"
#include "recorder/snapshot/time_summary.h"
#include "recorder/snapshot/written_memory.h"
#include "tracefmt/ring/ring_limits.h"

namespace hindsight {

struct SnapshotOptions {
  std::string directory;  // of the trace; must not exist or be empty
  std::vector<std::string> arguments;
  // Not 0: instead of starting a program, takes snapshots of this process; `arguments` is empty.
  int32_t attach_pid = 0;
  // Points, timer and the most snapshots; what is saved is all.
  CaptureConfiguration configuration;
  // A signal to this process that ends the snapshots; a program that was launched goes on. 0: none.
  int end_signal = 0;
  // The signal mask of a program that is launched; none: the caller's.
  std::optional<sigset_t> program_mask;
  RingLimits ring;  // only the newest snapshots are kept
  // What the copies that are not written yet may come to take of memory. Beyond it points wait for
  // the disk, and the timer passes its turn.
  uint64_t max_copy_bytes = 0;  // 0: a quarter of the machine's
  // Shared memory, and memory that children do not get, of one snapshot, at most.
  uint64_t max_shared_bytes = 0;  // 0: SharedMemory::kMostBytes
  // Of what is written all the time, so much is read while the process stands still.
  uint64_t max_written_bytes = WrittenMemory::kMostBytes;
  // Instead of starting a program by `arguments`: makes the process, a child of this one that the
  // calling thread has seized and stopped, and starts the listener for it.
  std::function<absl::StatusOr<pid_t>(PointListener* listener)> launch;
  // Lets it run, traced no more. Not called if places or signals of it are watched.
  std::function<void()> release;
  // How many arrivals at places have been counted before.
  uint64_t earlier_arrivals = 0;
  // Told at once of what keeps snapshots from being taken; null: nobody is.
  std::function<void(const std::string& problem)> on_problem;
  // Told of each snapshot once it is taken, while its trigger waits. True: it was the last one;
  // the process is the caller's business from then on.
  std::function<bool(const Capture& capture)> on_capture;
};

struct SnapshotResult {
  int wait_status = -1;  // the program's own; -1: it runs on
  uint64_t snapshots = 0;
  uint64_t failed = 0;  // asked for, and not taken
  std::string first_failure;
  uint64_t passed_over = 0;           // by the timer, for want of memory
  std::vector<std::string> problems;  // with what was asked for, a line each
  uint64_t trace_bytes = 0;
  double seconds = 0;
  TimeSummary stood, skew;  // of the snapshots taken
  std::string end_reason;   // empty: the program ended
  // The trace could not be written any more: `end_reason` says why.
  bool cut_short = false;
};

// Signals to this process meanwhile: SIGUSR1 takes a snapshot. SIGTERM and SIGHUP are passed on to
// a program that was launched; of one that was attached to they, SIGINT and SIGQUIT end the
// snapshots. SIGINT and SIGQUIT are for the program, which got them from the terminal as well.
// Errors: as of LaunchNative and TraceWriter::Create; a trace that cannot be written any more is
// SnapshotResult::cut_short. Requires: the calling thread is the only one.
absl::StatusOr<SnapshotResult> TakeSnapshots(const SnapshotOptions& options);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_SNAPSHOT_SESSION_H_

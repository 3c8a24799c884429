// Snapshots before signals are delivered, and where the program arrives at places in its code. For
// as long as these are wanted the program is traced.
//
//   Start --> Next: a cause; its thread stands --> (a snapshot with make_stop) --> Pass
//             GoOn after the last one
//
// Not copyable. One host thread: the one that captures.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_WATCH_TRIGGERS_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_WATCH_TRIGGERS_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/ptrace/watch/watched_process.h"
#include "recorder/snapshot/capture.h"
#include "recorder/snapshot/capture_configuration.h"
#include "recorder/symbols/named_places.h"

namespace hindsight {

class WatchTriggers {
 public:
  // Null: the configuration has neither signals nor places. kInvalidArgument: one is no place. What
  // is given by pointer and the configuration are borrowed; `stragglers` are those of
  // WatchedProcess. `arrivals`: so many have been counted before.
  static absl::StatusOr<std::unique_ptr<WatchTriggers>> Make(
      const CaptureConfiguration& configuration, DisturbedCalls* calls, Stragglers* stragglers,
      uint64_t arrivals = 0);
  WatchTriggers(const WatchTriggers&) = delete;
  WatchTriggers& operator=(const WatchTriggers&) = delete;

  enum class Process : uint8_t {
    kBeforeExec,  // it will execute its program
    kRuns,
    kStopped,  // as WatchedProcess::Wishes has it; it runs from here on
  };
  // Errors as of WatchedProcess::Seize.
  absl::Status Start(pid_t process, Process state);
  bool watching() const { return watched_ != nullptr; }
  // The process is traced no more.
  void End() { watched_ = nullptr; }

  // The next one that the filters let pass; threads of others have gone on. With many others none
  // is found though there may be one: WaitMs() is 0 then.
  std::optional<SnapshotCause> Next();
  // Of TakeCapture, for whatever cause. All threads stand from then on.
  StopMaker MakeStop();
  void Pass(pid_t thread);
  void GoOn();
  void EndDueCalls() { watched_->EndDueCalls(); }  // Requires: watching()

  // When there is something to do at the latest; -1: nothing.
  int WaitMs() const;
  // How many were counted for skip and stride.
  uint64_t arrivals() const { return arrivals_; }
  // A line for each place that no thread could arrive at.
  std::vector<std::string> Problems() const;

 private:
  using Clock = std::chrono::steady_clock;

  WatchTriggers(const CaptureConfiguration& configuration, DisturbedCalls* calls,
                Stragglers* stragglers, NamedPlaces places, uint64_t arrivals)
      : configuration_(configuration),
        calls_(calls),
        stragglers_(stragglers),
        places_(std::move(places)),
        arrivals_(arrivals) {}
  WatchedProcess::Places FindPlaces();
  bool ArrivalPasses();
  bool interval_over() const { return Clock::now() >= next_; }

  const CaptureConfiguration& configuration_;
  DisturbedCalls* const calls_;
  Stragglers* const stragglers_;
  NamedPlaces places_;
  std::map<uint64_t, std::string> texts_;
  pid_t process_ = 0;
  std::unique_ptr<WatchedProcess> watched_;
  uint64_t arrivals_;
  bool busy_ = false;
  Clock::time_point next_;  // none passes before
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_WATCH_TRIGGERS_H_

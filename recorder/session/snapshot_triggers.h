// When snapshots are taken inside a recording: what was asked for, and what of it is due.
//
//   point        the program says so by a system call (libhindsight/control.h)
//   timer        all recorded processes, each in its own trace
//   request      SIGUSR1 to the recorder: likewise
//   signal       before it is delivered
//   function     in each state in which a thread is at its first instruction
//
// An engine takes them where a full keyframe can be written; it says when one was.
//
// Not copyable, not movable. One host thread.

#ifndef HINDSIGHT_RECORDER_SESSION_SNAPSHOT_TRIGGERS_H_
#define HINDSIGHT_RECORDER_SESSION_SNAPSHOT_TRIGGERS_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "recorder/log/snapshot_reason.h"
#include "recorder/process/address_space.h"
#include "recorder/session/options.h"
#include "recorder/snapshot/points/point.h"
#include "recorder/symbols/named_places.h"

namespace hindsight {

class SnapshotTriggers {
 public:
  // What a process has had of the timer and of requests.
  struct Seen {
    uint64_t ticks = 0;
    uint64_t requests = 0;
  };

  // kInvalidArgument: a place cannot be parsed, or a setting is not for recordings.
  static absl::StatusOr<std::unique_ptr<SnapshotTriggers>> Parse(
      const CaptureConfiguration& capture);

  // What is due for a process, by the timer or because `requests` were made so far. Then `seen` has
  // it, whether it can be taken or not.
  std::optional<SnapshotReason> Due(uint64_t now_ns, uint64_t requests, Seen* seen) const;
  // So many requests, and so much time, are not for a process that begins now.
  Seen Begin(uint64_t now_ns, uint64_t requests) const;

  // No more than were asked for. Else NoteTaken counts one.
  bool IsEnough() const { return most_ != 0 && taken_ >= most_; }
  void NoteTaken() { ++taken_; }
  uint64_t taken() const { return taken_; }

  bool IsWanted(int signal) const { return (signals_ >> (signal - 1) & 1) != 0; }
  uint64_t signals() const { return signals_; }  // bit N - 1: signal N
  bool has_places() const { return !places_.empty(); }
  // Where they are in a process with this map, by address: what the user has called them. `thread`
  // is one of its threads.
  std::map<uint64_t, std::string> Places(pid_t thread, const AddressSpace& space);
  // A line for each place that no process had.
  std::vector<std::string> Problems() const { return places_.Problems(); }

  static SnapshotReason OfPoint(const Point& point);
  static SnapshotReason OfSignal(int signal);
  static SnapshotReason OfPlace(const std::string& name);

 private:
  SnapshotTriggers(const CaptureConfiguration& capture, NamedPlaces places);
  uint64_t Ticks(uint64_t now_ns) const { return every_ns_ == 0 ? 0 : now_ns / every_ns_; }

  uint64_t every_ns_ = 0;  // 0: no timer
  uint64_t most_ = 0;      // 0: any number
  uint64_t taken_ = 0;
  uint64_t signals_ = 0;
  NamedPlaces places_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SESSION_SNAPSHOT_TRIGGERS_H_

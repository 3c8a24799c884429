// What a trace must be told that begins later than its recording did: of all the events so far,
// what holds on.
//
// Value type.

#ifndef HINDSIGHT_TRACEFMT_RING_EVENT_SUMMARY_H_
#define HINDSIGHT_TRACEFMT_RING_EVENT_SUMMARY_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "tracefmt/records.h"

namespace hindsight {

// Where the last orderable event of a thread was: what positions are counted from.
struct OrderedPoint {
  uint64_t sequence = 0;
  uint64_t count = 0;
};

class EventSummary {
 public:
  // A thread whose segments begin in the state `count`.
  struct Beginning {
    int32_t thread = 0;
    uint64_t count = 0;
    OrderedPoint instruction;  // the last orderable instruction; sequence 0: none
  };

  void Add(const ProcessEvent& event);
  // These are not mapped any more.
  void ForgetModules(absl::Span<const int32_t> modules) {
    for (const int32_t module : modules) changed_files_.erase(module);
  }

  // The program that runs; empty: the one that the manifest names.
  const std::string& program() const { return program_; }
  uint64_t execs() const { return execs_; }
  // The kernel or another process may write to memory at any time.
  bool others_write() const { return others_write_; }
  // A thread has been made and has not started yet: what the kernel stores for it is not known.
  bool makes_thread() const { return !being_made_.empty(); }
  // Events for the beginning of a trace in which `threads` live: their starts, with their names,
  // and the files that have changed.
  std::vector<ProcessEvent> Carried(absl::Span<const Beginning> threads) const;

 private:
  struct Thread {
    OrderedPoint point;
    std::string name;
  };

  void AddCall(const ProcessEvent& call);

  absl::flat_hash_map<int32_t, Thread> threads_;
  std::set<int64_t> being_made_, being_made_before_;  // the second: at the last full keyframe, too
  std::set<int64_t> changed_files_;
  std::string program_;
  uint64_t execs_ = 0;
  bool others_write_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_RING_EVENT_SUMMARY_H_

// The threads of a recorded process: what is known of each, the order in which they ran, and when
// each lived.
//
// Borrows the trace, which must outlive it. Movable. Any number of host threads may ask at once.

#ifndef HINDSIGHT_KEYFRAMES_STATE_PROCESS_THREADS_H_
#define HINDSIGHT_KEYFRAMES_STATE_PROCESS_THREADS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "keyframes/state/schedule.h"
#include "keyframes/state/thread_state.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class ProcessThreads {
 public:
  // kNotFound if the trace holds no segment. What does not fit is repaired, and threads other than
  // the first that cannot be shown are left out: each with a line in `warnings`.
  static absl::StatusOr<ProcessThreads> Create(const TraceReader* trace,
                                               std::vector<std::string>* warnings);

  const Schedule& schedule() const { return schedule_; }

  const std::vector<int32_t>& all() const { return order_; }  // in order of their start
  int32_t first() const { return order_.front(); }
  bool Has(int32_t thread) const { return threads_.contains(thread); }
  // Started at or before `moment`, and not ended before it. False if there is no such thread.
  bool IsAlive(int32_t thread, uint64_t moment) const;
  std::vector<int32_t> AliveAt(uint64_t moment) const;  // in order of their start; never empty

  // Requires, of these: Has(thread).
  const ThreadState& Of(int32_t thread) const;
  // Of one that begins late: where what the trace has of it begins.
  uint64_t StartOf(int32_t thread) const;
  uint64_t EndOf(int32_t thread) const;
  // The trace has lost what the thread did first, though not what others did meanwhile. False if
  // there is no such thread.
  bool BeginsLate(int32_t thread) const { return late_.contains(thread); }
  // The state lies in, or ends, the part that was lost.
  bool IsLost(int32_t thread, uint64_t count) const;
  // Where a full keyframe of the trace lies; nothing: where none of its threads shows it.
  std::optional<uint64_t> MomentOf(const FullKeyframe& keyframe) const;
  // Empty if the trace does not say.
  std::string NameAt(int32_t thread, uint64_t moment) const;

  // The thread lived up to `moment` at least: called while the trace's events are read.
  void ExtendLife(int32_t thread, uint64_t moment);

 private:
  struct Life {
    uint64_t start = 0;
    uint64_t end = 0;
  };

  ProcessThreads() = default;
  absl::Status AddThreads(const TraceReader* trace, std::vector<std::string>* warnings);
  absl::flat_hash_set<int32_t> ThreadsAtBeginning(const TraceReader* trace) const;
  void FindLateThreads(const TraceReader* trace);
  void AddLives(const TraceReader* trace);
  void EndBeforeKeyframes(const TraceReader* trace);
  uint64_t StartMoment(const ThreadState& state) const;
  uint64_t LateStartMoment(const TraceReader* trace, int32_t thread) const;

  std::vector<int32_t> order_;
  absl::flat_hash_map<int32_t, std::unique_ptr<ThreadState>> threads_;
  absl::flat_hash_map<int32_t, Life> lives_;
  absl::flat_hash_set<int32_t> late_;
  Schedule schedule_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_STATE_PROCESS_THREADS_H_

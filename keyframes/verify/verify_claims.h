// What a trace says of the states of its threads elsewhere than in their records, for verification:
// in its events and full keyframes. All say the same things and must agree.
//
// Borrows the trace. Immutable: several host threads may use it at once.

#ifndef HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_CLAIMS_H_
#define HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_CLAIMS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "isa/registers.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// How a thread's newest segment ends.
struct ThreadEnd {
  uint64_t segment = 0;
  uint64_t count = 0;
  bool ended = false;  // properly: with its registers, or a gap
};

class TraceClaims {
 public:
  explicit TraceClaims(const TraceReader& trace);
  TraceClaims(const TraceClaims&) = delete;
  TraceClaims& operator=(const TraceClaims&) = delete;

  // The kind of event that belongs to `record`; nothing: none does.
  static std::optional<EventKind> KindFor(const Record& record);
  // Events of transitions (system calls, signals, execs) of `thread` made in the states from
  // `first_count` on, before `end_count`. By count.
  absl::Span<const ProcessEvent* const> Transitions(int32_t thread, uint64_t first_count,
                                                    uint64_t end_count) const;
  // What `event` says otherwise than `record`, the transition it belongs to, made with the
  // registers `before`. Empty: they agree.
  static std::string Difference(const ProcessEvent& event, const Record& record,
                                const RegisterFile& before);

  // A full keyframe at which a segment starts.
  struct KeyframeStart {
    const FullKeyframe* keyframe = nullptr;
    const FullKeyframe::ThreadState* state = nullptr;  // of the segment's thread, in it
    // It was the thread's turn: what it found in memory then is what the keyframe saved, unless
    // somebody else may write (OtherWriters).
    bool has_turn = false;
    // That turn ended in the same state: what the thread imports in it may be what it found at the
    // beginning of its next one, when others had had theirs.
    bool turn_ends = false;
    // Other processes, or the kernel at times of its own choosing, may write to its memory.
    bool others_write = false;
    // The process had not executed a program since it was made by another.
    bool at_birth = false;
    std::vector<int32_t> being_made;  // threads that a call has made and that have not begun yet
  };
  const std::vector<KeyframeStart>& KeyframesAt(int32_t thread, uint64_t segment) const;
  // What the thread's transition to state `count` did to memory the recorder does not know.
  bool IsUnknownAt(int32_t thread, uint64_t count) const {
    return unknown_.contains({thread, count});
  }

  // Whether starts and ends of threads, forks and full keyframes are where the trace has threads,
  // system calls and full keyframes. kDataLoss naming what is not.
  absl::Status CheckProcess(const std::map<int32_t, ThreadEnd>& ends) const;

 private:
  void FindKeyframes();
  absl::Status CheckStarts() const;
  absl::Status CheckEnds(const std::map<int32_t, ThreadEnd>& ends) const;
  absl::Status CheckForks() const;
  absl::Status CheckKeyframes() const;
  absl::Status CheckSegmentsOf(const FullKeyframe& keyframe) const;
  // Of a ring by threads: whether memory and some threads are missing there.
  bool IsThinnedAt(uint64_t keyframe) const;
  bool IsLost(int32_t thread, uint64_t segment) const;
  absl::Status Differs(const ProcessEvent& event, const std::string& what) const;

  const TraceReader& trace_;
  absl::flat_hash_set<std::pair<int32_t, uint64_t>> unknown_;
  absl::flat_hash_map<int32_t, std::vector<const ProcessEvent*>> transitions_;
  absl::flat_hash_map<std::pair<int32_t, uint64_t>, std::vector<KeyframeStart>> keyframe_starts_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_CLAIMS_H_

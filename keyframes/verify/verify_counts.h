// What verification compared, and how much of it.

#ifndef HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_COUNTS_H_
#define HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_COUNTS_H_

#include <cstdint>

namespace hindsight {

struct VerifyCounts {
  uint64_t events = 0;         // system calls, signals and execs: event, record and registers
  uint64_t memory_ranges = 0;  // whose hash was compared with replay's bytes
  uint64_t memory_bytes = 0;   // in these
  uint64_t memory_ranges_unknown = 0;  // that replay did not know: nothing was compared
  uint64_t full_keyframes = 0;
  uint64_t keyframe_states = 0;        // threads in them, compared with the start of a segment
  uint64_t keyframe_pages = 0;         // in them
  uint64_t keyframe_pages_equal = 0;   // of these: replay had the same bytes then
  uint64_t keyframe_pages_unsure = 0;  // of these: replay had others, but somebody may have written
  uint64_t modules = 0;                // whose stored bytes have the recorded hash
  uint64_t modules_not_stored = 0;

  void Add(const VerifyCounts& other) {
    events += other.events;
    memory_ranges += other.memory_ranges;
    memory_bytes += other.memory_bytes;
    memory_ranges_unknown += other.memory_ranges_unknown;
    full_keyframes += other.full_keyframes;
    keyframe_states += other.keyframe_states;
    keyframe_pages += other.keyframe_pages;
    keyframe_pages_equal += other.keyframe_pages_equal;
    keyframe_pages_unsure += other.keyframe_pages_unsure;
    modules += other.modules;
    modules_not_stored += other.modules_not_stored;
  }
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_COUNTS_H_

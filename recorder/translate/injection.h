// Puts the agent into a program that is about to execute its first instruction.
//
// Afterwards nothing traces the program: the agent maps what it needs, moves the stack and lets the
// program begin, natively or translated.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_INJECTION_H_
#define HINDSIGHT_RECORDER_TRANSLATE_INJECTION_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/translate/memory_file.h"

namespace hindsight {

struct InjectionOptions {
  bool translate = true;  // or natively
  bool record = false;
  bool record_children = false;     // if recorded
  bool order_instructions = false;  // of memory model `fence`; if recorded
  uint64_t chaos_seed = 0;          // not 0: threads are held back at random
  // If recorded: instructions from one light keyframe to the next; 0: there is one. And at least so
  // many for each page that the next one has to begin with.
  uint64_t segment_instructions = 0, segment_per_page = 0;
  uint64_t largest_module = 0;
  // If recorded: of all threads, from one full keyframe to the next; 0: there is one.
  uint64_t full_keyframe_instructions = 0;
  // If recorded: threads look so often, in instructions, whether a snapshot is wanted; the signals
  // before which one is (bit N - 1: signal N); whether points are.
  uint64_t look_instructions = uint64_t{1} << 26;
  uint64_t snapshot_signals = 0;
  bool snapshot_points = false;
  // Called before the program is let go; may be empty.
  std::function<void(const MemoryFile& file)> prepare;
};

// Lets `tracee` go, detached, with the agent in it. Errors: kUnimplemented: its memory does not lie
// where this engine wants it; kUnavailable: it is gone. Then it has not run, and is still traced.
// Requires: stopped at the end of exec, launched with AddressLayout::kUpward or inheriting it.
absl::StatusOr<MemoryFile> Inject(const InjectionOptions& options, Tracee* tracee);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_INJECTION_H_

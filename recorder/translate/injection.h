// Puts the agent into a program that is about to execute its first instruction.
//
// Afterwards nothing traces the program: the agent maps what it needs, moves the stack and lets the
// program begin, natively or translated.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_INJECTION_H_
#define HINDSIGHT_RECORDER_TRANSLATE_INJECTION_H_

#include "absl/status/statusor.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/translate/memory_file.h"

namespace hindsight {

struct InjectionOptions {
  bool translate = true;  // or natively
};

// Lets `tracee` go, detached, with the agent in it. Errors: kUnimplemented: its memory does not lie
// where this engine wants it; kUnavailable: it is gone. Then it has not run, and is still traced.
// Requires: stopped at the end of exec, launched with AddressLayout::kUpward or inheriting it.
absl::StatusOr<MemoryFile> Inject(const InjectionOptions& options, Tracee* tracee);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_INJECTION_H_

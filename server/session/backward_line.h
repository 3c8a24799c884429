// Goes backward through a source line in one run.
//
// The protocol has ranges for stepping forward only: gdb's reverse-next is one `bs` for each
// instruction. A client that says which lines there are, and from where else in the function
// control enters each, is answered only where gdb would not just send the next `bs`: in the first
// state of the line, outside of it in the state from which it was entered, or at another stop on
// the way. Functions called from the line are passed over, as reverse-next does.

#ifndef HINDSIGHT_SERVER_SESSION_BACKWARD_LINE_H_
#define HINDSIGHT_SERVER_SESSION_BACKWARD_LINE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/target/target.h"

namespace hindsight {

struct BackwardLine {
  uint64_t start = 0, end = 0;  // its instructions
  // Instructions elsewhere that may jump into the middle of it.
  std::vector<uint64_t> entries;
};

// "START,END[,ENTRY]...;START,END...", in hexadecimal; may be empty.
absl::StatusOr<std::vector<BackwardLine>> ParseBackwardLines(absl::string_view text);

// Steps back once, as `request` says; if that ends within a line, to where the line was entered.
absl::StatusOr<RunStop> StepBackward(Target* target, const RunRequest& request,
                                     const std::vector<BackwardLine>& lines);

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SESSION_BACKWARD_LINE_H_

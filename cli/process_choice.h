// Which process of a recording a command is about.

#ifndef HINDSIGHT_CLI_PROCESS_CHOICE_H_
#define HINDSIGHT_CLI_PROCESS_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// What a process is chosen by.
struct ProcessName {
  std::string id;       // its pid, or PID-2, PID-3, ... of a later process of the same pid
  std::string program;  // that it executed last
  bool crashed = false;
};

// Whether a signal has ended the process for what it did itself (SIGSEGV, SIGABRT and the like).
bool Crashed(const ProcessInfo& process);

// Of a process, without its program, and of one whose trace is open.
std::string ProcessId(const ProcessInfo& process);
// The path of the program that the process executed last.
std::string LastProgram(const TraceReader& trace);

// The index of the one that `wanted` names: by its id, by its program's path or base name, or, as
// "crashed", the one that crashed.
// kNotFound: none; kFailedPrecondition: several. The messages list what there is.
absl::StatusOr<size_t> ChooseProcess(absl::Span<const ProcessName> processes,
                                     absl::string_view wanted);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_PROCESS_CHOICE_H_

// The subcommands of `hindsight`, and what they share.
//
// A command gets the arguments after its name and returns the exit status of the process. Errors
// are one line on stderr that begins with "hindsight: ".

#ifndef HINDSIGHT_CLI_COMMAND_H_
#define HINDSIGHT_CLI_COMMAND_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cli/option_values.h"
#include "cli/options.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

using Arguments = absl::Span<const std::string>;

int RecordCommand(Arguments arguments);
int SnapCommand(Arguments arguments);
int ReplayCommand(Arguments arguments);
int ServeCommand(Arguments arguments);
int InfoCommand(Arguments arguments);
int VerifyCommand(Arguments arguments);
int DumpCommand(Arguments arguments);
int CoreCommand(Arguments arguments);
int DiffCommand(Arguments arguments);
int RefineCommand(Arguments arguments);

inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

// Prints `message` as one line on stderr.
void PrintError(absl::string_view message);
// Prints what is wrong with the arguments of `command`, and how to get help. Returns kExitUsage.
int UsageError(absl::string_view command, absl::string_view message);
// Prints `status` (not OK). Returns kExitFailure.
int Failure(const absl::Status& status);

// Parses `arguments`. Where that settles it (--help, an error), sets *exit_status and returns
// nullopt.
std::optional<Options::Parsed> ParseOrExit(absl::string_view command, const Options& options,
                                           Arguments arguments, bool operands_end_options,
                                           int* exit_status);

// Which trace a command is about, and what reading it may cost.
struct TraceChoice {
  std::string process;   // a pid or program, as -p takes it; may be empty
  SizeValue max_memory;  // 0: the default
  // Without `process`: the one that crashed, where exactly one did, not the first.
  bool prefers_crashed = false;
};
// Adds --max-memory, and -p with what its absence means.
void AddTraceOptions(Options* options, TraceChoice* choice,
                     absl::string_view without_process = "without it the first one");

// The directory of the recording that the operands name: the only one, or without any the newest in
// the current directory. With a process chosen that of this process's trace. nullopt, and
// *exit_status set: that failed, and the error has been printed.
//
// Confines this process to the recording first: afterwards no other file can be opened, nothing
// written, no process started. Requires: no other thread runs.
std::optional<TraceDirectory> TraceOperand(absl::string_view command, const Options::Parsed& parsed,
                                           const TraceChoice& choice, int* exit_status);
// Opens that trace. Prints a warning for each damaged part of it. Null: likewise.
std::unique_ptr<TraceReader> OpenTraceOperand(absl::string_view command,
                                              const Options::Parsed& parsed,
                                              const TraceChoice& choice, int* exit_status);
// Prints on stderr that the recording of `trace`, which -p did not choose, has other processes.
void PrintOtherProcesses(const TraceReader& trace);
// Prints on stderr which processor features replay will miss on this host.
void WarnOfMissingFeatures(const TraceReader& trace);
std::string SizeText(uint64_t bytes);

// Writes `text` to stdout, which is buffered and flushed at the end. False once stdout is broken.
bool Print(absl::string_view text);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_COMMAND_H_

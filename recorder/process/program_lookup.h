// Finds the file that a command line runs, and refuses one that cannot be recorded (32-bit
// programs, for example) before anything starts.

#ifndef HINDSIGHT_RECORDER_PROCESS_PROGRAM_LOOKUP_H_
#define HINDSIGHT_RECORDER_PROCESS_PROGRAM_LOOKUP_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hindsight {

struct ExecCommand {
  std::string path;                    // for execve
  std::vector<std::string> arguments;  // argv
};

// Like execvp: searches PATH unless the name has a slash, and runs a script without "#!" by
// /bin/sh. Errors: kNotFound, kPermissionDenied, kInvalidArgument (not a program for x86-64).
// Requires: !arguments.empty().
absl::StatusOr<ExecCommand> LookUpProgram(const std::vector<std::string>& arguments);

// Whether the file's first bytes are those of a 64-bit x86-64 ELF file.
bool IsAmd64Elf(const std::string& path);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PROCESS_PROGRAM_LOOKUP_H_

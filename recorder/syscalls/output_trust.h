// When the outputs of a system call are trusted: of the pages in use, only those are compared that
// the call may have stored to according to the table (syscall_outputs.h).
//
// A store that is missing in the table is then seen late, and the program goes on with old bytes
// until it is. So only common calls are trusted, on files that have no driver of their own.
//
// Stateless; any thread.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_OUTPUT_TRUST_H_
#define HINDSIGHT_RECORDER_SYSCALLS_OUTPUT_TRUST_H_

#include <cstdint>
#include <optional>
#include <string>

namespace hindsight {

// Whether call `number` with its six `arguments` stores nowhere but where the table says, provided
// that the file it acts on is an ordinary one.
bool StoresOnlyListedOutputs(int64_t number, const uint64_t* arguments);

// The descriptor that the call reads, writes or controls, where its kind matters.
std::optional<int> FileOfCall(int64_t number, const uint64_t* arguments);

// Whether after the call, which has succeeded, others than the process's threads may store to its
// private memory at any time. (Those whose stores the recorder follows: StartsAsynchronousWrites.)
bool AllowsLaterStores(int64_t number, const uint64_t* arguments);

enum class FileKind : uint8_t {
  // A file of a file system, a directory, pipe, socket, terminal, or one like /dev/null.
  kOrdinary,
  // A process's memory (/proc/PID/mem).
  kMemory,
  // A device with a driver of its own, which may later store to memory that it was given.
  kDevice,
  // A file of /proc, or of no file system: anything.
  kOther,
};

// Of the open file at `path`, "/proc/THREAD/fd/N".
FileKind KindOfFile(const std::string& path);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_OUTPUT_TRUST_H_

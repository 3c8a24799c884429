// Of what kind the file is that a system call acts on: whether its outputs are trusted
// (trusted_calls.h) depends on it.
//
// Stateless; any thread.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_OUTPUT_TRUST_H_
#define HINDSIGHT_RECORDER_SYSCALLS_OUTPUT_TRUST_H_

#include <string>

namespace hindsight {

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

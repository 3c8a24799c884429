// When the table of what system calls store (syscall_outputs.h) is relied upon for pages in use,
// and not only for those that are not in use.
//
// A store that the table does not tell of is seen late then, and the program goes on with old
// bytes until it is. So this is answered with yes for common calls only, on files that no driver
// serves.
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
bool StoresAsTold(int64_t number, const uint64_t* arguments);

// The descriptor that the call reads, writes or controls, where it matters of what kind that is.
std::optional<int> ActsOn(int64_t number, const uint64_t* arguments);

// Whether the call, which has succeeded, may have bytes stored in the process's private memory at a
// later time, by others than its own threads. (For what the recorder follows see
// StartsAsynchronousWrites.)
bool LetsOthersStore(int64_t number, const uint64_t* arguments);

enum class FileKind : uint8_t {
  // A file of a file system, a directory, pipe, socket, terminal, or one like /dev/null.
  kOrdinary,
  // What is read or written through it is a process's memory (/proc/PID/mem).
  kMemory,
  // A device with a driver of its own, which may store to memory that it was told of later on.
  kDevice,
  // A file of /proc, none of the file system: anything.
  kOther,
};

// Of the open file at `path`, "/proc/THREAD/fd/N".
FileKind KindOfFile(const std::string& path);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_OUTPUT_TRUST_H_

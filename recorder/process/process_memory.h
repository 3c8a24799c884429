// The memory of another process: the one place that reads and writes it.
//
//   ProcessMemory      what the pager, keyframes, the vdso's patches, breakpoints and calls made in
//     |                the process need
//     +- ProcessVmMemory    process_vm_readv and _writev: pages keep their rights. Many pieces in
//     |                     one system call
//     +- ProcMemFile        /proc/TID/mem: whatever the rights of the pages. Needs a file
//     +- FakeProcessMemory  for tests
//
// Both name a thread, not the process: /proc/PID shows no memory once the process's first thread
// has ended. Calls on a process that is gone fail. Any host thread may call them, one at a time.

#ifndef HINDSIGHT_RECORDER_PROCESS_PROCESS_MEMORY_H_
#define HINDSIGHT_RECORDER_PROCESS_PROCESS_MEMORY_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "base/unique_fd.h"

namespace hindsight {

// A piece of a process's memory, to be read into `bytes` or written from there.
struct MemoryPiece {
  uint64_t address = 0;
  uint8_t* bytes = nullptr;
  uint64_t length = 0;
};

class ProcessMemory {
 public:
  virtual ~ProcessMemory() = default;

  // Reads or writes the pieces in order, up to the first that cannot be read or written as a whole;
  // returns how many were.
  virtual size_t ReadPieces(absl::Span<const MemoryPiece> pieces) const = 0;
  virtual size_t WritePieces(absl::Span<const MemoryPiece> pieces) = 0;

  // One piece. False if not all of it can be read or written.
  bool Read(uint64_t address, absl::Span<uint8_t> out) const;
  bool Write(uint64_t address, absl::Span<const uint8_t> bytes);
};

// Copyable.
class ProcessVmMemory final : public ProcessMemory {
 public:
  explicit ProcessVmMemory(pid_t thread) : thread_(thread) {}

  // Through ProcMemFile where the host forbids process_vm_readv.
  size_t ReadPieces(absl::Span<const MemoryPiece> pieces) const override;
  size_t WritePieces(absl::Span<const MemoryPiece> pieces) override;

 private:
  pid_t thread_;
};

// Writing to a page without write permission makes it the process's own copy.
//
// Refers to the memory that the thread had when this was made: valid until its next exec.
// Movable, not copyable.
class ProcMemFile final : public ProcessMemory {
 public:
  explicit ProcMemFile(pid_t thread);

  size_t ReadPieces(absl::Span<const MemoryPiece> pieces) const override;
  size_t WritePieces(absl::Span<const MemoryPiece> pieces) override;

  // The open file, to be inherited by a process that has nothing else.
  int fd() const { return file_.get(); }

 private:
  UniqueFd file_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PROCESS_PROCESS_MEMORY_H_

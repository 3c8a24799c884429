// System calls made by the threads of a process that is being built, and memory to pass them.
//
//   the process's map, while it is built:   [bootstrap: a page of code | scratch memory]  the rest
//
// Not copyable. The host thread that traces.

#ifndef HINDSIGHT_RECORDER_RESTORE_REMOTE_H_
#define HINDSIGHT_RECORDER_RESTORE_REMOTE_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "recorder/process/process_memory.h"

namespace hindsight {

class Remote {
 public:
  using CallArguments = std::array<uint64_t, 6>;

  static constexpr uint64_t kCodeBytes = 4096;
  static constexpr uint64_t kScratchBytes = 64 * 1024;
  static constexpr uint64_t kBytes = kCodeBytes + kScratchBytes;

  // Maps the bootstrap at `address` of `process`, whose first thread is in PTRACE_EVENT_STOP.
  static absl::StatusOr<std::unique_ptr<Remote>> Make(pid_t process, uint64_t address);
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  pid_t process() const { return process_; }
  uint64_t address() const { return address_; }
  uint64_t scratch() const { return address_ + kCodeBytes; }
  ProcessMemory& memory() { return memory_; }

  // What the call returns: a value, or -errno. kUnavailable: the thread is gone.
  absl::StatusOr<int64_t> TryCall(pid_t thread, int64_t number, const CallArguments& arguments);
  absl::StatusOr<int64_t> TryCall(int64_t number, const CallArguments& arguments) {
    return TryCall(process_, number, arguments);
  }
  // As TryCall, but -errno is kFailedPrecondition, with a text that begins with `what`.
  absl::StatusOr<uint64_t> Call(absl::string_view what, pid_t thread, int64_t number,
                                const CallArguments& arguments);
  absl::StatusOr<uint64_t> Call(absl::string_view what, int64_t number,
                                const CallArguments& arguments) {
    return Call(what, process_, number, arguments);
  }
  // Makes a task by clone or clone3, stopped before its first instruction.
  absl::StatusOr<pid_t> MakeTask(int64_t number, const CallArguments& arguments, int64_t* result);

  // Puts bytes into scratch memory, at an offset that is a multiple of 16, and returns where they
  // are.
  absl::StatusOr<uint64_t> Put(uint64_t offset, absl::Span<const uint8_t> bytes);
  absl::StatusOr<uint64_t> PutText(uint64_t offset, const std::string& text);
  template <typename T>
  absl::StatusOr<uint64_t> PutValue(uint64_t offset, const T& value) {
    return Put(offset, {reinterpret_cast<const uint8_t*>(&value), sizeof(value)});
  }

  // Takes the bootstrap away. No call can be made any more.
  absl::Status Remove();

 private:
  Remote(pid_t process, uint64_t address)
      : process_(process), address_(address), memory_(process) {}

  const pid_t process_;
  const uint64_t address_;
  ProcMemFile memory_;  // whatever the rights of the pages
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_RESTORE_REMOTE_H_

// What a process looks like at one position: the read-only questions that every front end asks
// (a debug session, a writer of core files, a sequence of snapshots).
//
// An implementation answers for its position at the time of the call. The questions
// that follow pointers in the process's memory take the memory to follow them in: a front end that
// overlays the process with changes of its own (a function called from gdb may have loaded a
// library) passes the memory with those changes.
//
// `thread` is a thread id; threads that are not alive at the position are kNotFound. Other errors:
// kNotFound where something is not in the recording, kDataLoss and kInternal where it is damaged.
// One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_INSPECT_PROCESS_VIEW_H_
#define HINDSIGHT_KEYFRAMES_INSPECT_PROCESS_VIEW_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "isa/registers.h"
#include "keyframes/inspect/event_list.h"
#include "keyframes/inspect/link_map.h"
#include "tracefmt/records.h"

namespace hindsight {

class ProcessView {
 public:
  virtual ~ProcessView() = default;

  // Threads alive here, in the order of their start; at least one.
  virtual int32_t pid() const = 0;
  virtual std::vector<int32_t> threads() const = 0;
  virtual bool IsAlive(int32_t thread) const = 0;
  // That the recording has not all of these threads here, and what that means: a line for the user,
  // without its end. Empty: it has.
  virtual std::string Missing() const = 0;
  // As the kernel keeps it in /proc/PID/comm. Requires: `thread` is alive.
  virtual std::string ThreadName(int32_t thread) const = 0;
  // The processor it ran on last; nullopt: unknown.
  virtual std::optional<int> ThreadProcessor(int32_t thread) = 0;

  virtual absl::StatusOr<RegisterFile> Registers(int32_t thread) = 0;
  // orig_rax, as the kernel has it at the two stops of a system call: the number of the call about
  // to be made or just made, else -1. Requires: `thread` is alive.
  virtual int64_t SyscallNumber(int32_t thread) const = 0;
  // The 128 bytes of siginfo_t of the signal delivered to the thread next, else of a plain trap.
  virtual absl::StatusOr<std::string> SigInfo(int32_t thread) const = 0;

  // Reads as many bytes of `out` as are known from its start and returns how many; kNotFound if
  // none. What `thread` sees has priority where threads differ.
  virtual absl::StatusOr<size_t> ReadMemory(int32_t thread, uint64_t address,
                                            absl::Span<uint8_t> out) = 0;
  // Whether the page of `address` is anonymous memory that nobody has touched since it was mapped.
  // False where memory is not known.
  virtual bool IsUntouched(int32_t thread, uint64_t address) = 0;
  // The memory map, ascending; empty if the recording has none.
  virtual std::vector<MapRegion> Regions() const = 0;

  virtual absl::StatusOr<std::string> Auxv() const = 0;
  virtual std::string ExecutablePath() const = 0;
  // What the dynamic linker has loaded.
  virtual LinkMap Libraries(MemoryReader memory) const = 0;
  // The address of the byte `offset` of the thread-local storage of the module at `link_map` (0:
  // the program itself, when static), for a thread whose fs_base is given.
  virtual absl::StatusOr<uint64_t> TlsAddress(uint64_t fs_base, uint64_t offset, uint64_t link_map,
                                              MemoryReader memory) = 0;

  // The files that the recording can show: modules, and /proc/PID/... as of here. ReadLink:
  // kInvalidArgument for a file that is not a link.
  virtual absl::StatusOr<std::string> ReadLink(const std::string& path, MemoryReader memory) = 0;
  virtual absl::StatusOr<std::string> FileContents(const std::string& path,
                                                   MemoryReader memory) = 0;

  // The events around here that `filter` selects, a line each. Once `interrupt` (polled, may be
  // null) is raised, system calls are listed without the memory that they point to.
  virtual absl::StatusOr<std::string> ListEvents(const EventFilter& filter,
                                                 const std::atomic<bool>* interrupt) = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_INSPECT_PROCESS_VIEW_H_

// What a debug session needs of a recorded process. The session (RSP) knows only this interface,
// which a timeline implements, and a fake in tests. What may stop a run, and what did, is said in
// the timeline's own words (run_request.h).
//
// All calls come from one thread. Errors: kNotFound where something is not in the trace ("cannot
// access memory"), kOutOfRange / kInvalidArgument for impossible requests; the session lives on.
// kDataLoss and kInternal: the trace is damaged or replay diverged; message names where.

#ifndef HINDSIGHT_SERVER_TARGET_TARGET_H_
#define HINDSIGHT_SERVER_TARGET_TARGET_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "keyframes/inspect/link_map.h"
#include "keyframes/timeline/run_request.h"
#include "server/target/target_description.h"

namespace hindsight {

struct ThreadRef {
  int32_t pid = 0;
  int32_t tid = 0;
  bool operator==(const ThreadRef&) const = default;
};

struct MemoryRegion {
  uint64_t start = 0, end = 0;
  uint32_t protection = 0;  // PROT_*
  std::string name;
};

class Target {
 public:
  virtual ~Target() = default;

  // Threads alive at the position, in the order they were made; one at least. What is asked of
  // another thread is answered with kNotFound.
  virtual std::vector<ThreadRef> threads() = 0;
  virtual ThreadRef current_thread() = 0;  // the one last reported; alive
  // The thread with that id: runs and their stops are of one process, and name threads by id alone.
  ThreadRef ThreadOf(int32_t tid) { return {current_thread().pid, tid}; }
  virtual std::string ThreadName(ThreadRef thread) = 0;
  // The processor it ran on, where that is known.
  virtual std::optional<int> ThreadProcessor(ThreadRef thread) = 0;

  // Which registers there are. The same for the whole recording.
  virtual RegisterSet register_set() = 0;
  // Registers of `thread` as gdb's target description numbers them
  // (server/target/target_description.h): raw little-endian bytes. kNotFound: unavailable.
  virtual absl::StatusOr<std::string> ReadRegister(ThreadRef thread, int number) = 0;

  // Reads up to out.size() bytes and returns how many were known from the start; kNotFound if none.
  virtual absl::StatusOr<size_t> ReadMemory(ThreadRef thread, uint64_t address,
                                            absl::Span<uint8_t> out) = 0;
  virtual std::vector<MemoryRegion> Regions() = 0;

  // Objects for qXfer, whole.
  virtual absl::StatusOr<std::string> Auxv() = 0;
  virtual absl::StatusOr<std::string> SigInfo(ThreadRef thread) = 0;
  virtual std::string ExecutablePath() = 0;
  virtual absl::StatusOr<std::vector<Library>> Libraries(uint64_t* main_link_map) = 0;
  // Files the trace can show: modules, and /proc/PID/{maps,cmdline,exe,cwd,...} as of the position.
  virtual absl::StatusOr<std::string> ReadLink(const std::string& path) = 0;
  // The bytes stay valid while the target lives, or until the next call for generated files.
  virtual absl::StatusOr<std::string> FileContents(const std::string& path) = 0;
  // Address of thread-local storage `offset` in the module whose link map is at `link_map`.
  virtual absl::StatusOr<uint64_t> TlsAddress(ThreadRef thread, uint64_t offset,
                                              uint64_t link_map) = 0;

  // Running. Returns when something stopped it; also at the ends, never blocks there. Without a
  // thread in the request, steps are those of current_thread(). With only_thread, the run ends at
  // the thread's own ends (kBegin, kEnd).
  virtual absl::StatusOr<RunStop> Resume(RunRequest request) = 0;
  // The reason for the present position (for '?').
  virtual RunStop LastStop() = 0;

  // The throw-away copy for calling functions from gdb. It is one thread's: the one for which it
  // was begun by the first write. While one is active, memory and that thread's registers are read
  // and written there and Resume(kForward) runs there.
  virtual bool InDiversion() = 0;
  virtual absl::Status WriteRegister(ThreadRef thread, int number,
                                     absl::Span<const uint8_t> bytes) = 0;
  virtual absl::Status WriteMemory(ThreadRef thread, uint64_t address,
                                   absl::Span<const uint8_t> bytes) = 0;
  virtual void EndDiversion() = 0;
  // What was written shows, and moving would throw it away.
  virtual bool HasWrites() { return InDiversion(); }
  // To go on with registers that were written means to run the copy from there.
  virtual bool DiversionRuns() { return true; }
  // Sets the copy aside, when a call is done: the recording is read and runs again, but memory that
  // only the copy has stays readable. False of ResumeDiversion: none was set aside. gdb puts the
  // string of `print f("text")` into memory it got from one call, before it makes the next.
  // EndDiversion throws away a copy set aside, too. A target need not keep it.
  virtual void SuspendDiversion() { EndDiversion(); }
  virtual bool ResumeDiversion() { return false; }

  // Runs `monitor COMMAND` with `selected` the user's thread and returns its output for the
  // console. kInvalidArgument: a message for the user. kCancelled: `interrupt` (polled) was raised.
  // Sets *moved if the position changed (gdb's caches are stale).
  virtual absl::StatusOr<std::string> Monitor(const std::string& command, ThreadRef selected,
                                              const std::atomic<bool>* interrupt, bool* moved) = 0;
  // The user looks at `thread` here, at the end of a command: `monitor back` returns to it.
  virtual void NoteVisit(ThreadRef) {}
  // Text for the user that came up since last asked (program exited, replay caught up...).
  virtual std::string TakeConsoleText() = 0;
  // Jumps as for `vRun` arguments: start, end, POSITION, PERCENT%, snapshot N. The thread that the
  // place belongs to is the current one then.
  virtual absl::Status GoTo(const std::string& where, const std::atomic<bool>* interrupt) = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_TARGET_H_

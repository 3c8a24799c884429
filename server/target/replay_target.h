// A recorded process as a debug session sees it: what Timeline, TimelineView, DivertedProcess and
// Monitor answer, in the terms of the Target interface.
//
// Borrows the trace, which must outlive it. Not copyable, not movable. One thread at a time.

#ifndef HINDSIGHT_SERVER_TARGET_REPLAY_TARGET_H_
#define HINDSIGHT_SERVER_TARGET_REPLAY_TARGET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keyframes/inspect/timeline_view.h"
#include "keyframes/timeline/timeline.h"
#include "server/monitor/monitor.h"
#include "server/target/diverted_process.h"
#include "server/target/stop_notes.h"
#include "server/target/target.h"
#include "server/target/viewed_target.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class ReplayTarget final : public ViewedTarget {
 public:
  // At the start of the recording of one process, whose trace this is. (Memory that it has from its
  // birth is read from its parent's trace; the timeline finds that.)
  // `files`: where `monitor core` writes to, borrowed; null: it does not.
  static absl::StatusOr<std::unique_ptr<ReplayTarget>> Open(const TraceReader* trace,
                                                            CoreFiles* files = nullptr);

  ThreadRef current_thread() override;
  absl::StatusOr<std::vector<Library>> Libraries(uint64_t* main_link_map) override;

  absl::StatusOr<RunStop> Resume(RunRequest request) override;
  RunStop LastStop() override { return last_stop_; }

  bool InDiversion() override { return diverted_.active(); }
  absl::Status WriteRegister(ThreadRef thread, int number,
                             absl::Span<const uint8_t> bytes) override;
  absl::Status WriteMemory(ThreadRef thread, uint64_t address,
                           absl::Span<const uint8_t> bytes) override;
  void EndDiversion() override { diverted_.End(); }
  void SuspendDiversion() override { diverted_.Suspend(); }
  bool ResumeDiversion() override { return diverted_.Resume(); }

  absl::StatusOr<std::string> Monitor(const std::string& command, ThreadRef selected,
                                      const std::atomic<bool>* interrupt, bool* moved) override;
  void NoteVisit(ThreadRef thread) override { monitor_.Visit(thread.tid); }
  std::string TakeConsoleText() override { return notes_.Take(); }
  absl::Status GoTo(const std::string& where, const std::atomic<bool>* interrupt) override;

 private:
  ReplayTarget(const TraceReader* trace, std::unique_ptr<Timeline> timeline, CoreFiles* files);

  ProcessView& view() override { return view_; }
  absl::StatusOr<const RegisterFile*> RegistersOf(int32_t thread) override;
  int64_t SyscallNumberOf(int32_t thread) override;
  absl::StatusOr<size_t> ReadMemoryOf(int32_t thread, uint64_t address,
                                      absl::Span<uint8_t> out) override;

  LinkMap MappedHere(LinkMap map) const;

  absl::StatusOr<RunStop> ResumeDiverted(const RunRequest& request);
  // `of_threads`: the starts and ends of threads were asked for.
  absl::StatusOr<RunStop> Report(RunStop stop, bool of_threads);
  // The answer to a step of a thread that has none to make: nothing moves then.
  std::optional<RunStop> AtEndOfThread(const RunRequest& request) const;
  // The position has changed.
  void Moved(RunStop stop);

  std::unique_ptr<Timeline> timeline_;
  int32_t current_ = 0;  // last reported
  bool running_ = false;
  absl::flat_hash_map<int32_t, RegisterFile> registers_;  // those asked for at this moment
  LinkMap whole_libraries_;  // where all memory is there, of a trace that begins without it
  TimelineView view_;
  DivertedProcess diverted_;
  class Monitor monitor_;
  RunStop last_stop_;
  StopNotes notes_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_REPLAY_TARGET_H_

// A sequence of snapshots as a debug session sees it. It runs from one snapshot to the next, both
// ways. What is written to one goes to a copy, which is thrown away when the session moves.
//
// Borrows the trace, which must outlive it. Not copyable, not movable. One thread at a time.

#ifndef HINDSIGHT_SERVER_SNAPSHOTS_SNAPSHOT_TARGET_H_
#define HINDSIGHT_SERVER_SNAPSHOTS_SNAPSHOT_TARGET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keyframes/inspect/snapshot_view.h"
#include "server/snapshots/edited_process.h"
#include "server/snapshots/snapshot_monitor.h"
#include "server/target/target.h"
#include "server/target/viewed_target.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class SnapshotTarget final : public ViewedTarget {
 public:
  // At the first snapshot. kNotFound: there is none. `files`: as for ReplayTarget.
  static absl::StatusOr<std::unique_ptr<SnapshotTarget>> Open(const TraceReader* trace,
                                                              CoreFiles* files = nullptr);

  ThreadRef current_thread() override;

  // To the next or previous snapshot; with watchpoints to the first at which one of them has
  // another value than in the one before on the way. So goes a step of one thread alone, with which
  // a client begins to continue where it has a breakpoint. Another step of an instruction is one
  // snapshot, and steps through a range are refused (kFailedPrecondition).
  absl::StatusOr<RunStop> Resume(RunRequest request) override;
  RunStop LastStop() override { return last_stop_; }

  bool InDiversion() override { return process_.in_copy(); }
  bool HasWrites() override { return process_.changed(); }
  bool DiversionRuns() override { return process_.CopyRuns(); }
  absl::Status WriteRegister(ThreadRef thread, int number,
                             absl::Span<const uint8_t> bytes) override;
  absl::Status WriteMemory(ThreadRef thread, uint64_t address,
                           absl::Span<const uint8_t> bytes) override;
  void EndDiversion() override { process_.Discard(); }
  void SuspendDiversion() override { process_.Suspend(); }
  bool ResumeDiversion() override { return process_.Resume(); }

  absl::StatusOr<std::string> Monitor(const std::string& command, ThreadRef selected,
                                      const std::atomic<bool>* interrupt, bool* moved) override;
  std::string TakeConsoleText() override { return std::exchange(text_, ""); }
  absl::Status GoTo(const std::string& where, const std::atomic<bool>* interrupt) override;

 private:
  SnapshotTarget(const TraceReader* trace, std::vector<SnapshotInfo> snapshots, CoreFiles* files)
      : ViewedTarget(trace),
        view_(trace, std::move(snapshots)),
        process_(&view_),
        monitor_(trace, &view_, &process_, files) {
    Arrive();
  }

  ProcessView& view() override { return view_; }
  absl::StatusOr<const RegisterFile*> RegistersOf(int32_t thread) override;
  int64_t SyscallNumberOf(int32_t thread) override { return process_.SyscallNumber(thread); }
  absl::StatusOr<size_t> ReadMemoryOf(int32_t thread, uint64_t address,
                                      absl::Span<uint8_t> out) override {
    return process_.ReadMemory(thread, address, out);
  }

  // What is watched, as it is here; what is not known is empty.
  std::vector<std::string> Watched(const RunRequest& request);
  // The stop at a snapshot that was gone to.
  RunStop Arrive();
  // At the last snapshot, or going backward the first.
  bool AtEnd(Direction direction) const;
  RunStop StopAtEnd(Direction direction);
  // To the snapshot beside this one, if there is one.
  RunStop MoveOne(Direction direction);
  // The watchpoint that has another value now, if one has: `before`, as Watched.
  std::optional<RunStop> Changed(const RunRequest& request, const std::vector<std::string>& before,
                                 uint64_t left);

  SnapshotView view_;
  EditedProcess process_;
  RegisterFile registers_;  // those asked for last
  SnapshotMonitor monitor_;
  RunStop last_stop_;
  std::string text_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SNAPSHOTS_SNAPSHOT_TARGET_H_

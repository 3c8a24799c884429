// A sequence of snapshots as a debug session sees it. It runs from one snapshot to the next, both
// ways. What is written to one goes to a copy, which is thrown away when the session moves.
//
// Its many methods are those of the Target interface, and mostly pass a question on. Borrows the
// trace, which must outlive it. Not copyable, not movable. One thread at a time.

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
#include "tracefmt/trace_reader.h"

namespace hindsight {

class SnapshotTarget final : public Target {
 public:
  // At the first snapshot. kNotFound: there is none. `files`: as for ReplayTarget.
  static absl::StatusOr<std::unique_ptr<SnapshotTarget>> Open(const TraceReader* trace,
                                                              CoreFiles* files = nullptr);

  std::vector<ThreadRef> threads() override;
  ThreadRef current_thread() override;
  std::string ThreadName(ThreadRef thread) override { return view_.ThreadName(thread.tid); }
  std::optional<int> ThreadProcessor(ThreadRef) override { return std::nullopt; }

  RegisterSet register_set() override;
  absl::StatusOr<std::string> ReadRegister(ThreadRef thread, int number) override;
  absl::StatusOr<size_t> ReadMemory(ThreadRef thread, uint64_t address,
                                    absl::Span<uint8_t> out) override;
  std::vector<MemoryRegion> Regions() override;

  absl::StatusOr<std::string> Auxv() override { return view_.Auxv(); }
  absl::StatusOr<std::string> SigInfo(ThreadRef thread) override;
  std::string ExecutablePath() override { return view_.ExecutablePath(); }
  absl::StatusOr<std::vector<Library>> Libraries(uint64_t* main_link_map) override;
  absl::StatusOr<std::string> ReadLink(const std::string& path) override;
  absl::StatusOr<std::string> FileContents(const std::string& path) override;
  absl::StatusOr<uint64_t> TlsAddress(ThreadRef thread, uint64_t offset,
                                      uint64_t link_map) override;

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
      : trace_(trace),
        view_(trace, std::move(snapshots)),
        process_(&view_),
        monitor_(trace, &view_, &process_, files) {
    Arrive();
  }

  ThreadRef Ref(int32_t thread) const { return {view_.pid(), thread}; }
  absl::Status CheckThread(ThreadRef thread) const;
  // With what was written.
  bool ReadAll(uint64_t address, absl::Span<uint8_t> out);
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

  const TraceReader* trace_;
  SnapshotView view_;
  EditedProcess process_;
  SnapshotMonitor monitor_;
  RunStop last_stop_;
  std::string text_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SNAPSHOTS_SNAPSHOT_TARGET_H_

// A recorded process as a debug session sees it: the timeline behind the Target interface.
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
#include "keyframes/inspect/recorded_objects.h"
#include "keyframes/timeline/timeline.h"
#include "server/target/monitor.h"
#include "server/target/scratch_process.h"
#include "server/target/target.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class ReplayTarget final : public Target {
 public:
  // At the start of the recording of one process, whose trace this is. (Memory that it has from its
  // birth is read from its parent's trace; the timeline finds that.)
  static absl::StatusOr<std::unique_ptr<ReplayTarget>> Open(const TraceReader* trace);

  std::vector<ThreadRef> threads() override;
  ThreadRef current_thread() override;
  std::string ThreadName(ThreadRef thread) override;
  std::optional<int> ThreadProcessor(ThreadRef thread) override;

  RegisterSet register_set() override;
  absl::StatusOr<std::string> ReadRegister(ThreadRef thread, int number) override;
  absl::StatusOr<size_t> ReadMemory(ThreadRef thread, uint64_t address,
                                    absl::Span<uint8_t> out) override;
  std::vector<MemoryRegion> Regions() override;

  absl::StatusOr<std::string> Auxv() override { return objects_.Auxv(timeline_->moment()); }
  absl::StatusOr<std::string> SigInfo(ThreadRef thread) override;
  std::string ExecutablePath() override { return objects_.ExecutablePath(timeline_->moment()); }
  absl::StatusOr<std::vector<Library>> Libraries(uint64_t* main_link_map) override;
  absl::StatusOr<std::string> ReadLink(const std::string& path) override;
  absl::StatusOr<std::string> FileContents(const std::string& path) override;
  absl::StatusOr<uint64_t> TlsAddress(ThreadRef thread, uint64_t offset,
                                      uint64_t link_map) override;

  absl::StatusOr<StopEvent> Resume(const ResumeRequest& request) override;
  StopEvent LastStop() override { return last_stop_; }

  bool InDiversion() override { return scratch_ != nullptr; }
  absl::Status WriteRegister(ThreadRef thread, int number,
                             absl::Span<const uint8_t> bytes) override;
  absl::Status WriteMemory(ThreadRef thread, uint64_t address,
                           absl::Span<const uint8_t> bytes) override;
  void EndDiversion() override;
  void SuspendDiversion() override;
  bool ResumeDiversion() override;

  absl::StatusOr<std::string> Monitor(const std::string& command, ThreadRef selected,
                                      const std::atomic<bool>* interrupt, bool* moved) override;
  void NoteVisit(ThreadRef thread) override { monitor_.Visit(thread.tid); }
  std::string TakeConsoleText() override;
  absl::Status GoTo(const std::string& where, const std::atomic<bool>* interrupt) override;

 private:
  ReplayTarget(const TraceReader* trace, std::unique_ptr<Timeline> timeline);

  ThreadRef Ref(int32_t thread) const { return {trace_->manifest().pid, thread}; }
  absl::Status CheckThread(ThreadRef thread) const;
  // Of the copy, if it is this thread's, else of the recording.
  absl::StatusOr<RegisterFile> Registers(int32_t thread);
  absl::StatusOr<RegisterFile> RecordedRegisters(int32_t thread);
  bool IsDiverted(int32_t thread) const {
    return scratch_ != nullptr && (thread == scratch_thread_ || other_scratches_.contains(thread));
  }
  // The number of the system call that is about to be made or was just made, else -1: as the kernel
  // shows it at the two stops of a system call.
  int64_t OrigRax(int32_t thread) const;
  absl::StatusOr<size_t> ReadBesideCall(int32_t thread, uint64_t address, absl::Span<uint8_t> out);
  bool ReadAll(uint64_t address, absl::Span<uint8_t> out);
  // Begins a diversion of `thread` if there is none.
  absl::Status Divert(int32_t thread);
  // Makes `thread` the one that runs in the diversion.
  absl::Status Redirect(int32_t thread);
  void TellUnknown(const UnknownMemory& unknown);
  absl::StatusOr<StopEvent> Report(const RunStop& stop, const ResumeRequest& request);
  // The answer to a step of a thread that has none to make: nothing moves then.
  std::optional<RunStop> AtEndOfThread(const ResumeRequest& request) const;
  // The timeline stands elsewhere than before.
  void Moved(StopEvent stop);
  // Say once what a stop alone does not tell.
  void TellEnd(const StopEvent& event);
  void TellFork(const StopEvent& event);
  void TellSyscall(const StopEvent& event);

  const TraceReader* trace_;
  std::unique_ptr<Timeline> timeline_;
  int32_t current_ = 0;  // last reported
  bool running_ = false;
  absl::flat_hash_map<int32_t, RegisterFile> registers_;  // those asked for at this moment
  RecordedObjects objects_;
  class Monitor monitor_;
  std::unique_ptr<ScratchProcess> scratch_;            // the diversion, while there is one
  std::unique_ptr<ScratchProcess> suspended_scratch_;  // of the same moment
  int32_t scratch_thread_ = 0;                         // the one that runs in it
  int64_t scratch_orig_rax_ = -1;
  // Of threads that ran in the diversion before, where they stand in it.
  absl::flat_hash_map<int32_t, RegisterFile> other_scratches_;
  StopEvent last_stop_;
  bool fork_told_ = false;
  std::string console_text_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_REPLAY_TARGET_H_

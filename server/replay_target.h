// A recorded process as a debug session sees it: the timeline behind the Target interface.
//
// Borrows the trace, which must outlive it. Not copyable, not movable. One thread at a time.

#ifndef HINDSIGHT_SERVER_REPLAY_TARGET_H_
#define HINDSIGHT_SERVER_REPLAY_TARGET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keyframes/timeline.h"
#include "server/monitor.h"
#include "server/recorded_objects.h"
#include "server/scratch_process.h"
#include "server/target.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class ReplayTarget final : public Target {
 public:
  // At the start of the recording.
  static absl::StatusOr<std::unique_ptr<ReplayTarget>> Open(const TraceReader* trace);

  std::vector<ThreadRef> threads() override { return {thread_}; }
  ThreadRef current_thread() override { return thread_; }
  std::string ThreadName(ThreadRef thread) override {
    return objects_.CommandName(timeline_->moment());
  }
  std::optional<int> ThreadProcessor(ThreadRef thread) override { return std::nullopt; }

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
  std::string TakeConsoleText() override;
  absl::Status GoTo(const std::string& where, const std::atomic<bool>* interrupt) override;

 private:
  absl::Status CheckThread(ThreadRef thread);
  ReplayTarget(const TraceReader* trace, std::unique_ptr<Timeline> timeline);

  const RegisterFile& Registers();
  const RegisterFile& ThreadRegisters();
  // The number of the system call that is about to be made or was just made, else -1: as the kernel
  // shows it at the two stops of a system call.
  int64_t OrigRax() const;
  bool ReadAll(uint64_t address, absl::Span<uint8_t> out);
  // Begins a diversion if there is none.
  absl::Status Divert();
  StopEvent Translate(const RunStop& stop, const ResumeRequest& request) const;
  // Tells how the program ended when the end is reached.
  void TellEnd();

  const TraceReader* trace_;
  std::unique_ptr<Timeline> timeline_;
  ThreadRef thread_;
  RecordedObjects objects_;
  class Monitor monitor_;
  std::unique_ptr<ScratchProcess> scratch_;            // the diversion, while there is one
  std::unique_ptr<ScratchProcess> suspended_scratch_;  // of the same position
  int64_t scratch_orig_rax_ = -1;
  StopEvent last_stop_;
  std::string console_text_;
  RegisterFile registers_;  // of the thread, at the timeline's moment
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_REPLAY_TARGET_H_

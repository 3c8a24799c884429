// A snapshot with what a debugger has changed in it: a copy, the snapshot itself does not change.
//
// Two kinds of writes look alike in a protocol. A user's edits of memory are kept until Discard,
// and listed. What a debugger writes to call a function of the program (a frame below the stack,
// the text of an argument in memory that it had allocated) belongs to that call; calls run in a
// copy of their own (diverted_process.h), with the edits. Edits of registers are those of that
// copy, while no call is in progress.
//
// Borrows `original`, which must outlive it. Neither copyable nor movable. One thread at a time.

#ifndef HINDSIGHT_SERVER_SNAPSHOTS_EDITED_PROCESS_H_
#define HINDSIGHT_SERVER_SNAPSHOTS_EDITED_PROCESS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "isa/registers.h"
#include "keyframes/inspect/process_view.h"
#include "keyframes/inspect/state_edits.h"
#include "server/snapshots/edited_view.h"
#include "server/target/diverted_process.h"

namespace hindsight {

class EditedProcess {
 public:
  explicit EditedProcess(ProcessView* original)
      : original_(original), view_(original), copy_(&view_) {}
  EditedProcess(const EditedProcess&) = delete;
  EditedProcess& operator=(const EditedProcess&) = delete;

  // Registers are the copy's.
  bool in_copy() const { return copy_.active(); }
  // The thread that runs in it. Requires: in_copy().
  int32_t copy_thread() const { return copy_.thread(); }
  // Something was written.
  bool changed() const { return copy_.active() || !view_.edits().empty(); }
  // To go on means to run the copy: it is in a call, or was made to go on elsewhere.
  bool CopyRuns() const;

  absl::StatusOr<RegisterFile> Registers(int32_t thread);
  int64_t SyscallNumber(int32_t thread) const;
  absl::StatusOr<size_t> ReadMemory(int32_t thread, uint64_t address, absl::Span<uint8_t> out);

  // `number` as in target_description.h.
  absl::Status WriteRegister(int32_t thread, int number, absl::Span<const uint8_t> bytes);
  absl::Status WriteMemory(int32_t thread, uint64_t address, absl::Span<const uint8_t> bytes);
  // Requires: CopyRuns(). What the program prints is appended to `console`.
  absl::StatusOr<RunStop> Run(const RunRequest& request, std::string* console);

  // As Target's.
  void Suspend();
  bool Resume() { return copy_.Resume(); }
  void Discard();

  // Where the edits differ from the snapshot, without its names. kFailedPrecondition: a call is in
  // progress, or the copy has run on.
  absl::StatusOr<StateEdits> Edits();

 private:
  bool Reads(ProcessView* view, uint64_t address, absl::Span<const uint8_t> expected);
  // Whether a debugger writes there to make a call, not for its user.
  bool IsOfCalls(int32_t thread, uint64_t address, uint64_t size);
  absl::Status WriteToCopy(int32_t thread, uint64_t address, absl::Span<const uint8_t> bytes);
  void AddMemoryEdits(StateEdits* edits);

  ProcessView* original_;
  EditedView view_;  // with the user's edits of memory
  DivertedProcess copy_;
  bool has_run_ = false;         // and is not back yet
  uint64_t pc_before_call_ = 0;  // of the last write to a pc before the copy ran
  // Of the last call: perhaps malloc's size and where it allocated that.
  uint64_t last_argument_ = 0;
  uint64_t last_result_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SNAPSHOTS_EDITED_PROCESS_H_

// Which processes of a recording are recorded, and between which places in their code.
//
// Not copyable. One thread.

#ifndef HINDSIGHT_RECORDER_SESSION_RECORDED_PART_H_
#define HINDSIGHT_RECORDER_SESSION_RECORDED_PART_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "recorder/process/address_space.h"
#include "recorder/ptrace/breakpoint_run.h"
#include "recorder/session/options.h"
#include "recorder/symbols/symbols.h"

namespace hindsight {

class RecordedPart {
 public:
  // kInvalidArgument: a place cannot be parsed.
  static absl::StatusOr<std::unique_ptr<RecordedPart>> Parse(const RecordOptions& options);

  // It begins where a thread gets to a place.
  bool has_start() const { return start_at_.has_value(); }
  // Whether a process is recorded from its present state on.
  bool Includes(pid_t process) const;
  // Where a process that is not recorded is to stop; nowhere if no place begins the recording.
  BreakpointRun::Places StartPlaces(pid_t process);
  // Where the recording of a process with this memory is to stop.
  std::vector<uint64_t> StopPlaces(pid_t process, const AddressSpace& space);

 private:
  RecordedPart() = default;

  std::optional<std::string> only_program_;  // unset: any
  std::optional<CodePlace> start_at_, stop_at_;
  Symbols symbols_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SESSION_RECORDED_PART_H_

#include "recorder/session/recorded_part.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/process/process_facts.h"

namespace hindsight {
absl::StatusOr<std::unique_ptr<RecordedPart>> RecordedPart::Parse(const RecordOptions& options) {
  auto part = absl::WrapUnique(new RecordedPart);
  if (options.children == ChildPolicy::kOnly) part->only_program_ = options.only_program;
  if (!options.start_at.empty()) {
    ASSIGN_OR_RETURN(part->start_at_, ParseCodePlace(options.start_at));
  }
  if (!options.stop_at.empty()) {
    ASSIGN_OR_RETURN(part->stop_at_, ParseCodePlace(options.stop_at));
  }
  return part;
}

bool RecordedPart::Includes(pid_t process) const {
  if (start_at_.has_value()) return false;
  if (!only_program_.has_value()) return true;
  const std::string program = ExecutablePath(process);
  return program == *only_program_ || absl::EndsWith(program, absl::StrCat("/", *only_program_));
}

BreakpointRun::Places RecordedPart::StartPlaces(pid_t process) {
  if (!start_at_.has_value()) return {};
  const MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", process, "/maps"));
  Symbols::Found found = symbols_.Find(*start_at_, map, process);
  std::vector<uint64_t> hooks = symbols_.LinkerHooks(map, process);
  hooks.insert(hooks.end(), found.choosers.begin(), found.choosers.end());
  return {std::move(found.addresses), std::move(hooks)};
}

std::vector<uint64_t> RecordedPart::StopPlaces(pid_t process, const AddressSpace& space) {
  if (!stop_at_.has_value()) return {};
  return symbols_.Find(*stop_at_, space.map(), process).addresses;
}

}  // namespace hindsight

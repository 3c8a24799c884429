#include "recorder/restore/target_check.h"

#include <utility>

#include "absl/types/span.h"
#include "recorder/process/process_memory.h"

namespace hindsight {

bool IsSameCause(const SnapshotCause& a, const SnapshotCause& b) {
  return a.trigger == b.trigger && a.level == b.level && a.class_number == b.class_number &&
         a.id == b.id && a.text == b.text;
}

bool TargetCheck::IsReached(const SnapshotCause& cause, uint64_t time_ns) {
  if (!target_.has_value()) return false;
  if (target_->by_time) return time_ns >= target_->elapsed_ns;
  return IsSameCause(cause, target_->cause) && ++arrivals_ == target_->arrivals;
}

std::vector<BytesDifference> TargetCheck::Compare(const ProcessMemory& memory) const {
  std::vector<BytesDifference> differences;
  for (const ExpectedBytes& expected : expected_) {
    std::vector<uint8_t> found(expected.bytes.size());
    if (!memory.Read(expected.address, absl::MakeSpan(found))) found.clear();
    if (found == expected.bytes) continue;
    differences.push_back({expected.name, expected.bytes, std::move(found)});
  }
  return differences;
}

}  // namespace hindsight

#include "tracefmt/recording_output.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace hindsight {
namespace {

// Jobs are blocks of about 256 KiB.
constexpr size_t kQueueJobs = 16;
// Of a ring: how much of it there is is known once it is written.
constexpr size_t kRingQueueJobs = 4;
constexpr char kReserve[] = "reserve.tmp";

}  // namespace

RecordingOutput::RecordingOutput(const OutputDirectory& directory, const WriterOptions& options,
                                 const RingLimits& ring)
    : directory_(directory),
      encoders_(static_cast<size_t>(options.threads)),
      modules_(directory_.In("modules"), &queue_, &bytes_written_),
      ring_(ring, &bytes_written_),
      queue_((ring.any() ? kRingQueueJobs : kQueueJobs) * static_cast<size_t>(options.threads),
             options) {
  if (ring_.on()) queue_.SetAfterEach([this] { return ring_.Trim(); });
}

RecordingOutput::~RecordingOutput() {
  queue_.Drain().IgnoreError();
  Release();
}

void RecordingOutput::Reserve(size_t bytes) {
  const absl::StatusOr<UniqueFd> fd = directory_.CreateFile(kReserve);
  if (!fd.ok()) return;
  reserved_ = true;
  (void)!posix_fallocate(fd->get(), 0, static_cast<off_t>(bytes));
}

void RecordingOutput::KeepEnded(std::shared_ptr<TraceHistory> history) {
  TraceHistory* const ended = history.get();
  ended_.push_back(std::move(history));
  ring_.Add(ended);
  ended->End([this, ended]() -> absl::Status {
    ring_.Remove(ended);
    const auto kept = std::find_if(ended_.begin(), ended_.end(),
                                   [ended](const auto& one) { return one.get() == ended; });
    const std::shared_ptr<TraceHistory> removed = *kept;
    ended_.erase(kept);
    return removed->RemoveAll();
  });
}

void RecordingOutput::Release() {
  if (reserved_) directory_.Remove(kReserve);
  reserved_ = false;
}

}  // namespace hindsight

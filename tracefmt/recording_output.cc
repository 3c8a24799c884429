#include "tracefmt/recording_output.h"

#include <fcntl.h>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace hindsight {
namespace {

// Jobs are blocks of about 256 KiB.
constexpr size_t kQueueJobs = 16;
constexpr char kReserve[] = "reserve.tmp";

}  // namespace

RecordingOutput::RecordingOutput(const OutputDirectory& directory, const WriterOptions& options)
    : directory_(directory),
      encoders_(static_cast<size_t>(options.threads)),
      modules_(directory_.In("modules"), &queue_, &bytes_written_),
      queue_(kQueueJobs * static_cast<size_t>(options.threads), options) {}

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

void RecordingOutput::Release() {
  if (reserved_) directory_.Remove(kReserve);
  reserved_ = false;
}

}  // namespace hindsight

#include "tracefmt/recording_output.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace hindsight {
namespace {

// Jobs are blocks of about 256 KiB.
constexpr size_t kQueueJobs = 16;

}  // namespace

RecordingOutput::RecordingOutput(std::string directory)
    : directory_(std::move(directory)),
      modules_(directory_ + "/modules", &bytes_written_),
      queue_(kQueueJobs) {}

RecordingOutput::~RecordingOutput() {
  queue_.Drain().IgnoreError();
  Release();
}

void RecordingOutput::Reserve(size_t bytes) {
  const UniqueFd fd(open(reserve_path().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) return;
  reserved_ = true;
  (void)!posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
}

void RecordingOutput::Release() {
  if (reserved_) unlink(reserve_path().c_str());
  reserved_ = false;
}

}  // namespace hindsight

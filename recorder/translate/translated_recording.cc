#include "recorder/translate/translated_recording.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "recorder/translate/agent/layout.h"

namespace hindsight {
namespace {

constexpr uint64_t kRingCapacity = kRingBytes - HS_RING_HEADER_BYTES;

// The agent keeps the program within the windows, and itself and the views out of them. The initial
// stack has been moved; what it was is nothing to the program any more.
std::optional<MapRegion> Show(const MapRegion& region) {
  const bool kernels = region.start >= uint64_t{1} << 63;
  if (!kernels && !InWindows(region.start, region.end)) return std::nullopt;
  MapRegion shown = region;
  if (region.end == kStackEnd) shown.name = "[stack]";
  return shown;
}

const char* TextOf(HsEndReason reason) {
  switch (reason) {
    case HS_END_EXIT:
      return "";
    case HS_END_THREAD:
      return "starts more threads than engine translate can record";
    case HS_END_EXEC:
      return "executes another program, which engine translate does not record yet";
    case HS_END_INSTRUCTION:
      return "executes an instruction that engine translate does not record yet";
    case HS_END_CODE:
      return "executes memory that it can write to, which engine translate does not record yet";
    case HS_END_CALL:
      return "makes a system call that engine translate does not record yet";
    case HS_END_MEMORY:
      return "uses more memory than engine translate can record";
  }
  return "does what engine translate does not record yet";
}

// By number.
std::vector<HsRing*> RingsOf(const MemoryFile& file) {
  std::vector<HsRing*> rings(kLastThread + 1);
  for (uint64_t i = kFirstThread; i <= kLastThread; ++i) rings[i] = file.ring(i);
  return rings;
}

}  // namespace

TranslatedRecording::TranslatedRecording(RecordingSession* session, ProcessLog* log,
                                         const MemoryFile& file,
                                         std::shared_ptr<const ExecutedPages> code)
    : session_(session),
      log_(log),
      process_(log, std::move(code), &Show),
      clock_(ReadTsc(), session->NowNs()),
      threads_(&process_, log, session->sequence(), &clock_, RingsOf(file), kRingCapacity) {
  CHECK(threads_.OpenFirst(kFirstThread).ok());
}

absl::StatusOr<bool> TranslatedRecording::Drain() {
  clock_.Update(ReadTsc(), session_->NowNs());
  if (!closed_) return threads_.Drain();
  threads_.SkipAll();
  return false;
}

absl::Status TranslatedRecording::Finish(int wait_status) {
  if (closed_) return absl::OkStatus();
  RETURN_IF_ERROR(threads_.Drain().status());
  const std::string reason = ReasonLeft();
  if (!reason.empty()) {
    Abandon(reason);
    return absl::OkStatus();
  }
  closed_ = true;
  RETURN_IF_ERROR(threads_.Finish());
  return log_->LogExit(threads_.first_count(), wait_status);
}

std::string TranslatedRecording::ReasonLeft() const { return TextOf(process_.left()); }

void TranslatedRecording::Abandon(const std::string& reason) {
  if (std::exchange(closed_, true)) return;
  threads_.Leave(reason);
  log_->NoteEndReason(reason);
}

}  // namespace hindsight

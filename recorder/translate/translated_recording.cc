#include "recorder/translate/translated_recording.h"

#include <optional>

#include "base/status_macros.h"
#include "isa/host_features.h"
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
      return "starts a thread, which engine translate does not record yet";
    case HS_END_EXEC:
      return "executes another program, which engine translate does not record yet";
    case HS_END_INSTRUCTION:
      return "executes an instruction that engine translate does not record yet";
    case HS_END_CODE:
      return "executes memory that it can write to, which engine translate does not record yet";
    case HS_END_CALL:
      return "makes a system call that engine translate does not record yet";
  }
  return "does what engine translate does not record yet";
}

HsRing* Prepare(HsRing* ring) {
  ring->capacity = kRingCapacity;
  return ring;
}

}  // namespace

TranslatedRecording::TranslatedRecording(RecordingSession* session, ProcessLog* log, HsRing* ring)
    : session_(session),
      log_(log),
      process_(log, &Show),
      reader_(Prepare(ring), kRingCapacity),
      thread_log_(log->writer(), log->pid(), session->sequence()),
      scheduling_(log->pid(), log->pid()),
      notes_(&thread_log_, &scheduling_),
      stream_(&process_, &thread_log_, &notes_, /*maker=*/0) {
  merger_.Add(&reader_, &stream_);
}

absl::StatusOr<bool> TranslatedRecording::Drain() {
  if (!closed_) return merger_.Drain();
  reader_.SkipAll();  // the agent would wait for room for ever
  return false;
}

absl::Status TranslatedRecording::Finish(int wait_status) {
  if (closed_) return absl::OkStatus();
  RETURN_IF_ERROR(merger_.Drain().status());
  const std::string reason = ReasonLeft();
  if (!reason.empty()) {
    Close(reason);
    return absl::OkStatus();
  }
  stream_.OnGone();
  Close("");
  return log_->LogExit(stream_.count(), wait_status);
}

std::string TranslatedRecording::ReasonLeft() const {
  return stream_.ended() ? TextOf(process_.left()) : "";
}

void TranslatedRecording::Abandon(const std::string& reason) {
  if (!closed_) Close(reason);
}

void TranslatedRecording::Close(const std::string& reason) {
  closed_ = true;
  merger_.Remove(&stream_);
  if (!reason.empty()) {
    stream_.Leave(reason);
    log_->NoteEndReason(reason);
  }
  log_->AddThread(thread_log_, stream_.count(), HostFeatures());
  log_->writer()->CloseThread(thread_log_.thread());
}

}  // namespace hindsight

#include "tracefmt/event_output.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "tracefmt/event_codec.h"
#include "tracefmt/ring/trimmed_event.h"
#include "tracefmt/storage/message.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {

absl::Status EventOutput::Create(const OutputDirectory& directory) {
  ASSIGN_OR_RETURN(file_, AppendFile::Create(directory, "events", output_->bytes_written()));
  return absl::OkStatus();
}

absl::Status EventOutput::Append(ProcessEvent event) {
  std::lock_guard<std::mutex> lock(mutex_);
  return AppendLocked(std::move(event));
}

absl::Status EventOutput::AppendLocked(ProcessEvent event) {
  if (output_->ring()->on()) summary_.Add(event);
  waiting_bytes_ += EventBytes(event);
  waiting_.push_back(std::move(event));
  ++count_;
  return waiting_bytes_ < kBlockBytes ? absl::OkStatus() : PostLocked();
}

absl::Status EventOutput::AppendMark(
    const ProcessEvent& event,
    const std::function<MarkJob(const EventSummary& summary, uint64_t events)>& mark) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(PostLocked());
  RETURN_IF_ERROR(output_->queue()->Post([this, job = mark(summary_, count_)] {
    job(file_->size() + dropped_bytes_);
    return absl::OkStatus();
  }));
  return AppendLocked(event);
}

absl::Status EventOutput::DropBefore(uint64_t offset, const std::vector<ProcessEvent>& beginning) {
  capnp::MallocMessageBuilder message;
  BuildEvents(beginning, message.initRoot<wire::EventBlock>());
  const uint64_t end = file_->size() + dropped_bytes_;
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  const auto trimmed = beginning.empty() ? std::nullopt : TrimmedFrom(beginning.front());
  const bool thinned = trimmed.has_value() && trimmed->thinned();
  RETURN_IF_ERROR(file_->DropBefore(
      offset - dropped_bytes_, thinned ? BlockKind::kThinnedEvents : BlockKind::kEvents,
      output_->encoder(), absl::MakeConstSpan(bytes.begin(), bytes.size())));
  dropped_bytes_ = end - file_->size();
  return absl::OkStatus();
}

void EventOutput::ForgetModules(absl::Span<const int32_t> modules) {
  std::lock_guard<std::mutex> lock(mutex_);
  summary_.ForgetModules(modules);
}

absl::Status EventOutput::Post() {
  std::lock_guard<std::mutex> lock(mutex_);
  return PostLocked();
}

absl::Status EventOutput::PostLocked() {
  if (waiting_.empty()) return absl::OkStatus();
  auto events = std::make_shared<std::vector<ProcessEvent>>(std::exchange(waiting_, {}));
  const size_t bytes = std::exchange(waiting_bytes_, 0);
  waiting_.reserve(events->size());  // the next block is much like this one
  return output_->queue()->Post([this, events, bytes] {
    capnp::MallocMessageBuilder message(bytes / sizeof(capnp::word) + 64);
    BuildEvents(*events, message.initRoot<wire::EventBlock>());
    return AppendMessage(file_.get(), BlockKind::kEvents, output_->encoder(), message);
  });
}

uint64_t EventOutput::count() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return count_;
}

}  // namespace hindsight

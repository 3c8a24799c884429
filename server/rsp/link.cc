#include "server/rsp/link.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"

namespace hindsight::rsp {
namespace {

constexpr size_t kMaxEventsHeld = 1024;

}  // namespace

absl::Status Link::Fill(bool wait) {
  char bytes[16384];
  ASSIGN_OR_RETURN(const size_t size, stream_->Read(absl::MakeSpan(bytes), wait));
  reader_.Append(absl::string_view(bytes, size));
  while (std::optional<Event> event = reader_.Next()) events_.push_back(*std::move(event));
  return absl::OkStatus();
}

absl::StatusOr<std::string> Link::Receive() {
  while (true) {
    while (events_.empty()) RETURN_IF_ERROR(Fill(/*wait=*/true));
    Event event = std::move(events_.front());
    events_.pop_front();
    switch (event.kind) {
      case EventKind::kPacket:
        // If the other side has closed already, its last packet still counts.
        if (acknowledging_) stream_->Write("+").IgnoreError();
        return std::move(event.payload);
      case EventKind::kTooLong:
        // It would not get shorter if it were sent again.
        if (acknowledging_) RETURN_IF_ERROR(stream_->Write("+"));
        return absl::ResourceExhaustedError("a packet longer than PacketSize");
      case EventKind::kCorrupt:
        // Without acknowledgements there is no way to ask again; the stream has to be reliable.
        if (acknowledging_) RETURN_IF_ERROR(stream_->Write("-"));
        break;
      case EventKind::kNack:
        if (acknowledging_ && !last_frame_.empty()) RETURN_IF_ERROR(stream_->Write(last_frame_));
        break;
      case EventKind::kAck:
        last_frame_.clear();
        break;
      case EventKind::kInterrupt:
        early_interrupt_ = std::chrono::steady_clock::now();
        break;
    }
  }
}

absl::Status Link::Send(absl::string_view payload) {
  std::string frame = Frame(payload);
  const absl::Status status = stream_->Write(frame);
  if (acknowledging_) last_frame_ = std::move(frame);
  return status;
}

bool Link::PollInterrupt() {
  // A client that floods a busy server has to wait: what is not read stays in the kernel's buffer.
  if (events_.size() < kMaxEventsHeld && !Fill(/*wait=*/false).ok()) return true;
  // Packets sent during a run wait in the queue for Receive.
  for (auto event = events_.begin(); event != events_.end(); ++event) {
    if (event->kind != EventKind::kInterrupt) continue;
    events_.erase(event);
    return true;
  }
  return false;
}

bool Link::TakeEarlyInterrupt(std::chrono::steady_clock::time_point since) {
  const auto at = std::exchange(early_interrupt_, std::nullopt);
  return at.has_value() && *at >= since;
}

}  // namespace hindsight::rsp

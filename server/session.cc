#include "server/session.h"

#include <utility>

namespace hindsight {

Session::Session(Target* target, rsp::ByteStream* stream)
    : link_(stream),
      watch_(&link_, &interrupt_),
      packets_({BreakpointPackets(), FilePackets(), MemoryPackets(), MonitorPackets(),
                QueryPackets(), RegisterPackets(), ResumePackets(), ThreadPackets(),
                TransferPackets()}),
      state_(target, &link_, &watch_, &interrupt_, &packets_) {}

Session::~Session() { state_.LeaveDiversion(); }

absl::StatusOr<SessionEnd> Session::Serve() {
  while (!state_.end.has_value()) {
    absl::StatusOr<std::string> packet = link_.Receive();
    if (absl::IsUnavailable(packet.status())) return SessionEnd::kDisconnected;
    if (!packet.ok()) return std::move(packet).status();

    const std::string reply = Answer(*packet);
    if (!std::exchange(state_.suppress_reply, false)) {
      const absl::Status sent = link_.Send(reply);
      if (absl::IsUnavailable(sent)) return SessionEnd::kDisconnected;
      if (!sent.ok()) return sent;
    }
    if (std::exchange(state_.stop_acknowledging, false)) link_.StopAcknowledging();
  }
  return *state_.end;
}

std::string Session::Answer(absl::string_view packet) {
  absl::string_view arguments;
  const PacketSpec* spec = packets_.Find(packet, &arguments);
  if (spec == nullptr) return "";
  const Reply reply = [&] {
    if (spec->talks) return spec->handler(state_, arguments);
    const InterruptWatch::Armed armed(&watch_, /*patience=*/state_.client.skips_acknowledgements);
    return spec->handler(state_, arguments);
  }();
  return reply.ok() ? *reply : ErrorReply(reply.status());
}

}  // namespace hindsight

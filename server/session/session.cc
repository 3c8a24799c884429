#include "server/session/session.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/rsp/hex.h"

namespace hindsight {

namespace {

constexpr int kTokensTried = 3;

// Takes as long for any two texts of these lengths.
bool SameSecret(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

Session::Session(Target* target, rsp::ByteStream* stream, SessionLock lock)
    : link_(stream),
      watch_(&link_, &interrupt_),
      packets_({BreakpointPackets(), FilePackets(), MemoryPackets(), MonitorPackets(),
                QueryPackets(), RegisterPackets(), ResumePackets(), ThreadPackets(),
                TransferPackets()}),
      state_(target, &link_, &watch_, &interrupt_, &packets_),
      lock_(std::move(lock)) {}

Session::~Session() { state_.LeaveDiversion(); }

absl::StatusOr<SessionEnd> Session::Serve() {
  while (!state_.reply.end.has_value()) {
    absl::StatusOr<std::string> packet = link_.Receive();
    if (absl::IsUnavailable(packet.status())) return SessionEnd::kDisconnected;
    const bool too_long = absl::IsResourceExhausted(packet.status());
    if (!packet.ok() && !too_long) return std::move(packet).status();

    const std::string reply = too_long              ? ErrorReply(packet.status())
                              : lock_.token.empty() ? Answer(*packet)
                                                    : AnswerLocked(*packet);
    if (!std::exchange(state_.reply.suppress, false)) {
      const absl::Status sent = link_.Send(reply);
      if (absl::IsUnavailable(sent)) return SessionEnd::kDisconnected;
      if (!sent.ok()) return sent;
    }
    if (std::exchange(state_.reply.stop_acknowledging, false)) link_.StopAcknowledging();
  }
  return *state_.reply.end;
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

// Enough for gdb to connect (target extended-remote: there is no process yet) and to say the token.
// Packets with Q only say what the client wants to hear of later.
std::string Session::AnswerLocked(absl::string_view packet) {
  if (absl::ConsumePrefix(&packet, "qRcmd,")) return TryToken(packet);
  if (packet == "?") return "W00";
  const bool harmless = absl::StartsWith(packet, "qSupported") || absl::StartsWith(packet, "Q") ||
                        packet == "!" || packet == "D" || packet == "k";
  if (harmless || absl::StartsWith(packet, "qXfer:features:read:")) return Answer(packet);
  // Advertised, so it cannot be unknown.
  return absl::StartsWith(packet, "qXfer:") ? "E01" : "";
}

std::string Session::TryToken(absl::string_view hex_command) {
  const std::string command = rsp::HexDecode(hex_command).value_or("");
  absl::string_view token = absl::StripAsciiWhitespace(command);
  if (absl::ConsumePrefix(&token, "token ") && SameSecret(token, lock_.token)) {
    lock_.token.clear();
    lock_.opened();
    state_.Print(absl::StrCat("Welcome. The recorded process is there after: attach ",
                              state_.target->current_thread().pid, "\n"));
    return "OK";
  }
  state_.Print(
      "hindsight: say 'monitor token TOKEN' first, with the token that the server knows\n");
  if (++wrong_tokens_ == kTokensTried) state_.reply.end = SessionEnd::kDisconnected;
  return "OK";
}

}  // namespace hindsight

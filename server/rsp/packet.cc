#include "server/rsp/packet.h"

#include <utility>

#include "server/rsp/hex.h"

namespace hindsight::rsp {
namespace {

constexpr char kInterruptByte = 0x03;
constexpr char kRunMark = '*';
// The smallest printable count would be ' ' (32); the protocol subtracts 29, so that a run is at
// least three more characters, where encoding begins to pay.
constexpr int kRunBias = 29;

}  // namespace

uint8_t Checksum(absl::string_view payload) {
  uint8_t sum = 0;
  for (const char c : payload) sum = static_cast<uint8_t>(sum + static_cast<uint8_t>(c));
  return sum;
}

std::string Frame(absl::string_view payload) {
  std::string frame;
  frame.reserve(payload.size() + 4);
  frame.push_back('$');
  frame.append(payload.data(), payload.size());
  frame.push_back('#');
  const char sum = static_cast<char>(Checksum(payload));
  AppendHex(absl::string_view(&sum, 1), &frame);
  return frame;
}

std::optional<std::string> ExpandRuns(absl::string_view payload, size_t max_bytes) {
  std::string expanded;
  for (size_t i = 0; i < payload.size(); ++i) {
    if (payload[i] != kRunMark) {
      if (expanded.size() == max_bytes) return std::nullopt;
      expanded.push_back(payload[i]);
      continue;
    }
    if (expanded.empty() || ++i == payload.size()) return std::nullopt;
    const int count = static_cast<uint8_t>(payload[i]) - kRunBias;
    if (count < 3 || payload[i] > '~') return std::nullopt;
    if (expanded.size() + static_cast<size_t>(count) > max_bytes) return std::nullopt;
    expanded.append(static_cast<size_t>(count), expanded.back());
  }
  return expanded;
}

std::optional<Event> PacketReader::Next() {
  while (next_ < buffer_.size()) {
    if (state_ == State::kPayload) TakeRun();
    if (next_ == buffer_.size()) break;
    if (std::optional<Event> event = Take(buffer_[next_++])) return event;
  }
  buffer_.clear();
  next_ = 0;
  return std::nullopt;
}

void PacketReader::TakeRun() {
  size_t end = next_;
  while (end < buffer_.size() && buffer_[end] != '#' && buffer_[end] != '$') ++end;
  const absl::string_view run = absl::string_view(buffer_).substr(next_, end - next_);
  sum_ = static_cast<uint8_t>(sum_ + Checksum(run));
  if (payload_.size() + run.size() > max_packet_bytes_) too_long_ = true;
  if (too_long_) {
    payload_.clear();
  } else {
    payload_.append(run.data(), run.size());
  }
  next_ = end;
}

std::optional<Event> PacketReader::Take(char c) {
  if (c == '$') {
    // Also in the checksum: there it can only be a packet whose beginning ran into a cut-off one.
    state_ = State::kPayload;
    too_long_ = false;
    sum_ = 0;
    payload_.clear();
    return std::nullopt;
  }
  switch (state_) {
    case State::kIdle:
      if (c == '+') return Event{EventKind::kAck, {}};
      if (c == '-') return Event{EventKind::kNack, {}};
      if (c == kInterruptByte) return Event{EventKind::kInterrupt, {}};
      return std::nullopt;
    case State::kPayload:  // TakeRun left only '#'
      state_ = State::kChecksum1;
      return std::nullopt;
    case State::kChecksum1:
      first_digit_ = c;
      state_ = State::kChecksum2;
      return std::nullopt;
    case State::kChecksum2:
      state_ = State::kIdle;
      return Finish(c);
  }
  return std::nullopt;
}

Event PacketReader::Finish(char second_digit) {
  const int high = HexDigit(first_digit_);
  const int low = HexDigit(second_digit);
  if (high < 0 || low < 0 || sum_ != (high << 4 | low)) return Event{EventKind::kCorrupt, {}};
  if (too_long_) return Event{EventKind::kTooLong, {}};
  return Event{EventKind::kPacket, std::exchange(payload_, {})};
}

}  // namespace hindsight::rsp

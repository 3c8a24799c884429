// Framing: `$payload#cc`, where cc is the sum of the payload's bytes modulo 256 in hexadecimal.
//
// Between packets travel single bytes: '+' (received), '-' (damaged, send again) and 0x03
// (interrupt). Inside a packet all three are ordinary payload.

#ifndef HINDSIGHT_SERVER_RSP_PACKET_H_
#define HINDSIGHT_SERVER_RSP_PACKET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace hindsight::rsp {

uint8_t Checksum(absl::string_view payload);

// The payload as it goes on the wire. Requires: the payload holds no '#' or '$'; binary parts were
// escaped by the caller.
std::string Frame(absl::string_view payload);

// Undoes run-length encoding: "0* " is "0000" (the character after '*', minus 29, is how many
// more). Only replies may be encoded so. nullopt if a run repeats nothing, is cut off or has a bad
// count, or the whole would exceed `max_bytes`.
std::optional<std::string> ExpandRuns(absl::string_view payload, size_t max_bytes);

enum class EventKind : uint8_t {
  kPacket,     // a packet with a good checksum
  kCorrupt,    // a packet with a bad checksum
  kTooLong,    // a packet with a good checksum, and more bytes than are kept
  kAck,        // '+'
  kNack,       // '-'
  kInterrupt,  // 0x03
};

struct Event {
  EventKind kind = EventKind::kPacket;
  std::string payload;  // kPacket
};

// Cuts a byte stream into events. Takes any bytes in pieces of any size; what is neither packet nor
// one of the single bytes is skipped, as the protocol says. Holds at most one packet of the maximal
// size besides what was appended. Copyable. One thread at a time.
class PacketReader {
 public:
  explicit PacketReader(size_t max_packet_bytes) : max_packet_bytes_(max_packet_bytes) {}

  void Append(absl::string_view bytes) { buffer_.append(bytes.data(), bytes.size()); }

  // The next event, nullopt if more bytes are needed.
  std::optional<Event> Next();

 private:
  // kIdle --'$'--> kPayload --'#'--> kChecksum1 --> kChecksum2 --> kIdle; '$' inside a packet
  // begins a new one (the end of the earlier one was lost).
  enum class State : uint8_t { kIdle, kPayload, kChecksum1, kChecksum2 };

  std::optional<Event> Take(char c);
  Event Finish(char second_digit);
  // Appends the ordinary payload bytes that start at next_, all at once, and skips them.
  void TakeRun();

  size_t max_packet_bytes_;
  State state_ = State::kIdle;
  bool too_long_ = false;  // payload_ is empty
  uint8_t sum_ = 0;        // of the payload's bytes so far
  char first_digit_ = 0;
  std::string payload_;
  std::string buffer_;
  size_t next_ = 0;  // index into buffer_ of the first byte not looked at
};

}  // namespace hindsight::rsp

#endif  // HINDSIGHT_SERVER_RSP_PACKET_H_

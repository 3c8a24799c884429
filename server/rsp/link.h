// One end of a remote-serial-protocol conversation: packets in and out over a byte stream, with
// acknowledgements until both sides agree to do without.
//
// Borrows `stream`, which must outlive it. Neither copyable nor movable. One thread at a time.

#ifndef HINDSIGHT_SERVER_RSP_LINK_H_
#define HINDSIGHT_SERVER_RSP_LINK_H_

#include <chrono>
#include <deque>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/rsp/packet.h"

namespace hindsight::rsp {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Waits until bytes arrive, or not at all if `wait` is false. Returns how many were read; 0 if
  // none have arrived yet. kUnavailable: the other side has closed.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> out, bool wait) = 0;
  // Writes all of it. kUnavailable: the other side has closed.
  virtual absl::Status Write(absl::string_view bytes) = 0;
};

class Link {
 public:
  // Packets received may have up to this many bytes (advertised as PacketSize).
  static constexpr size_t kMaxPacketBytes = 0x20000;

  explicit Link(ByteStream* stream) : stream_(stream), reader_(kMaxPacketBytes) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // The next packet; waits for it. kUnavailable: the other side has closed. kResourceExhausted: it
  // was too long, and is to be answered by an error.
  absl::StatusOr<std::string> Receive();
  // Sends `payload` with one write.
  absl::Status Send(absl::string_view payload);
  // True once an interrupt has arrived after the packet received last, or the other side has
  // closed. Reads what is there, never waits.
  bool PollInterrupt();
  // Whether an interrupt arrived before the packet received last, at `since` or later. Forgets it.
  bool TakeEarlyInterrupt(std::chrono::steady_clock::time_point since);
  // Shows a client that waits for a reply that the server is alive: a byte between packets, which
  // it skips.
  absl::Status KeepAlive() { return stream_->Write("+"); }
  // From now on packets are neither acknowledged nor expected to be.
  void StopAcknowledging() { acknowledging_ = false; }

 private:
  // Moves what has arrived from the stream to events_.
  absl::Status Fill(bool wait);

  ByteStream* stream_;
  PacketReader reader_;
  std::deque<Event> events_;
  bool acknowledging_ = true;
  std::optional<std::chrono::steady_clock::time_point> early_interrupt_;
  std::string last_frame_;  // sent again if the other side asks; empty once it cannot ask
};

}  // namespace hindsight::rsp

#endif  // HINDSIGHT_SERVER_RSP_LINK_H_

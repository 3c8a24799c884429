// The packets served: one table that binds a packet's name to its parser, its handler and the
// feature that advertises it. The reply to qSupported is computed from it.

#ifndef HINDSIGHT_SERVER_SESSION_PACKET_TABLE_H_
#define HINDSIGHT_SERVER_SESSION_PACKET_TABLE_H_

#include <array>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/session/session_state.h"

namespace hindsight {

// The payload of the reply; empty says that the packet is not supported. An error becomes the
// reply of ErrorReply().
using Reply = absl::StatusOr<std::string>;
using Handler = Reply (*)(SessionState& state, absl::string_view arguments);

enum class Match : uint8_t {
  kWhole,   // the packet is exactly the name
  kPrefix,  // arguments follow the name
};

struct PacketSpec {
  absl::string_view name;  // empty: no packet, only a feature of replies
  Match match = Match::kWhole;
  Handler handler = nullptr;
  absl::string_view feature = "";  // as in the reply to qSupported; empty: clients just try it
  // The feature changes replies, so it is only for clients that offer the same one.
  bool only_if_offered = false;
  // The handler sends packets of its own, and watches for interrupts itself.
  bool talks = false;
};

// Joins a parser, which knows no session, and a handler, which sees only well-formed requests.
template <auto Parse, auto Handle>
Reply Bound(SessionState& state, absl::string_view arguments) {
  auto request = Parse(arguments);
  if (!request.ok()) return std::move(request).status();
  return Handle(state, *std::move(request));
}

// The one place where errors become replies.
std::string ErrorReply(const absl::Status& status);

// Immutable once made. Specs are copied; the names in them are literals.
class PacketTable {
 public:
  explicit PacketTable(std::vector<absl::Span<const PacketSpec>> families);

  // The longest name that matches, nullptr if none does. Leaves the arguments in *arguments.
  const PacketSpec* Find(absl::string_view packet, absl::string_view* arguments) const;

  // The reply to qSupported for a client that offered `offered` ("swbreak+", ...).
  std::string Features(const absl::flat_hash_set<absl::string_view>& offered) const;

 private:
  std::array<std::vector<PacketSpec>, 256> by_first_byte_;  // longest names first
  std::vector<PacketSpec> features_;                        // those with one
};

// The families, one file each.
absl::Span<const PacketSpec> BreakpointPackets();
absl::Span<const PacketSpec> FilePackets();
absl::Span<const PacketSpec> MemoryPackets();
absl::Span<const PacketSpec> MonitorPackets();
absl::Span<const PacketSpec> QueryPackets();
absl::Span<const PacketSpec> RegisterPackets();
absl::Span<const PacketSpec> ResumePackets();
absl::Span<const PacketSpec> ThreadPackets();
absl::Span<const PacketSpec> TransferPackets();

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SESSION_PACKET_TABLE_H_

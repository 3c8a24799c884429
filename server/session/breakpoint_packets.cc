// Breakpoints and watchpoints: Z and z, with conditions.

#include <string>
#include <vector>

#include "base/status_macros.h"
#include "server/rsp/hex.h"
#include "server/rsp/scanner.h"
#include "server/session/packet_table.h"

namespace hindsight {
namespace {

absl::Status Malformed() { return absl::InvalidArgumentError("malformed breakpoint"); }

// ";X<length>,<bytecode>" any number of times; gdb puts the semicolon only before the first.
absl::Status ScanConditions(rsp::Scanner* scanner, std::vector<std::string>* conditions) {
  while (!scanner->empty()) {
    scanner->Consume(';');
    if (!scanner->Consume('X')) return Malformed();
    const std::optional<uint64_t> size_bytes = scanner->Hex();
    if (!size_bytes.has_value() || *size_bytes > rsp::Link::kMaxPacketBytes) return Malformed();
    if (!scanner->Consume(',')) return Malformed();
    const std::optional<absl::string_view> digits = scanner->Take(*size_bytes * 2);
    if (!digits.has_value()) return Malformed();
    std::optional<std::string> bytecode = rsp::HexDecode(*digits);
    if (!bytecode.has_value()) return Malformed();
    conditions->push_back(*std::move(bytecode));
  }
  return absl::OkStatus();
}

absl::StatusOr<BreakpointRequest> ParseBreakpoint(absl::string_view arguments) {
  rsp::Scanner scanner(arguments);
  const std::optional<uint64_t> type = scanner.Hex();
  if (!type.has_value() || !scanner.Consume(',')) return Malformed();
  // Not an error: a later protocol may have more types, and gdb asks by trying.
  if (*type > 4) return absl::UnimplementedError("unknown type of breakpoint");
  const std::optional<uint64_t> address = scanner.Hex();
  if (!address.has_value() || !scanner.Consume(',')) return Malformed();
  const std::optional<uint64_t> kind = scanner.Hex();
  if (!kind.has_value()) return Malformed();
  BreakpointRequest request{static_cast<BreakpointType>(*type), *address, *kind, {}};
  const bool watch = *type >= static_cast<uint64_t>(BreakpointType::kWrite);
  // A location that wraps around the end of memory, or has no bytes, can never be hit.
  if (watch && (*kind == 0 || *address + (*kind - 1) < *address)) return Malformed();
  RETURN_IF_ERROR(ScanConditions(&scanner, &request.conditions));
  return request;
}

// Before a client lets a forked child go it takes its breakpoints out of it. It has none here.
Reply Insert(SessionState& state, BreakpointRequest request) {
  if (state.forks.child_selected) return "OK";
  state.repeated_stop.times = 0;
  state.breakpoints.Insert(std::move(request));
  return "OK";
}

Reply Remove(SessionState& state, const BreakpointRequest& request) {
  if (state.forks.child_selected) return "OK";
  state.repeated_stop.times = 0;
  state.breakpoints.Remove(request);
  return "OK";
}

constexpr PacketSpec kPackets[] = {
    {"Z", Match::kPrefix, Bound<ParseBreakpoint, Insert>, "ConditionalBreakpoints+"},
    {"z", Match::kPrefix, Bound<ParseBreakpoint, Remove>},
    {"", Match::kWhole, nullptr, "swbreak+", true},
    {"", Match::kWhole, nullptr, "hwbreak+", true},
    {"", Match::kWhole, nullptr, "fork-events+", true},
    {"", Match::kWhole, nullptr, "vfork-events+", true},
    {"", Match::kWhole, nullptr, "exec-events+", true},
};

}  // namespace

absl::Span<const PacketSpec> BreakpointPackets() { return kPackets; }

}  // namespace hindsight

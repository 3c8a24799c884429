// `monitor` commands: qRcmd.

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/rsp/hex.h"
#include "server/session/packet_table.h"

namespace hindsight {
namespace {

absl::StatusOr<std::string> ParseCommand(absl::string_view arguments) {
  std::optional<std::string> command = rsp::HexDecode(arguments);
  if (!command.has_value()) return absl::InvalidArgumentError("malformed command");
  return std::string(absl::StripAsciiWhitespace(*command));
}

// The output travels in O packets, because a reply cannot be longer than a packet, and because
// an error reply would hide the message.
Reply Run(SessionState& state, const std::string& command) {
  if (command == "discard") {
    state.Print(state.target->HasWrites() ? "Back in the recording.\n"
                                          : "There is no throw-away copy.\n");
    state.LeaveDiversion();
    return "OK";
  }
  bool moved = false;
  const absl::StatusOr<std::string> output = [&] {
    state.watch->Acted();
    const InterruptWatch::Armed armed(state.watch);
    return state.target->Monitor(command, state.SelectedThread(), state.interrupt, &moved);
  }();
  state.watch->Acted();
  state.Print(state.target->TakeConsoleText());
  if (!output.ok()) {
    state.Print(absl::StrCat("hindsight: ", output.status().message(), "\n"));
    return "OK";
  }
  if (moved) {
    state.moved = true;
    state.LeaveDiversion();
    state.transfer = {};
    // gdb does not know; should the thread that it believes selected be gone, the current one is.
    state.selection.resumed = {};
  }
  state.Print(*output);
  if (!output->empty() && !absl::EndsWith(*output, "\n")) state.Print("\n");
  return "OK";
}

// Whether monitor commands have moved the program since this was last asked.
Reply Moved(SessionState& state, absl::string_view) {
  return std::exchange(state.moved, false) ? "OK" : "no";
}

constexpr PacketSpec kPackets[] = {
    {"qHindsightMoved", Match::kWhole, Moved},
    {"qRcmd,", Match::kPrefix, Bound<ParseCommand, Run>, "", false, true},
};

}  // namespace

absl::Span<const PacketSpec> MonitorPackets() { return kPackets; }

}  // namespace hindsight

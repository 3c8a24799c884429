// Agreeing on the protocol, and the beginning and end of a session.

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "server/rsp/hex.h"
#include "server/session/packet_table.h"

namespace hindsight {
namespace {

constexpr char kTriple[] = "x86_64-unknown-linux-gnu";

Reply Supported(SessionState& state, absl::string_view arguments) {
  const absl::flat_hash_set<absl::string_view> offered =
      absl::StrSplit(arguments, ';', absl::SkipEmpty());
  state.client.multiprocess = offered.contains("multiprocess+");
  state.client.swbreak = offered.contains("swbreak+");
  state.client.hwbreak = offered.contains("hwbreak+");
  state.client.fork_events = state.client.multiprocess && offered.contains("fork-events+");
  state.client.vfork_events = state.client.fork_events && offered.contains("vfork-events+");
  state.client.exec_events = offered.contains("exec-events+");
  state.client.skips_acknowledgements = offered.contains("swbreak+");  // gdb
  state.client.binary_upload = offered.contains("binary-upload+");
  return state.packets->Features(offered);
}

Reply StartNoAckMode(SessionState& state, absl::string_view) {
  state.reply.stop_acknowledging = true;
  return "OK";
}

Reply ExtendedMode(SessionState& state, absl::string_view) {
  state.client.extended = true;
  return "OK";
}

// "Attached": gdb offers to detach, not to kill, when it quits.
Reply Attached(SessionState&, absl::string_view) { return "1"; }

// gdb offers to look up symbols for the server; none are needed.
Reply Symbols(SessionState&, absl::string_view) { return "OK"; }

Reply HostInfo(SessionState&, absl::string_view) {
  return absl::StrFormat("triple:%s;ptrsize:8;endian:little;", rsp::HexEncode(kTriple));
}

Reply ProcessInfo(SessionState& state, absl::string_view) {
  return absl::StrFormat("pid:%x;triple:%s;ptrsize:8;endian:little;ostype:linux;",
                         state.target->current_thread().pid, rsp::HexEncode(kTriple));
}

// "" or a process id. A client that has received a fork event detaches from one of the two
// processes. The child is not here, so there is nothing to do for it; if it detaches from the
// parent, it means to continue with the child.
Reply Detach(SessionState& state, absl::string_view process) {
  const std::optional<uint64_t> pid = rsp::ParseHex(process);
  if (pid.has_value() && state.forks.announced.erase(static_cast<int32_t>(*pid)) > 0) {
    state.forks.child_selected = false;
    state.forks.reported_child = 0;
    return "OK";
  }
  if (pid.has_value() && state.forks.reported_child != 0) {
    absl::StrAppend(&state.next_continue.text,
                    "hindsight: a connection shows one process. The child, if it was recorded, is "
                    "shown by `hindsight replay -p ",
                    state.forks.reported_child, "`\n");
    return absl::PermissionDeniedError("only one process");
  }
  state.LeaveDiversion();
  state.reply.end = SessionEnd::kDetached;
  return "OK";
}

// A recording cannot be killed, but gdb kills before each `run`, and goes on in the same session.
Reply KillProcess(SessionState& state, absl::string_view) {
  state.LeaveDiversion();
  return "OK";
}

Reply Kill(SessionState& state, absl::string_view) {
  state.LeaveDiversion();
  state.reply.suppress = true;  // `k` has none
  if (!state.client.extended) state.reply.end = SessionEnd::kKilled;
  return "";
}

constexpr PacketSpec kPackets[] = {
    {"qSupported", Match::kWhole, Supported},
    {"qSupported:", Match::kPrefix, Supported},
    {"QStartNoAckMode", Match::kWhole, StartNoAckMode, "QStartNoAckMode+"},
    {"!", Match::kWhole, ExtendedMode},
    {"qAttached", Match::kWhole, Attached},
    {"qAttached:", Match::kPrefix, Attached},
    {"qSymbol:", Match::kPrefix, Symbols},
    {"qHostInfo", Match::kWhole, HostInfo},
    {"qProcessInfo", Match::kWhole, ProcessInfo},
    {"D", Match::kWhole, Detach},
    {"D;", Match::kPrefix, Detach},
    {"vKill;", Match::kPrefix, KillProcess},
    {"k", Match::kWhole, Kill},
};

}  // namespace

absl::Span<const PacketSpec> QueryPackets() { return kPackets; }

}  // namespace hindsight

// Threads: H, T, qC, the thread lists, qThreadExtraInfo, qGetTLSAddr.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "server/rsp/hex.h"
#include "server/rsp/scanner.h"
#include "server/session/packet_table.h"
#include "server/session/thread_id.h"

namespace hindsight {
namespace {

absl::StatusOr<ThreadRef> ScanThread(rsp::Scanner* scanner) {
  const std::optional<ThreadRef> thread = ParseThreadId(scanner);
  if (!thread.has_value()) return absl::InvalidArgumentError("malformed thread id");
  return *thread;
}

absl::StatusOr<ThreadRef> ParseThread(absl::string_view arguments) {
  rsp::Scanner scanner(arguments);
  ASSIGN_OR_RETURN(const ThreadRef thread, ScanThread(&scanner));
  if (!scanner.empty()) return absl::InvalidArgumentError("malformed thread id");
  return thread;
}

absl::StatusOr<ThreadRef> Existing(SessionState& state, ThreadRef id) {
  const std::optional<ThreadRef> thread = FindThread(state.target->threads(), id);
  if (!thread.has_value()) return absl::InvalidArgumentError("no such thread at this position");
  return *thread;
}

Reply SelectForRegisters(SessionState& state, ThreadRef id) {
  state.forks.child_selected = id.pid > 0 && state.forks.announced.contains(id.pid);
  if (state.forks.child_selected) return "OK";
  if (id.tid <= 0) {  // any thread, or all: the one last reported will do
    state.selection.general = {};
    return "OK";
  }
  ASSIGN_OR_RETURN(state.selection.general, Existing(state, id));
  state.selection.stepping = state.selection.general;
  return "OK";
}

Reply SelectForResuming(SessionState& state, ThreadRef id) {
  if (id.tid <= 0) {
    state.selection.resumed = {};
    return "OK";
  }
  ASSIGN_OR_RETURN(state.selection.resumed, Existing(state, id));
  return "OK";
}

Reply IsAlive(SessionState& state, ThreadRef id) {
  if (id.pid > 0 && state.forks.announced.contains(id.pid)) return "OK";
  // gdb asks before it goes on stepping a thread after another one has stopped.
  ASSIGN_OR_RETURN(state.selection.stepping, Existing(state, id));
  return "OK";
}

Reply CurrentThread(SessionState& state, absl::string_view) {
  return absl::StrCat("QC", ThreadId(state.SelectedThread(), state.client.multiprocess));
}

Reply ListMoreThreads(SessionState& state, absl::string_view) {
  constexpr size_t kThreadsPerReply = 512;
  const std::vector<ThreadRef> threads = state.target->threads();
  std::string reply;
  for (size_t n = 0; n < kThreadsPerReply && state.selection.listed < threads.size(); ++n) {
    absl::StrAppend(&reply, reply.empty() ? "m" : ",",
                    ThreadId(threads[state.selection.listed++], state.client.multiprocess));
  }
  return reply.empty() ? "l" : reply;
}

Reply ListThreads(SessionState& state, absl::string_view arguments) {
  state.selection.listed = 0;
  return ListMoreThreads(state, arguments);
}

Reply ExtraInfo(SessionState& state, ThreadRef id) {
  ASSIGN_OR_RETURN(const ThreadRef thread, Existing(state, id));
  return rsp::HexEncode(Printable(state.target->ThreadName(thread)));
}

struct TlsRequest {
  ThreadRef thread;
  uint64_t offset = 0;
  uint64_t link_map = 0;
};

absl::StatusOr<TlsRequest> ParseTls(absl::string_view arguments) {
  rsp::Scanner scanner(arguments);
  ASSIGN_OR_RETURN(const ThreadRef thread, ScanThread(&scanner));
  if (!scanner.Consume(',')) return absl::InvalidArgumentError("expected an offset");
  const std::optional<uint64_t> offset = scanner.Hex();
  if (!offset.has_value() || !scanner.Consume(',')) {
    return absl::InvalidArgumentError("expected a link map");
  }
  const std::optional<uint64_t> link_map = scanner.Hex();
  if (!link_map.has_value() || !scanner.empty()) {
    return absl::InvalidArgumentError("expected a link map");
  }
  return TlsRequest{thread, *offset, *link_map};
}

Reply TlsAddress(SessionState& state, const TlsRequest& request) {
  ASSIGN_OR_RETURN(const ThreadRef thread, Existing(state, request.thread));
  ASSIGN_OR_RETURN(const uint64_t address,
                   state.target->TlsAddress(thread, request.offset, request.link_map));
  return absl::StrFormat("%x", address);
}

absl::StatusOr<bool> ParseSwitch(absl::string_view arguments) {
  if (arguments == "0" || arguments == "1") return arguments == "1";
  return absl::InvalidArgumentError("expected 0 or 1");
}

Reply ThreadEvents(SessionState& state, bool on) {
  state.selection.report_events = on;
  return "OK";
}

Reply ListThreadsInStopReply(SessionState& state, absl::string_view) {
  state.selection.list_in_stop_replies = true;
  return "OK";
}

constexpr PacketSpec kPackets[] = {
    {"Hg", Match::kPrefix, Bound<ParseThread, SelectForRegisters>},
    {"Hc", Match::kPrefix, Bound<ParseThread, SelectForResuming>},
    {"T", Match::kPrefix, Bound<ParseThread, IsAlive>},
    {"qC", Match::kWhole, CurrentThread},
    {"qfThreadInfo", Match::kWhole, ListThreads},
    {"qsThreadInfo", Match::kWhole, ListMoreThreads},
    {"qThreadExtraInfo,", Match::kPrefix, Bound<ParseThread, ExtraInfo>},
    {"qGetTLSAddr:", Match::kPrefix, Bound<ParseTls, TlsAddress>},
    {"QThreadEvents:", Match::kPrefix, Bound<ParseSwitch, ThreadEvents>, "QThreadEvents+"},
    {"QListThreadsInStopReply", Match::kWhole, ListThreadsInStopReply},
    {"", Match::kWhole, nullptr, "multiprocess+", true},
};

}  // namespace

absl::Span<const PacketSpec> ThreadPackets() { return kPackets; }

}  // namespace hindsight

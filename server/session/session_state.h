// What the packet handlers of one session share.

#ifndef HINDSIGHT_SERVER_SESSION_SESSION_STATE_H_
#define HINDSIGHT_SERVER_SESSION_SESSION_STATE_H_

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/rsp/link.h"
#include "server/session/backward_line.h"
#include "server/session/breakpoint_table.h"
#include "server/session/interrupt_watch.h"
#include "server/target/target.h"

namespace hindsight {

class PacketTable;

enum class SessionEnd : uint8_t {
  kDisconnected,  // the client closed the connection
  kDetached,      // it said so before
  kKilled,        // it asked to kill the program
};

// What the client offered in its qSupported, and `!`. Nothing until then.
struct ClientFeatures {
  bool extended = false;      // `!`: stays connected when the program ends
  bool multiprocess = false;  // thread ids carry the process
  bool swbreak = false;       // understands these two stop reasons
  bool hwbreak = false;
  bool fork_events = false;    // wants forks reported
  bool vfork_events = false;   // and vforks as such
  bool exec_events = false;    // follows the program when it executes another
  bool binary_upload = false;  // understands the reply to `x`
  // Skips acknowledgements that it does not wait for. (LLDB mistakes them for replies.)
  bool skips_acknowledgements = false;
};

// The threads that packets are about, and what is reported of threads.
struct ThreadSelection {
  // Registers and memory: by Hg, or the one last reported, which clients take for selected. tid 0:
  // none yet.
  ThreadRef general;
  ThreadRef resumed;  // Hc: the only one to be resumed; tid 0: all
  // Who steps when all are resumed backward: the packet does not say, but it is the thread that the
  // client named last, in Hg or T, or else the one last reported.
  ThreadRef stepping;
  size_t listed = 0;                  // by qfThreadInfo, qsThreadInfo
  bool report_events = false;         // QThreadEvents
  bool list_in_stop_replies = false;  // QListThreadsInStopReply
};

// Children that fork events have announced to the client. They are recorded on their own: here the
// client can only detach from them.
struct ForkedChildren {
  std::set<int32_t> announced;
  bool child_selected = false;  // by Hg: what follows is about one of them
  int32_t reported_child = 0;   // not 0: reported just now; the client is about to detach from one
  ThreadRef vfork_parent;       // tid not 0: the client waits for its vforkdone
};

// The breakpoint at which continuing stopped last, and how often without any other packet about it.
// gdb forgets breakpoints in unloaded libraries without removing them; when such a library is
// loaded again and one is hit, gdb continues, and would do so forever.
struct RepeatedStop {
  uint64_t address = 0;
  int times = 0;
};

// Which signals and system calls stop the program.
struct EventFilters {
  std::bitset<256> passed_signals;  // that do not; by gdb's numbers
  bool catch_syscalls = false;
  std::vector<int64_t> syscalls;  // the ones to catch; empty: all
};

// The object last served by qXfer: clients fetch objects in pieces, from the beginning.
struct TransferredObject {
  std::string key;  // "object:annex", empty if there is none
  std::string contents;
};

// A thread whose registers were written in the diversion (see diversion.h), or in which it began.
struct DivertedThread {
  ThreadRef thread;
  // As they were before, and whether they ever differed since: when they are the same again, the
  // function called from gdb has returned.
  std::string registers;
  bool changed = false;
};

struct DiversionState {
  std::vector<DivertedThread> threads;  // the one that runs last; empty: no diversion
  // A thread that the client has stepped off a breakpoint in the copy before it let another one
  // run. From then on it believes it stepped off, but in the recording it was not.
  ThreadRef stepped_off;
};

// `run WHERE` makes gdb continue at once, but the user wants to stay at WHERE.
struct NextContinue {
  bool swallow = false;
  std::string text;  // to be shown then: gdb shows none in a reply to `run`
};

// Set by handlers for the session.
struct ReplyControl {
  bool suppress = false;            // this reply is not sent
  bool stop_acknowledging = false;  // it is the last one with acknowledgements
  std::optional<SessionEnd> end;    // it is the last one of all
};

// Plain data, a member for each concern of the handlers.
struct SessionState {
  // All borrowed.
  Target* target;
  rsp::Link* link;
  InterruptWatch* watch;
  std::atomic<bool>* interrupt;
  const PacketTable* packets;

  ClientFeatures client;
  ThreadSelection selection;
  ForkedChildren forks;
  BreakpointTable breakpoints;
  RepeatedStop repeated_stop;
  EventFilters filters;
  // Lines through which a step backward goes in one run; empty: it is one instruction.
  std::vector<BackwardLine> backward_lines;
  TransferredObject transfer;
  std::map<int, std::string> open_files;  // by the descriptor the client knows
  DiversionState diversion;
  NextContinue next_continue;
  ReplyControl reply;
  // By a monitor command, which clients do not notice, and nobody has asked since.
  bool moved = false;

  SessionState(Target* target_in, rsp::Link* link_in, InterruptWatch* watch_in,
               std::atomic<bool>* interrupt_in, const PacketTable* packets_in)
      : target(target_in),
        link(link_in),
        watch(watch_in),
        interrupt(interrupt_in),
        packets(packets_in),
        breakpoints(target_in) {}

  // The thread that register packets are about. Alive.
  ThreadRef SelectedThread();
  // Shows `text` in the client's console. Only while a resume or monitor command is unanswered.
  void Print(absl::string_view text);
  // A function is being called from gdb: the copy runs.
  bool DivertedInACall() const;
  // Throws away the copy, if there is one, active or set aside.
  void LeaveDiversion();
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SESSION_SESSION_STATE_H_

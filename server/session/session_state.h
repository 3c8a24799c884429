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

// What the client can do with, from its qSupported. Nothing until then.
struct ClientFeatures {
  bool multiprocess = false;  // thread ids carry the process
  bool swbreak = false;       // understands these two stop reasons
  bool hwbreak = false;
  bool fork_events = false;    // wants to be told of new processes
  bool vfork_events = false;   // the same, by vfork
  bool exec_events = false;    // follows the program when it executes another
  bool binary_upload = false;  // understands the reply to `x`
  // Skips acknowledgements that it does not wait for. (LLDB takes them for answers.)
  bool skips_acknowledgements = false;
};

// The last object served by qXfer: clients fetch objects in pieces, from the beginning.
struct TransferredObject {
  std::string key;  // "object:annex", empty if there is none
  std::string contents;
};

// A thread whose registers were written in the diversion (see diversion.h), or in which it began.
struct DivertedThread {
  ThreadRef thread;
  // As they were before, and whether they were ever different since: when they are the same again,
  // the function called from gdb is done.
  std::string registers;
  bool changed = false;
};

struct SessionState {
  // All borrowed.
  Target* target;
  rsp::Link* link;
  InterruptWatch* watch;
  std::atomic<bool>* interrupt;
  const PacketTable* packets;

  ClientFeatures client;
  bool extended = false;  // `!`: survives the end of the program

  // Whose registers and memory: by Hg, or the one last reported, which clients take for selected.
  // tid 0: none yet.
  ThreadRef general_thread;
  ThreadRef resume_thread;  // Hc: who alone is resumed; tid 0: all
  // Who steps when all are resumed backward: the packet does not say, but it is the thread that the
  // client spoke of last, in Hg or T, or else heard of last.
  ThreadRef stepping_thread;
  bool thread_events = false;               // QThreadEvents
  bool list_threads_in_stop_reply = false;  // QListThreadsInStopReply

  // Processes that the client has been told of by fork events. They are recorded on their own, so
  // it can do nothing with them here but let them go.
  std::set<int32_t> announced_children;
  bool child_selected = false;  // by Hg: what follows is about one of them
  int32_t forked_child = 0;     // not 0: reported just now; one of the two is about to be let go
  ThreadRef vfork_parent;       // tid not 0: the client waits to hear that its vfork is over

  // Lines through which a step backward goes in one run; none: it is one instruction.
  std::vector<BackwardLine> backward_lines;

  BreakpointTable breakpoints;
  // The breakpoint that continuing has stopped at last, and how often without any other packet that
  // concerns it. gdb forgets breakpoints in libraries that were unloaded without removing them.
  // When such a library is back and one is hit, gdb continues, and would for ever.
  uint64_t stopped_at = 0;
  int stopped_times = 0;
  std::bitset<256> passed_signals;  // by gdb's numbers
  bool catch_syscalls = false;
  std::vector<int64_t> caught_syscalls;  // empty: all

  TransferredObject transfer;
  std::map<int, std::string> open_files;  // by the descriptor the client knows
  size_t threads_listed = 0;              // by qfThreadInfo, qsThreadInfo

  // The threads that a diversion is about, the one that runs in it last. Empty: there is none.
  std::vector<DivertedThread> diverted;
  // A thread that the client has stepped there off a breakpoint before it let another one run, and
  // takes for stepped off from then on. In the recording it was not.
  ThreadRef stepped_in_copy;

  // `run WHERE` makes gdb continue at once; the user wants to stay where he went to.
  bool swallow_next_continue = false;
  // What is to be said then: gdb shows no text in an answer to `run`.
  std::string text_for_next_continue;

  // Set by handlers for the session: this reply is not sent / the last one with acknowledgements /
  // the last one of all.
  bool suppress_reply = false;
  bool stop_acknowledging = false;
  std::optional<SessionEnd> end;

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
  // A function is being called: what runs is the copy.
  bool DivertedInACall() const;
  // Throws the copy away, if there is one, active or set aside.
  void LeaveDiversion();
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SESSION_SESSION_STATE_H_

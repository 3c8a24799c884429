// What the packet handlers of one session share.

#ifndef HINDSIGHT_SERVER_SESSION_STATE_H_
#define HINDSIGHT_SERVER_SESSION_STATE_H_

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/breakpoint_table.h"
#include "server/interrupt_watch.h"
#include "server/rsp/link.h"
#include "server/target.h"

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
  bool exec_events = false;    // follows the program when it executes another
  bool binary_upload = false;  // understands the reply to `x`
};

// The last object served by qXfer: clients fetch objects in pieces, from the beginning.
struct TransferredObject {
  std::string key;  // "object:annex", empty if there is none
  std::string contents;
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

  ThreadRef general_thread;  // Hg: whose registers and memory; tid 0: the one last reported
  ThreadRef resume_thread;   // Hc: who steps; tid 0: the one last reported

  BreakpointTable breakpoints;
  std::bitset<256> passed_signals;  // by gdb's numbers
  bool catch_syscalls = false;
  std::vector<int64_t> caught_syscalls;  // empty: all

  TransferredObject transfer;
  std::map<int, std::string> open_files;  // by the descriptor the client knows
  size_t threads_listed = 0;              // by qfThreadInfo, qsThreadInfo

  // The registers as they were when the diversion began, and whether they were ever different
  // since: when they are the same again, the function called from gdb is done.
  std::string registers_before_diversion;
  bool diversion_changed_registers = false;

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

  // The thread that register packets are about.
  ThreadRef SelectedThread() {
    return general_thread.tid > 0 ? general_thread : target->current_thread();
  }
  // Shows `text` in the client's console. Only while a resume or monitor command is unanswered.
  void Print(absl::string_view text);
  // Throws the copy away, if there is one, active or set aside.
  void LeaveDiversion();
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SESSION_STATE_H_

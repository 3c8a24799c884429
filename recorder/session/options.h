// The options of a recording, its progress, and its result.

#ifndef HINDSIGHT_RECORDER_SESSION_OPTIONS_H_
#define HINDSIGHT_RECORDER_SESSION_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "isa/cpuid.h"
#include "isa/memory_model.h"
#include "recorder/log/snapshot_reason.h"
#include "recorder/session/engine_kind.h"
#include "recorder/snapshot/capture_configuration.h"
#include "tracefmt/ring/ring_limits.h"

namespace hindsight {

// What a progress line shows. Totals since the start.
struct RecordProgress {
  uint64_t instructions = 0;
  uint64_t events = 0;  // orderable events
  uint64_t trace_bytes = 0;
  double seconds = 0;
};

enum class ChildPolicy : uint8_t {
  kFollow,  // children are recorded, and theirs
  kNone,    // children run natively
  kOnly,    // only processes that run the program `only_program` are recorded, from its exec on
};

// For tests of engine translate: what is rare happens often.
struct TranslationTrials {
  uint32_t block_instructions = 64;  // of a translated block, at most
  // All that was translated is thrown away at random, on average after so many requests; 0: never.
  uint32_t flush_every = 0;
  // Of so many places where memory is compared, one finds a difference whatever is there; 0: none.
  uint32_t failing_checks = 0;

  bool operator==(const TranslationTrials&) const = default;
};

inline constexpr char kNoTranslationCache[] = "none", kUsersTranslationCache[] = "";

struct RecordOptions {
  std::string directory;  // of the trace; must not exist or be empty
  EngineKind engine = EngineKind::kEmulate;
  // Instead of `engine`: translate, but emulate what it cannot record.
  bool any_engine = false;
  // The program and its arguments. arguments[0] is looked for like execvp does and is the program's
  // argv[0], as given.
  std::vector<std::string> arguments;
  // Instructions; 0: only at the start. A light keyframe costs no measurable time down to one in
  // 5 M instructions, and imports all lines in use again: 25 M replay in about a quarter of a
  // second, and add less to a trace than its modules.
  uint64_t light_keyframe_interval = 25'000'000;
  // Whether the interval is up to 16 times as long while a thread uses much memory, all of which is
  // imported again after each light keyframe.
  bool adapt_light_keyframes = false;
  uint64_t full_keyframe_interval = 2'000'000'000;
  MemoryModel memory_model = MemoryModel::kFence;
  // What CPUID reports to the program.
  CpuModel cpu = CpuModel::kHost;
  // Instead of `cpu`: what suits the engine.
  bool any_cpu = false;
  ChildPolicy children = ChildPolicy::kFollow;
  std::string only_program;  // base name or path of an executable
  // Whether the manifests list the environment of each process.
  bool store_environment = true;
  // Not 0: instead of starting a program, records this process from now on; `arguments` is empty.
  int32_t attach_pid = 0;
  // All threads of that process, the first one first, if the calling thread traces them already and
  // they are in PTRACE_EVENT_STOP, before the instructions that are recorded first.
  std::vector<int32_t> traced_threads;
  // Of these the one with a pending signal that is no reason for a snapshot any more; 0: none.
  int32_t signaled_thread = 0;
  // Whether recording lasts until the last of the processes has ended that the program made; else
  // those that outlive the program by more than an instant run on unrecorded.
  bool wait_for_all = false;
  double timeout_seconds = 0;    // the program is killed after this; 0: it is not
  double max_seconds = 0;        // recording ends after this; 0: it does not
  uint64_t max_trace_bytes = 0;  // recording ends before the trace gets much larger; 0: no limit
  RingLimits ring;               // only the newest part is kept
  // FUNCTION, FILE:FUNCTION or an address (0x...): where recording begins / ends, each time any
  // thread gets there; before and after, the program runs natively. Empty: no such place.
  std::string start_at, stop_at;
  // So many blocks of each million instructions, and more of a thread's first, are executed by the
  // program's own thread as well, and compared (block_check.h); 0: none.
  uint64_t self_checks_per_million = 0;
  // Instructions of a thread's turn among others, at most; and between two looks for pending
  // signals, keyframes due and progress.
  uint64_t quantum = 1'000'000;
  // Of all random choices (turn_scheduler.h).
  uint64_t seed = 0;
  // Threads and processes are scheduled to find bugs.
  bool chaos = false;
  // Snapshots on the way (snapshot_triggers.h). `listens`: also at the points of programs that are
  // linked with libhindsight.
  CaptureConfiguration capture;
  bool listens = false;
  TranslationTrials trials;
  // Folder where engine translate keeps what it has translated for later recordings; or one of the
  // two above.
  std::string translation_cache = kNoTranslationCache;
  // Of the threads that compress and write the trace.
  int32_t writer_threads = 1;
  int32_t writer_nice = 0;  // as of nice(1)
  // Mapped files larger than this are listed in the trace, but not stored.
  uint64_t max_module_bytes = uint64_t{256} << 20;
  // If a system call stores more than this in one place, the data is recorded only where the
  // program uses it; until then debuggers show it as unavailable. 0: all is recorded.
  uint64_t bulk_bytes = 0;
  // Told of each snapshot once it is in the trace, while no thread of its process runs and its
  // memory is all in the process (engine emulate only). True: it was the last one that is wanted;
  // all processes are killed. May be empty.
  std::function<bool(const SnapshotReason& reason, int32_t process)> on_snapshot;
  // Called at the beginning, and then about four times a second, from the thread that called
  // RecordProgram, also while the program waits in a system call. Not while the program uses the
  // terminal that standard error is (terminal_use.h), if it is one. May be empty.
  std::function<void(const RecordProgress&)> progress;
  // Told, in one line, what the user may want to know though nothing went wrong. May be empty.
  std::function<void(const std::string&)> remark;
  // Called before the program uses the terminal: erases what `progress` has shown there. Empty if
  // `progress` is.
  std::function<void()> hide_progress;
  // Whether the cursor of that terminal is at the start of an empty line when the program starts.
  bool at_line_start = true;
};

struct RecordResult {
  // The program's own, as wait(2) reports it; also of a program that outlived its recording.
  int wait_status = 0;
  uint64_t instructions = 0;
  uint64_t events = 0;
  uint64_t trace_bytes = 0;
  uint64_t light_keyframes = 0;  // segments
  uint64_t full_keyframes = 0;
  uint64_t snapshots = 0;         // of them
  uint64_t snapshots_missed = 0;  // wanted, but a thread could not be stopped in time
  double seconds = 0;             // wall-clock time of the recording
  uint64_t processes = 1;         // recorded
  uint64_t threads = 1;
  uint64_t processes_left = 0;    // made by the program, and running on when it had ended
  uint64_t blocks_checked = 0;    // see RecordOptions::self_checks_per_million
  uint64_t blocks_differing = 0;  // of them, executed differently from the processor
  std::string first_difference;   // the instruction, and what differs
  // Empty: recorded to the program's end. Otherwise why recording stopped earlier; a line with it
  // has been printed on stderr, and the program ran on unrecorded.
  std::string end_reason;
  bool timed_out = false;     // it was killed, after RecordOptions::timeout_seconds
  bool at_line_start = true;  // RecordOptions::at_line_start for the next run; if `progress` is set
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SESSION_OPTIONS_H_

// Turns the entries of one translated thread into its part of the trace: segments, records and
// events, as any other engine writes them.
//
//   agent -> HsRing -> RingReader -> ThreadStream -> ThreadLog, ThreadNotes -> trace
//
// Sequence numbers are given here, in the order in which entries are handed over: whoever hands
// over those of several threads does it by their time stamps. A call that stands where it began has
// its number reserved there, and its event when it has returned, if it ever does. Orderable
// instructions that follow each other are kept back and become one order run, before the next
// record at the latest.
//
// Borrows what it is made of. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_STREAM_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_STREAM_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "isa/registers.h"
#include "recorder/log/module_table.h"
#include "recorder/log/thread_log.h"
#include "recorder/log/thread_notes.h"
#include "recorder/process/address_space.h"
#include "recorder/translate/stream/executed_pages.h"
#include "recorder/translate/stream/record_ring.h"
#include "recorder/translate/stream/ring_reader.h"
#include "recorder/translate/stream/segment_pages.h"
#include "recorder/translate/stream/state_turns.h"

namespace hindsight {

struct MadeProcess {
  pid_t process = 0;         // as its maker knows it; then as the recorder does
  int32_t maker = 0;         // thread
  uint64_t maker_count = 0;  // before the call
  ForkKind kind = ForkKind::kFork;
  uint64_t sequence = 0;  // of the call; 0: it is not known yet
};

// What a thread's entries mean for its process.
class StreamedProcess {
 public:
  virtual ~StreamedProcess() = default;

  virtual const AddressSpace& space() const = 0;
  virtual const ModuleTable& modules() const = 0;
  // What was translated of its code; may be null.
  virtual std::shared_ptr<const ExecutedPages> code() const = 0;
  // What is to be added to the count that translated code has at this address; nullopt: that is
  // none that stands for a state.
  virtual std::optional<int64_t> AdjustAt(uint64_t host) const { return std::nullopt; }
  // What a replay of that needs, and of what it executed before its program.
  virtual HostFeatures needed() const { return {}; }
  // A thread's recording has begun in `state`; the first one waits.
  virtual absl::Status OnBegin(const TraceWriter::ThreadState& state, ThreadLog* log) = 0;
  // `thread` has made a process by the call at `count`. True if that is recorded. Where the
  // recorder numbers it otherwise, `made` has that number afterwards.
  virtual bool OnChild(MadeProcess* made) = 0;
  // A program has been executed, by the call that led to `state`, which a segment begins with.
  virtual absl::Status OnExec(const TraceWriter::ThreadState& state, ThreadLog* log) = 0;
  // All threads stand still in `states`, in each of which a segment begins: a full keyframe. The
  // last one, whose log it is, has stopped the others.
  struct Stop {
    uint64_t stood_ns = 0;             // by now
    uint64_t trigger = 0, detail = 0;  // as in HsStanding
  };
  virtual absl::Status OnStanding(std::vector<TraceWriter::ThreadState> states, const Stop& stop,
                                  ThreadLog* log) {
    return absl::OkStatus();
  }
  // The page at `address`, as memory has it, which `thread` has as well. False: there is none.
  virtual bool ReadPage(pid_t thread, uint64_t address, uint8_t* bytes) const { return false; }
  // What the process executes.
  virtual std::string program() const = 0;
  // The process is about to end like this, as wait(2) reports it.
  virtual void OnStatus(int wait_status) = 0;
  // It has ended before the instruction at `pc`, while the thread goes on.
  virtual void OnLeft(HsEndReason reason, uint64_t pc) = 0;
  // The call has been made by a thread that waits if it may have changed the memory map, or has
  // had it read as `map_read` (MapReads): what it has changed is read, for OnCall. True: the thread
  // may go on.
  virtual bool ReadChange(int64_t number, const uint64_t* arguments, int64_t result,
                          uint64_t map_read) = 0;
  // The thread is in the state `count`, which the call that ReadChange was told of has led to.
  virtual absl::Status OnCall(uint64_t count, ThreadLog* log) = 0;
};

class ThreadStream;

// What they mean for the process's other threads.
class StreamedThreads {
 public:
  virtual ~StreamedThreads() = default;

  // `maker` has made `thread`, which is recorded, and writes into ring `ring`.
  virtual absl::Status OnThread(int32_t maker, pid_t thread, uint64_t ring) = 0;
  // An orderable event of `stream`, at the time stamp `time`, is going to be logged, or what it has
  // seen of memory by then.
  virtual void BeforeTurn(ThreadStream* stream, uint64_t time) = 0;
  // The same, and it is a turn of its own even if the last one was of the same thread.
  virtual void BeginTurn(ThreadStream* stream, uint64_t time) { BeforeTurn(stream, time); }
  // The thread that wrote into ring `ring` last; 0: none is known.
  virtual int32_t ThreadOf(uint64_t ring) const { return 0; }
  // The states of all threads that begin a segment where they stand still.
  virtual std::vector<TraceWriter::ThreadState> StandingStates() const { return {}; }
  // From the time stamp `time` to now.
  virtual uint64_t NsSince(uint64_t time) const { return 0; }
  // No other thread of the process is recorded.
  virtual bool IsOnly(const ThreadStream& stream) const { return false; }
  // The thread is about to log, as its turn, that the process executes another program: the others
  // end there.
  virtual void OnProgram() {}
};

class ThreadStream {
 public:
  // `maker`: the thread of its process that made it, 0 if none is recorded. `orderable`: its start
  // is, because something has happened before.
  ThreadStream(StreamedProcess* process, StreamedThreads* threads, ThreadLog* log,
               ThreadNotes* notes, int32_t maker, bool orderable)
      : process_(process),
        threads_(threads),
        log_(log),
        notes_(notes),
        maker_(maker),
        orderable_(orderable),
        pages_(&process->space(), &process->modules(), log) {}
  ThreadStream(const ThreadStream&) = delete;
  ThreadStream& operator=(const ThreadStream&) = delete;

  // Whether the entry is this thread's, and not that of one that has its ring before or after it.
  bool Accepts(const HsEntry& entry) const {
    return (entry.kind == HS_ENTRY_BEGIN) == (!begun_ || expects_program_);
  }
  // DataLoss: it is no entry that may come here.
  // `reader`: of its ring, where the thread waits if it does; may be null.
  absl::Status Consume(const HsEntry* entry, RingReader* reader = nullptr);
  // The thread is gone. If it did not end its recording itself, that ends with what was consumed.
  void OnGone();
  // Recording ends here, though the thread goes on.
  void Leave(const std::string& reason);

  // Whether the last thing it told is that it is about to execute a program.
  bool is_executing() const { return exec_.has_value(); }
  // A program has been executed, by `by` in the place of this thread: what comes next is handed
  // over from another ring, and begins with the new program's first state. It has no other threads.
  void ExpectProgram(const ThreadStream& by);

  // From the last state consumed on it is its turn, after that of another thread; at these times.
  void BeginSlice(uint64_t now_ns, uint64_t last_slice_end_ns) {
    notes_->Slice(count_, now_ns, last_slice_end_ns);
    turns_.Begin(count_);
  }
  // Logs what was kept back, because something of another thread is next.
  void FlushRun();

  // The state that it stands still in, if it does.
  std::optional<TraceWriter::ThreadState> standing() const;

  int32_t thread() const { return log_->thread(); }
  bool begun() const { return begun_; }
  bool ended() const { return ended_; }
  // Has ended though the thread goes on.
  bool left() const { return left_; }
  // The state in which the program that it executes now began.
  uint64_t first_count() const { return first_count_; }
  // The last state consumed.
  uint64_t count() const { return count_; }
  // The state, as entries number them, in which its segment began; nothing unless that should end
  // soon (SegmentWriter::IsLarge).
  std::optional<uint64_t> LargeSegment() const {
    if (ended_ || !log_->IsSegmentLarge()) return std::nullopt;
    return segment_count_ - first_count_;
  }
  // The number of the call that it is about to make in that state; 0: none has been reserved.
  uint64_t reserved_sequence() const { return reserved_; }

 private:
  std::optional<uint64_t> CountOf(const HsEntry& entry) const;
  absl::Status ConsumeRunning(const HsEntry* entry, RingReader* reader);
  absl::Status Begin(const HsState& state);
  uint8_t See(const HsEntry& entry);
  absl::Status AddPage(const HsPage& page);
  absl::Status AddLines(const HsLines& lines);
  absl::Status AddMapped(const HsMapped& mapped);
  absl::Status AddUsed(const HsUsed& used);
  void Reserve(uint64_t time);
  uint64_t TakeReserved(int64_t result);
  absl::Status AddCall(const HsCall& call, RingReader* reader);
  void NoteChild(const HsCall& call, int64_t result, uint64_t sequence);
  absl::Status AddExec(const HsCall& call);
  absl::Status BeginProgram(const HsState& state);
  absl::Status AddPatch(const HsPatch& patch);
  absl::Status AddSignal(const HsSignal& signal);
  void AddLocked(uint64_t time);
  absl::Status AddStatus(const HsStatus& status);
  void BeginSegment(const RegisterFile& registers);
  absl::Status EndSegment(const HsState& state);
  absl::Status Stand(const HsStanding& entry);

  StreamedProcess* const process_;
  StreamedThreads* const threads_;
  ThreadLog* const log_;
  ThreadNotes* const notes_;
  const int32_t maker_;
  const bool orderable_;
  SegmentPages pages_;
  bool begun_ = false;
  bool ended_ = false;
  bool left_ = false;
  // Of entries, to be added to their counts: a new program's begin anew.
  uint64_t first_count_ = 0;
  uint64_t count_ = 0;
  uint64_t segment_count_ = 0;  // in which its segment began
  RegisterFile end_registers_;  // if it has exited
  StateTurns turns_;
  std::optional<TraceWriter::ThreadState> standing_;
  struct Exec {
    int64_t number = 0;
    std::vector<uint64_t> arguments;
  };
  std::optional<Exec> exec_;  // see is_executing
  bool expects_program_ = false;
  uint64_t reserved_ = 0;  // see reserved_sequence
  // Of the order run that is kept back: the states, and the number of the first one.
  std::vector<uint64_t> run_;
  uint64_t run_sequence_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_STREAM_H_

// The records of a trace, as values. What they mean is specified in docs/trace-format.md.
//
// A thread's records move it through numbered states. State N is: the registers, and the private
// view with every import of count N applied. One transition leads from state N to state N+1: the
// SideEffect or Discontinuity recorded at count N if there is one, else the instruction at pc,
// emulated. So a count names one state, never two.

#ifndef HINDSIGHT_TRACEFMT_RECORDS_H_
#define HINDSIGHT_TRACEFMT_RECORDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/types/span.h"

namespace hindsight {

inline constexpr uint64_t kLineBytes = 64;
inline constexpr uint64_t kPageBytes = 4096;

// The address of the page that `address` is on.
constexpr uint64_t PageOf(uint64_t address) { return address & ~(kPageBytes - 1); }

// A register file is an array of 64-bit words; the manifest's registerLayout says which. The trace
// does not know what they are. See isa/registers.h for layout "amd64-v1".
using RegisterWords = std::vector<uint64_t>;

// The words of a register file that changed: ascending indices, and the new values.
struct RegisterPatch {
  std::vector<uint16_t> index;
  std::vector<uint64_t> value;
};

// The contents of a page, as far as they differ from what the view holds.
// Lines whose bit is not set in `line_mask` keep their contents, or, if `first`, are zero.
// If `module` >= 0 the page's base contents are the bytes of that module at `module_offset`
// (zeros after the end of the file) and lines in `line_mask` are applied on top.
struct PageImport {
  uint64_t address = 0;  // multiple of kPageBytes
  bool first = false;    // the view did not hold this page in this segment before
  int32_t module = -1;   // of TraceReader::modules()
  uint64_t module_offset = 0;
  uint64_t line_mask = 0;           // bit i: line i of the page follows in `lines`
  absl::Span<const uint8_t> lines;  // popcount(line_mask) * kLineBytes; borrowed
  // Bit i: line i is not new to the process: another of its threads had these bytes before, by
  // writing them or by importing them itself. A change by none of its threads is the kernel's or
  // another process's. Only searches for changes look at it.
  uint64_t known_mask = 0;
  // Some of the threads that knew them, as they were when they were imported: in the view of each
  // all of these lines were just so. The lines are in `line_mask`. At most 255.
  struct Shown {
    int32_t thread = 0;
    uint64_t lines = 0;

    bool operator==(const Shown&) const = default;
  };
  std::vector<Shown> shown;
  // In which of its thread's slices it came: 0 in one that had begun in an earlier state, otherwise
  // the number of slices that had begun in this state by then, 255 for more. (Where it is not
  // known, and in older traces, it is 1, whichever it was.)
  static constexpr uint8_t kFirstTurn = 1;
  uint8_t turn = kFirstTurn;
};

// One line of memory the thread could not have known.
struct LineImport {
  uint64_t address = 0;             // multiple of kLineBytes
  bool code = false;                // imported because it was executed
  absl::Span<const uint8_t> bytes;  // kLineBytes; borrowed
};

// The value a load returned from memory without stable content.
struct UncachedRead {
  uint64_t address = 0;
  uint8_t size = 0;
  uint64_t value = 0;
};

enum class SideEffectKind : uint16_t {
  kInstruction = 0,  // an instruction the emulator does not compute like the hardware
  kSyscall = 1,
};

// The transition at this count: registers get these values (pc included).
struct SideEffect {
  SideEffectKind kind = SideEffectKind::kInstruction;
  uint64_t sequence = 0;       // orderable event number; 0: not orderable
  bool retired = true;         // false: part of an instruction (a REP cut short by a fault)
  uint64_t register_hash = 0;  // XXH3-64 of the register file before the transition; 0: none
  RegisterPatch registers;
};

enum class DiscontinuityKind : uint16_t {
  kSignal = 0,  // delivery: registers are those at the handler's entry, or unchanged if ignored
  kSigreturn = 1,
  kException = 2,
  kExec = 3,
};

// A transition that moves control and retires no instruction.
struct Discontinuity {
  DiscontinuityKind kind = DiscontinuityKind::kSignal;
  uint64_t sequence = 0;
  uint64_t register_hash = 0;
  int32_t signal = 0;
  std::string siginfo;  // the 128 bytes of siginfo_t as the kernel gave them; may be empty
  RegisterPatch registers;
};

// Orderable instructions, emulated since the record before: the transition out of state counts[i]
// was orderable event first_sequence + i. No transition; ascending counts, all below the record's.
struct OrderRun {
  uint64_t first_sequence = 0;
  absl::Span<const uint64_t> counts;  // borrowed
};

// State N has registers of this hash. No transition.
struct RegisterHash {
  uint64_t hash = 0;
};

// From state N on the contents of this page are not known to the thread, until the next import of
// the page: the recorder stopped looking, and others may have written. Replay goes on with what the
// view holds; a debugger must not show it.
struct PageLeft {
  uint64_t address = 0;  // multiple of kPageBytes
};

// State N, before the transition at its count, has bytes of this hash at [address, address + size)
// of the view. No transition; only verification looks at it.
struct MemoryHash {
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  uint64_t hash = 0;  // XXH3-64
};

// From state N on the pages of this range hold the module's bytes from `module_offset` on (zeros
// after the end of the file), or zeros if `module` < 0: as far as the thread uses them, and until
// something else is imported or stored there. Readers make PageImports of it:
// ranges/range_expansion.h.
struct MappedRange {
  uint64_t address = 0;  // multiple of kPageBytes
  uint64_t bytes = 0;    // likewise, not 0
  int32_t module = -1;   // of TraceReader::modules()
  uint64_t module_offset = 0;
};

// Pages that the thread may have used in this segment since its beginning. A segment can have
// several of these: the union counts. `complete`: it is the last one, and together they have all.
struct UsedPages {
  bool complete = false;
  absl::Span<const uint64_t> pages;  // ascending multiples of kPageBytes; borrowed
};

// From state N on the view holds the page, as it was where the segment's reference segment (an
// earlier one of the thread) imported it first, if that import had no module. Readers make a
// PageImport of it: references/referenced_pages.h.
struct ReferencedPage {
  uint64_t address = 0;  // multiple of kPageBytes
};

// The segment ends in state N with these registers; the next segment, if any, begins there.
struct SegmentEnd {
  RegisterWords registers;
};

// Recording was interrupted here; the next segment does not continue this one.
struct Gap {
  std::string reason;
};

using RecordBody = std::variant<PageImport, LineImport, UncachedRead, SideEffect, Discontinuity,
                                RegisterHash, SegmentEnd, Gap, OrderRun, PageLeft, MemoryHash,
                                MappedRange, UsedPages, ReferencedPage>;

// `count` never decreases within a segment. Among the records of one count a transition is last.
struct Record {
  uint64_t count = 0;
  RecordBody body;
};

// A region of the process's address space, as /proc/PID/maps lists it.
struct MapRegion {
  uint64_t start = 0;
  uint64_t end = 0;
  uint32_t protection = 0;  // PROT_READ | PROT_WRITE | PROT_EXEC
  bool shared = false;
  uint64_t file_offset = 0;
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  uint64_t inode = 0;
  std::string name;     // path, [heap], [stack], [vdso], or empty
  int32_t module = -1;  // index into modules if the file's bytes are in the trace

  bool operator==(const MapRegion&) const = default;
};

enum class EventKind : uint16_t {
  kSyscall = 0,
  kSignal = 1,
  kMapChange = 2,
  kFullKeyframe = 3,
  kThreadStart = 4,
  kThreadExit = 5,
  kProcessExit = 6,
  kExec = 7,
  kFork = 8,
  kGap = 9,
  kSchedule = 10,
  kNote = 11,
  kSlice = 12,
  kThreadName = 13,
  kMemoryUnknown = 14,
  kFileChanged = 15,
  kMapPart = 16,
  kSnapshot = 17,
  kTrimmed = 18,
};

// How a child came to be: ProcessEvent::arguments[0] of a kFork.
enum class ForkKind : uint64_t { kFork = 0, kVfork = 1, kClone = 2 };

// kThreadStart: thread, count (its first state), sequence (it is orderable), number: the thread
// that made it, 0 if none; text: its name. kThreadExit: thread, count (its last state).
// kThreadName: thread, count, text: its name from now on.
// kFork: thread, count (after the system call), sequence, number of the system call, result: the
// child's pid; arguments: {ForkKind, 1 if the child is recorded}.
// kSlice: from here on `thread` runs: orderable events from `sequence` (this event itself) up to
// the next kSlice's are its own. count: the state it goes on from. arguments: {when it was resumed,
// in ns since the recording began; when the slice before ended, likewise; CPU or ~0}. A process of
// one thread need not have any. kSchedule: a note without influence on replay: the thread was seen
// on another CPU. arguments: {time in ns, CPU, CPU before}.

// kMemoryUnknown: the kernel or another process may have written to any memory up to here that the
// trace does not show to be written; text: why. kFileChanged: module `number` is no longer what its
// file holds, since some time before.

// kMapPart: the memory map changes, within some ranges only. arguments: start and end of each
// range, ascending, not empty, not overlapping; maps: all that is mapped there from now on,
// ascending, not overlapping, each region within one range. What was mapped there before is gone; a
// region that reaches over the border of a range keeps its other part. Readers reject an event that
// is not so.

// kSnapshot: full keyframe `number`, whose event this one follows, is a snapshot of a program that
// runs natively. thread: the one that asked for it, 0 if none; text: what it is called, lines of
// the form key=value. arguments: ns since the recording began; what asked (docs/trace-format.md);
// level, class and id of the point; the skew of the threads' stops and how long the process stood
// still, both in ns; bytes stored.

// kTrimmed: the trace has lost its oldest part (tracefmt/ring/trimmed_event.h). The first event of
// such a trace; full keyframe `number` is the first thing that it has.

// A process-level event, for listing and seeking without replay. Fields not meaningful for a kind
// are zero or empty.
struct ProcessEvent {
  EventKind kind = EventKind::kNote;
  uint64_t sequence = 0;  // 0: not orderable
  int32_t thread = 0;
  // The state the event leads to: for a system call or signal at count N, N + 1; for others the
  // state in which it holds.
  uint64_t count = 0;
  int64_t number = 0;  // system call, signal, keyframe number; exit status as wait(2) reports it
  std::vector<uint64_t> arguments;  // of a system call: six
  int64_t result = 0;               // of a system call; a child's pid
  std::string text;                 // siginfo bytes of a signal; note; reason
  std::vector<MapRegion> maps;      // kMapChange: the whole map from now on; kMapPart
};

// A file mapped by the program.
struct Module {
  std::string path;
  std::string build_id;  // raw bytes; empty if none
  std::string hash;      // lower-case hex XXH3-128 of the file's bytes: its name in modules/
  uint64_t size_bytes = 0;
  bool stored = false;  // its bytes are in the trace
};

// By index. There are gaps where modules went because nothing that is kept refers to them.
using ModuleList = std::map<int32_t, Module>;

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_RECORDS_H_

// Cpu: one guest thread - registers, private view, instruction count - on one Unicorn instance.
//
// The view pages in on demand: a page the view does not hold has no access rights on the host, so
// generated code that touches it faults, and the fault handler asks the Cpu's Pager. Accesses to
// pages held cost nothing extra. The first write to a page after ProtectWrites() asks the Pager,
// too.
//
// Exactness. Run() stops exactly - registers and memory are those of state count() - except where
// it returns kFault: then something happened inside a basic block at which the block cannot be
// stopped (a page the Pager refused, an exception, code that changes itself). The caller must bring
// the Cpu back to an exact earlier state, Run() to RunResult::block_count, and Step() from there:
// each step either completes or reports kFault itself with registers as before the step.
//
// Not copyable, not movable. Used by one host thread at a time, which may change between calls. It
// has many methods since it is the whole of a thread to its users: registers, view, execution,
// stops.

#ifndef HINDSIGHT_EMULATOR_CPU_CPU_H_
#define HINDSIGHT_EMULATOR_CPU_CPU_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "emulator/code/instruction.h"
#include "emulator/cpu/pager.h"
#include "emulator/cpu/watchpoints.h"
#include "emulator/view/view.h"
#include "isa/host_features.h"
#include "isa/memory_model.h"
#include "isa/registers.h"

namespace hindsight {

enum class Stop : uint8_t {
  kLimit,       // count() == limit (or, if not exact, the first block boundary at or above it)
  kBreakpoint,  // pc is at a breakpoint, not executed yet
  kSpecial,  // the instruction at pc is not for the Cpu: its policy is neither kEmulate nor kAssist
             // (see next()), or the host lacks what it needs (see features_lacking())
  kWatch,    // (Step only) the step changed or read a watched location
  kFault,    // inexact, see above
};

struct RunResult {
  Stop stop = Stop::kLimit;
  uint64_t block_count = 0;    // kFault: the exact count at the start of the block it happened in
  uint64_t fault_address = 0;  // kFault: where known, else 0
};

// States [from, to).
struct CountRange {
  uint64_t from = 0;
  uint64_t to = 0;
  bool operator==(const CountRange&) const = default;
};

// Silent hits of a watchpoint that are not to be noticed, since it is known what becomes of them:
// of stores to [address, address + size) by transitions out of `states`.
struct QuietStores {
  size_t index = 0;  // of the watchpoint
  uint64_t address = 0;
  uint64_t size = 0;
  CountRange states;
  bool operator==(const QuietStores&) const = default;
  // Whatever the state.
  bool Covers(const Watchpoints::Hit& hit) const {
    return index == hit.index && address <= hit.address && hit.address + hit.size <= address + size;
  }
};

// Hits counted while running on; for searches that want the last one.
struct HitLog {
  uint64_t breakpoint_hits = 0;
  uint64_t last_breakpoint_count = 0;  // exact: state whose pc is the breakpoint
  uint64_t watch_hits = 0;
  // The block in which a watched location was last hit began in this state and ends before
  // last_watch_block_end; run there and Step to find the instruction.
  uint64_t last_watch_block_count = 0;
  uint64_t last_watch_block_end = 0;
  // If not null (borrowed): all such blocks, ascending, those that lie close together as one. Who
  // goes back and notes states again loses what was noted from there on.
  std::vector<CountRange>* watch_blocks = nullptr;

  void AddWatchHit(CountRange block);
};

// How the Cpu executes, in instructions: it knows no records, threads or directions, so this is not
// what a user's run is asked with.
struct RunOptions {
  uint64_t limit = ~uint64_t{0};
  bool exact_limit = true;
  // Do not stop for a breakpoint at the very first instruction.
  bool skip_first_breakpoint = false;
  // Log breakpoint and watchpoint hits here instead of stopping at breakpoints.
  HitLog* log_hits = nullptr;
};

class Cpu {
 public:
  // `pager` is borrowed and must outlive the Cpu.
  static absl::StatusOr<std::unique_ptr<Cpu>> Create(Pager* pager);
  ~Cpu();
  Cpu(const Cpu&) = delete;
  Cpu& operator=(const Cpu&) = delete;

  // Registers and the count.
  const RegisterFile& registers();  // valid until the next non-const call
  void SetRegisters(const RegisterFile& registers);
  uint64_t pc();
  uint64_t count() const;
  void set_count(uint64_t count);

  // The view. Host pointer to the kPageBytes of `page`, made if there was none (then zero, kNone).
  // After writing through it, call ContentsChanged.
  uint8_t* HostPage(uint64_t page);
  PageRights rights(uint64_t page) const;  // as last set; kNone if never
  void SetRights(uint64_t page, PageRights rights);
  // Lowers every kReadWrite page among `pages` to kRead / sets all to kNone, in few system calls.
  // `pages` may be in any order.
  void ProtectWrites(absl::Span<const uint64_t> pages);
  void DropRights(absl::Span<const uint64_t> pages);
  // Drops the rights of `pages` and frees the memory of their contents: pointers to it (HostPage)
  // are void.
  void Release(absl::Span<const uint64_t> pages);
  // Frees the chunk of guest memory (View::kChunkBytes) at `base`. Requires: all its pages that
  // were ever held are released.
  void ReleaseChunk(uint64_t base);
  // Bytes of `page` were changed from outside: drops what was translated from them. Bit i of
  // `lines`: the i-th line changed.
  void ContentsChanged(uint64_t page, uint64_t lines = ~uint64_t{0});
  // Copies from the view regardless of rights; false unless every page is held (not kNone).
  bool ReadHeld(uint64_t address, absl::Span<uint8_t> out) const;

  // Prepares for another thread or program: all pages lose their rights, breakpoints, watchpoints
  // and the log of orderable instructions are removed, the count becomes 0, `pager` (borrowed)
  // takes over. Translations are kept: HostPage still shows the bytes they were made of, so a
  // caller that fills a page calls ContentsChanged only where bytes differ.
  void Recycle(Pager* pager);

  // Execution.
  RunResult Run(const RunOptions& options);
  // Executes one instruction (a whole REP). kLimit: done, count() is one more. Ignores breakpoints.
  RunResult Step();
  // From now on Run and Step append to `counts` (borrowed; null: they stop) the count of every
  // state from which an orderable instruction is executed. What the caller executes itself
  // (kSpecial) it logs itself. After kFault nothing at or above block_count is left in `counts`; a
  // caller that goes back drops what lies at or above the count it goes back to.
  void LogOrderable(MemoryModel model, std::vector<uint64_t>* counts);
  // From now on what the hardware refuses for its alignment (alignment.h) faults, as it need not in
  // a replay: there such an instruction is never executed. Not so where the address is computed, by
  // more than sums, in the block of the instruction: there only the first times the block is run
  // since the last such call. Blocks with such operands cost some ten nanoseconds more.
  void CheckAlignment();

  // The instruction at pc (pages code in). nullopt if its bytes cannot be read or executed.
  std::optional<Instruction> next();
  // The host features that the assisted instructions executed since Create or Recycle need.
  HostFeatures features_used() const;
  // After kSpecial: what the host lacks to execute the instruction at pc; else empty.
  HostFeatures features_lacking() const;
  // Treats the host as having only `features`.
  void SetHostFeatures(HostFeatures features);
  // From now on bridge instructions are executed by Unicorn also where they are stepped:
  // that makes no difference but speed, which a test checks.
  void LeaveBridgesToUnicorn();

  // Makes Run return as soon as possible, at an exact block boundary, with kLimit. Any thread and
  // signal handler may call it; it applies to one Run.
  void RequestStop();

  // Addresses that stop Run. Costs nothing while not hit.
  void SetBreakpoints(const absl::flat_hash_set<uint64_t>& addresses);
  // Watched locations. While any is set every memory access costs a few ns more. Run notes hits in
  // log_hits, or, without it, stops with kFault and block_count set: Step from there.
  void SetWatchpoints(const std::vector<Watchpoint>& watchpoints);
  // Until watchpoints are set anew.
  void SetQuiet(std::vector<QuietStores> quiet);
  // What the Step that returned kWatch hit: first, or first that is not silent.
  const Watchpoints::Hit& watch_hit() const;
  // What that Step wrote of watchpoints with on_store.
  const std::vector<Watchpoints::Hit>& stores() const;

  // A copy of everything but memory.
  struct SavedState {
    RegisterFile registers;
    uint64_t count = 0;
  };
  std::unique_ptr<SavedState> Save();
  void Restore(const SavedState& state);

 private:
  class Impl;
  explicit Cpu(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPU_CPU_H_

// Breakpoint instructions (int3) in the memory of a process that runs.
//
//   Set --> in memory  <--> TakeOut, PutBack (all threads stopped: nobody sees them meanwhile)
//
// A process of its own takes them out should this one be killed (BreakpointGuard). Not copyable.
// One host thread. `thread` is always one that lives, by which the memory is found.

#ifndef HINDSIGHT_RECORDER_PTRACE_WATCH_CODE_PLACES_H_
#define HINDSIGHT_RECORDER_PTRACE_WATCH_CODE_PLACES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/types/span.h"
#include "recorder/process/process_memory.h"
#include "recorder/ptrace/breakpoint_guard.h"

namespace hindsight {

class CodePlaces {
 public:
  CodePlaces() = default;
  CodePlaces(const CodePlaces&) = delete;
  CodePlaces& operator=(const CodePlaces&) = delete;

  // Exactly these are marked from now on, as far as they are mapped. Threads may run.
  void Set(pid_t thread, const std::set<uint64_t>& addresses);
  void TakeOut(pid_t thread);
  void PutBack(pid_t thread);
  // The one at `address`, for a step over it.
  void TakeOutOne(pid_t thread, uint64_t address);
  void PutBackOne(pid_t thread, uint64_t address);
  // Another program has taken the process's place.
  void Forget();
  // Takes them out of a child that fork has made.
  void Clean(pid_t child) const;

  // Whether a thread that stopped at an int3 there did so because of this: one that has just been
  // taken out counts.
  bool Knows(uint64_t address) const { return places_.count(address) != 0; }
  // Whether the int3 is in memory.
  bool IsIn(uint64_t address) const;
  bool empty() const { return places_.empty(); }
  // Places that cannot be marked: system calls, and memory that cannot be written.
  const std::set<uint64_t>& refused() const { return refused_; }

  // The bytes at `address` as the program has them; shorter at the end of what is mapped.
  std::vector<uint8_t> ReadCode(pid_t thread, uint64_t address, size_t size) const;
  // Whether one lies in [begin, end).
  bool AnyIn(uint64_t begin, uint64_t end) const;

 private:
  struct Place {
    uint8_t byte = 0;  // that belongs there
    bool wanted = false;
    bool in = false;
  };
  void Insert(const ProcMemFile& memory, uint64_t address, Place* place);
  void Guard(const ProcMemFile& memory, uint64_t address, uint8_t byte);

  std::map<uint64_t, Place> places_;
  std::set<uint64_t> refused_;
  std::unique_ptr<BreakpointGuard> guard_;
  bool unguarded_ = false;  // it could not be made
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WATCH_CODE_PLACES_H_

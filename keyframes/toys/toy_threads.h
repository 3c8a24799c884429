// A recording of a small program of three threads, made in memory and on disk, with every state of
// every thread known: the oracle that the timeline of several threads is tested against.
//
// The threads run one loop, take turns of random length, write the same variables, execute a locked
// instruction and make "system calls", some of which make threads. What a thread sees of the others
// comes to it by imports at the start of its turn, as a recorder would record them.

#ifndef HINDSIGHT_KEYFRAMES_TOYS_TOY_THREADS_H_
#define HINDSIGHT_KEYFRAMES_TOYS_TOY_THREADS_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "isa/registers.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

struct ToyThreadsOptions {
  uint32_t seed = 1;
  uint64_t iterations = 150;       // of each thread's loop, about 15 states each
  uint64_t longest_turn = 200;     // states
  uint64_t segment_states = 1200;  // about
  uint64_t keyframe_turns = 60;    // turns from one full keyframe to the next; 0: only the first
  bool order_runs = true;          // locked instructions are orderable
  // Damage, to be found.
  bool repeat_sequence = false;     // of a slice, once
  bool misplace_order_run = false;  // one of them names a system call
};

class ToyThreads {
 public:
  static constexpr uint64_t kCode = 0x400000;
  static constexpr uint64_t kShared = 0x600000;
  static constexpr uint64_t kRarePage = 0x700000;
  static constexpr int32_t kMain = 20;
  static constexpr int32_t kSecond = 31;  // made by the first
  static constexpr int32_t kThird = 12;   // made by the second, ends last but one
  // Variables of 8 bytes, each in a line of its own.
  static constexpr std::array<uint64_t, 5> kVariables = {
      kShared,        // written by all, in every iteration
      kShared + 64,   // by all, now and then
      kShared + 128,  // by all, with a lock
      kShared + 192,  // by system calls
      kRarePage,      // by all, rarely; its page is in few views
  };
  using Values = std::array<uint64_t, kVariables.size()>;

  explicit ToyThreads(const ToyThreadsOptions& options = {});
  ~ToyThreads();
  ToyThreads(const ToyThreads&) = delete;
  ToyThreads& operator=(const ToyThreads&) = delete;

  const TraceReader* trace() const { return reader_.get(); }
  const std::string& directory() const { return directory_; }

  // The truth, moment by moment: who makes the transition out of it, from which state; what the
  // variables are as far as any thread knows, and which of them the transition changes.
  struct Moment {
    int32_t thread = 0;
    uint64_t count = 0;
    uint64_t pc = 0;
    Values values = {};
    std::array<bool, kVariables.size()> changes = {};
    bool is_syscall = false;
  };
  // The last one is the end: no transition is made there.
  const std::vector<Moment>& moments() const { return moments_; }
  uint64_t end_moment() const { return moments_.size() - 1; }
  uint64_t last_sequence() const { return trace()->manifest().end_sequence; }
  // By state, from begin_count() on.
  const RegisterFile& registers(int32_t thread, uint64_t count) const {
    return registers_.at(thread)[count - begin_count(thread)];
  }
  static uint64_t begin_count(int32_t thread) { return thread == kMain ? 1000 : 0; }
  // The state of `thread`: its first one before its first turn.
  uint64_t CountAt(int32_t thread, uint64_t moment) const;
  // Moments from which threads live, and to which.
  const std::map<int32_t, uint64_t>& starts() const { return starts_; }
  const std::map<int32_t, uint64_t>& ends() const { return ends_; }

  // Addresses of labels in the program.
  static uint64_t LoopHead();
  static uint64_t Callee();
  static uint64_t LockedInstruction();

 private:
  std::string directory_;
  std::unique_ptr<TraceReader> reader_;
  std::vector<Moment> moments_;
  std::map<int32_t, std::vector<RegisterFile>> registers_;
  std::map<int32_t, uint64_t> starts_;
  std::map<int32_t, uint64_t> ends_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TOYS_TOY_THREADS_H_

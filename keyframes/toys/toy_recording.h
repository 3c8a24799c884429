// A recording of a small program made in memory and on disk, with every state known: the oracle
// that replay and time travel are tested against.
//
// The program is a loop of a few dozen instructions that loads, stores, calls, runs REP
// instructions, makes "system calls" (a toy kernel answers them, and writes to memory) and gets
// signals now and then. It is cut into segments.

#ifndef HINDSIGHT_KEYFRAMES_TOYS_TOY_RECORDING_H_
#define HINDSIGHT_KEYFRAMES_TOYS_TOY_RECORDING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "isa/registers.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

struct ToyOptions {
  uint64_t iterations = 300;       // of the loop, about 45 states each
  uint64_t segment_states = 2500;  // about
  uint64_t signal_every = 0;       // iterations; 0: no signals
  bool full_keyframes = false;     // at every third segment
  bool threads_at_once = false;    // as the recorder does it that lets them run so
  bool avx = false;                // one instruction in the loop has its AVX encoding
  // Damage, to be found by replay.
  bool spoil_hash = false;    // of the middle system call
  bool spoil_end = false;     // a register at the end of segment 1
  bool drop_imports = false;  // of the data page, in segment 1
};

class ToyRecording {
 public:
  static constexpr uint64_t kCode = 0x400000;
  static constexpr uint64_t kData = 0x600000;    // counters, see the program
  static constexpr uint64_t kBuffer = 0x700000;  // written by system calls only, at first unread
  static constexpr uint64_t kStackTop = 0x800000;
  // Addresses of interest in kData.
  static constexpr uint64_t kSum = kData;             // changes in every iteration
  static constexpr uint64_t kRare = kData + 8;        // changes in every 32nd iteration
  static constexpr uint64_t kSame = kData + 16;       // written often, always the same value
  static constexpr uint64_t kString = kData + 0x80;   // filled by rep stosb
  static constexpr uint64_t kAnswer = kData + 0x100;  // written by the toy kernel
  static constexpr int kSignal = 14;
  static constexpr int32_t kThread = 7;

  explicit ToyRecording(const ToyOptions& options = {});
  ~ToyRecording();
  ToyRecording(const ToyRecording&) = delete;
  ToyRecording& operator=(const ToyRecording&) = delete;

  const TraceReader* trace() const { return reader_.get(); }

  // The truth. State i is states()[i]; its count is i + begin_count().
  struct State {
    RegisterFile registers;
    uint64_t sum = 0, rare = 0, same = 0, answer = 0, buffer = 0, string = 0;  // 8 bytes each
    bool signal_next = false;
  };
  const std::vector<State>& states() const { return states_; }
  uint64_t begin_count() const { return 1000; }
  uint64_t end_count() const { return begin_count() + states_.size() - 1; }
  const State& at(uint64_t count) const { return states_[count - begin_count()]; }
  const std::vector<uint64_t>& syscall_counts() const { return syscalls_; }  // before the call
  const std::vector<uint64_t>& signal_counts() const { return signals_; }

  // Addresses of labels in the program.
  static uint64_t LoopHead();
  static uint64_t Callee();
  static uint64_t Handler();
  static uint64_t SyscallInstruction();

 private:
  std::string directory_;
  std::unique_ptr<TraceReader> reader_;
  std::vector<State> states_;
  std::vector<uint64_t> syscalls_;
  std::vector<uint64_t> signals_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TOYS_TOY_RECORDING_H_

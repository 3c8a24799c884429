// Records what a program of some threads could have done, as fast as it can: for tests of rings.
// What goes wrong fails the test.
//
// Not copyable. One host thread at a time.

#ifndef HINDSIGHT_TRACEFMT_SAMPLES_RING_RECORDER_H_
#define HINDSIGHT_TRACEFMT_SAMPLES_RING_RECORDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "tracefmt/records.h"
#include "tracefmt/ring/ring_limits.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

class Recorder {
 public:
  // Of the three pages that a full keyframe has the first one.
  static constexpr uint64_t kPage = 0x10000;

  Recorder(const std::string& directory, const RingLimits& ring);
  // Borrows `writer`.
  explicit Recorder(TraceWriter* writer);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Each thread executes a little, and ends its segment. A full keyframe if one is due.
  void Round();
  // The same, but only the first thread executes, and makes no system call.
  void RoundOfFirst();
  // 20 system calls.
  void Execute(int32_t thread);
  void Begin(int32_t thread);
  void End(int32_t thread);
  // The thread of this number has a new life.
  void BeginAgain(int32_t thread);
  void Keyframe();
  void Finish();

  TraceWriter* writer() { return writer_; }
  uint64_t keyframes() const { return keyframe_; }
  // Random bytes given to be written.
  uint64_t written() const { return written_; }
  // The page of a full keyframe that `value` says what it holds: its number, 7, or a third of it.
  static std::string PageWith(uint64_t value);

 private:
  struct State {
    uint64_t count = 0;
    uint64_t segment = 0;
  };

  void Start();
  RegisterWords Words(const State& state) { return {state.count, 1, 2, 3}; }
  void BeginSegment(int32_t thread, State* state);

  std::unique_ptr<TraceWriter> owned_;
  TraceWriter* writer_;
  std::map<int32_t, State> threads_;
  std::mt19937_64 random_{1};
  uint64_t sequence_ = 0, keyframe_ = 0, written_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_SAMPLES_RING_RECORDER_H_

// Runs on the timeline of several threads stop where brute force finds the stops.

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>

#include "keyframes/timeline/timeline_threads_fixture.h"

namespace hindsight {
namespace {

// Stops, and where brute force finds them.
struct Stops {
  std::vector<uint64_t> breakpoints;
  std::vector<size_t> watched;  // variables
  uint64_t modulus = 1;         // conditional: r12 must be a multiple
  std::optional<int32_t> only;

  bool ConditionIsTrue(int32_t thread, uint64_t count) const {
    return modulus == 1 || Toy().registers(thread, count).gpr[kR12] % modulus == 0;
  }
  bool Breaks(uint64_t m) const {
    const ToyThreads::Moment& truth = Toy().moments()[m];
    return m < Toy().end_moment() && (!only || *only == truth.thread) &&
           std::find(breakpoints.begin(), breakpoints.end(), truth.pc) != breakpoints.end() &&
           ConditionIsTrue(truth.thread, truth.count);
  }
  // Whether the transition out of `m` is a hit whose condition holds in the state before or after.
  bool Hits(uint64_t m, bool after) const {
    const ToyThreads::Moment& truth = Toy().moments()[m];
    return (!only || *only == truth.thread) &&
           std::any_of(watched.begin(), watched.end(),
                       [&](size_t v) { return truth.changes[v]; }) &&
           ConditionIsTrue(truth.thread, truth.count + (after ? 1 : 0));
  }
  struct Expected {
    uint64_t moment = 0;
    StopKind kind = StopKind::kEnd;
    int32_t thread = 0;
  };
  Expected Next(uint64_t from, bool leave) const {
    for (uint64_t m = from; m < Toy().end_moment(); ++m) {
      if (m > from && Hits(m - 1, true)) {
        return {m, StopKind::kWatchpoint, Toy().moments()[m - 1].thread};
      }
      if ((m > from || !leave) && Breaks(m)) {
        return {m, StopKind::kBreakpoint, Toy().moments()[m].thread};
      }
    }
    const uint64_t end = Toy().end_moment();
    if (end > from && Hits(end - 1, true)) {
      return {end, StopKind::kWatchpoint, Toy().moments()[end - 1].thread};
    }
    return {end, StopKind::kEnd, 0};
  }
  Expected Previous(uint64_t from) const {
    for (uint64_t m = from; m-- > 0;) {
      if (Hits(m, false)) return {m, StopKind::kWatchpoint, Toy().moments()[m].thread};
      if (Breaks(m)) return {m, StopKind::kBreakpoint, Toy().moments()[m].thread};
    }
    return {0, StopKind::kBegin, 0};
  }
  RunRequest Request(Timeline* timeline) const {
    RunRequest request;
    request.stop_for_signal = [](int) { return false; };
    std::function<bool(int32_t)> condition;
    if (modulus != 1) {
      condition = [timeline, this](int32_t thread) {
        return timeline->registers(thread)->gpr[kR12] % modulus == 0;
      };
    }
    for (uint64_t address : breakpoints) {
      request.breakpoints.push_back({.address = address, .condition = condition});
    }
    for (size_t v : watched) {
      request.watchpoints.push_back(
          {.address = ToyThreads::kVariables[v], .length = 8, .condition = condition});
    }
    if (only) {
      request.only_thread = true;
      request.thread = *only;
    }
    return request;
  }
};

class RunThreadsTest : public TimelineThreadsTest {
 protected:
  void Check(const Stops& stops, uint64_t from, bool forward) {
    Seek(from);
    RunRequest request = stops.Request(timeline_.get());
    request.direction = forward ? Direction::kForward : Direction::kBackward;
    request.leave_first_breakpoint = true;
    const Stops::Expected expected = forward ? stops.Next(from, true) : stops.Previous(from);
    const RunStop stop = Run(request);
    ASSERT_EQ(moment(), expected.moment) << "from " << from << (forward ? " forward" : " backward");
    ASSERT_EQ(stop.kind, expected.kind);
    if (expected.thread != 0) {
      ASSERT_EQ(stop.thread, expected.thread);
    }
    ExpectTruth();
  }
};

TEST_F(RunThreadsTest, AWriteIsFoundInTheThreadThatMadeIt) {
  for (size_t v = 0; v < kVariableCount; ++v) {
    SCOPED_TRACE(v);
    for (bool forward : {false, true}) {
      uint64_t from = forward ? 0 : Toy().end_moment();
      for (int i = 0; i < 60; ++i) {
        Check({.watched = {v}}, from, forward);
        if (HasFatalFailure()) return;
        if (moment() == from) break;
        from = moment();
      }
    }
  }
}

TEST_F(RunThreadsTest, BreakpointsStopWhicheverThreadComes) {
  for (bool forward : {false, true}) {
    uint64_t from = forward ? 0 : Toy().end_moment();
    for (int i = 0; i < 200; ++i) {
      Check({.breakpoints = {ToyThreads::Callee()}}, from, forward);
      if (HasFatalFailure()) return;
      from = moment();
    }
  }
}

TEST_F(RunThreadsTest, RandomStopsAreFoundWhereBruteForceFindsThem) {
  const uint64_t addresses[] = {ToyThreads::LoopHead(), ToyThreads::Callee(),
                                ToyThreads::LockedInstruction()};
  for (int i = 0; i < 250; ++i) {
    SCOPED_TRACE(i);
    Stops stops;
    if (Coin()) stops.breakpoints.push_back(addresses[Between(0, 2)]);
    for (size_t v = 0; v < kVariableCount; ++v) {
      if (Between(0, 3) == 0) stops.watched.push_back(v);
    }
    if (Coin()) stops.modulus = Between(2, 60);
    const uint64_t from = Between(1, Toy().end_moment() - 1);
    if (Between(0, 3) == 0) stops.only = Toy().moments()[from].thread;
    Check(stops, from, Coin());
    if (HasFatalFailure()) return;
  }
}

TEST_F(RunThreadsTest, ThreadsStopWhereTheyStartAndEnd) {
  RunRequest request;
  request.stop_for_threads = true;
  std::vector<std::pair<uint64_t, int32_t>> expected;
  for (const auto& [thread, start] : Toy().starts()) {
    if (start > 0) expected.push_back({start, thread});
  }
  for (const auto& [thread, end] : Toy().ends()) expected.push_back({end, thread});
  std::sort(expected.begin(), expected.end());
  for (const auto& [there, thread] : expected) {
    const RunStop stop = Run(request);
    ASSERT_EQ(moment(), there);
    EXPECT_EQ(stop.thread, thread);
    EXPECT_TRUE(timeline_->IsAlive(thread));
  }
  EXPECT_EQ(Run(request).kind, StopKind::kEnd);
  request.direction = Direction::kBackward;
  for (size_t i = expected.size(); i-- > 0;) {
    if (expected[i].first == Toy().end_moment()) continue;  // it is there already
    const RunStop stop = Run(request);
    ASSERT_EQ(moment(), expected[i].first);
    EXPECT_EQ(stop.thread, expected[i].second);
  }
  EXPECT_EQ(Run(request).kind, StopKind::kBegin);
}

TEST_F(RunThreadsTest, SystemCallsOfAllThreadsStop) {
  RunRequest request;
  request.stop_for_syscall = [](int64_t) { return true; };
  std::vector<uint64_t> calls;
  for (uint64_t m = 0; m < Toy().end_moment(); ++m) {
    if (Toy().moments()[m].is_syscall) calls.push_back(m);
  }
  for (uint64_t call : calls) {
    RunStop stop = Run(request);
    ASSERT_EQ(stop.kind, StopKind::kSyscallEntry);
    ASSERT_EQ(moment(), call);
    ASSERT_EQ(stop.thread, Toy().moments()[call].thread);
    ASSERT_EQ(Run(request).kind, StopKind::kSyscallReturn);
    ASSERT_EQ(moment(), call + 1);
  }
  EXPECT_EQ(Run(request).kind, StopKind::kEnd);
  request.direction = Direction::kBackward;
  for (size_t i = calls.size(); i-- > 0;) {
    if (calls[i] + 1 != Toy().end_moment()) {  // it is there already
      ASSERT_EQ(Run(request).kind, StopKind::kSyscallReturn);
      ASSERT_EQ(moment(), calls[i] + 1);
    }
    ASSERT_EQ(Run(request).kind, StopKind::kSyscallEntry);
    ASSERT_EQ(moment(), calls[i]);
  }
  EXPECT_EQ(Run(request).kind, StopKind::kBegin);
}

TEST(RunThreads, AtCallsOfTwoThreadsThatMeetBothAreStoppedAt) {
  const ToyThreads toy(AnyOptions(630));  // one in which they do
  const auto timeline = *Timeline::Open(toy.trace());
  RunRequest forward, backward;
  forward.stop_for_syscall = backward.stop_for_syscall = [](int64_t) { return true; };
  backward.direction = Direction::kBackward;
  const auto expect = [&](const RunRequest& request, StopKind kind, uint64_t moment) {
    const auto stop = timeline->Run(request);
    ASSERT_TRUE(stop.ok()) << stop.status();
    EXPECT_EQ(stop->kind, kind);
    EXPECT_EQ(stop->thread,
              toy.moments()[kind == StopKind::kSyscallEntry ? moment : moment - 1].thread);
    EXPECT_EQ(timeline->moment(), moment);
  };
  int met = 0;
  for (uint64_t m = 1; m + 1 < toy.end_moment(); ++m) {
    if (!toy.moments()[m - 1].is_syscall || !toy.moments()[m].is_syscall) continue;
    ++met;
    ASSERT_TRUE(timeline->SeekTo(m - 1).ok());
    expect(forward, StopKind::kSyscallReturn, m);
    expect(forward, StopKind::kSyscallEntry, m);
    expect(backward, StopKind::kSyscallReturn, m);
    expect(backward, StopKind::kSyscallEntry, m - 1);
    // Wherever else one comes from, the call ahead is being made.
    ASSERT_TRUE(timeline->SeekTo(m).ok());
    expect(forward, StopKind::kSyscallReturn, m + 1);
  }
  EXPECT_GT(met, 0);
}

TEST_F(RunThreadsTest, AStepOfOneThreadTakesTheOthersAlong) {
  for (int i = 0; i < 60; ++i) {
    const uint64_t from = Between(1, Toy().end_moment() - 1);
    Seek(from);
    const std::vector<int32_t> threads = timeline_->threads();
    RunRequest request;
    request.step = true;
    request.thread = threads[Between(0, threads.size() - 1)];
    request.direction = Coin() ? Direction::kForward : Direction::kBackward;
    const bool forward = request.direction == Direction::kForward;
    const uint64_t count = timeline_->count(request.thread);
    if (count == (forward ? timeline_->thread_state(request.thread).end_count()
                          : timeline_->thread_state(request.thread).begin_count())) {
      continue;
    }
    const RunStop stop = Run(request);
    EXPECT_EQ(stop.kind, StopKind::kStep);
    EXPECT_EQ(stop.thread, request.thread);
    ASSERT_EQ(timeline_->count(request.thread), forward ? count + 1 : count - 1);
    ExpectTruth();
    if (HasFatalFailure()) return;
  }
}

TEST_F(RunThreadsTest, AStepStopsForABreakpointAnotherThreadComesTo) {
  // From the end of a turn, a step of the thread that just left off passes the others' turns.
  int met = 0;
  for (uint64_t m = 1; m < Toy().end_moment() && met < 10; ++m) {
    const int32_t thread = Toy().moments()[m - 1].thread;
    if (thread == Toy().moments()[m].thread || !timeline_->process().threads().IsAlive(thread, m)) {
      continue;
    }
    // One that makes no more steps leaves them to the others.
    const uint64_t last = timeline_->thread_state(thread).end_count();
    if (timeline_->schedule().CountAt(thread, m) == last) continue;
    Stops stops{.breakpoints = {ToyThreads::LoopHead()}};
    const Stops::Expected expected = stops.Next(m, true);
    if (expected.thread == thread || expected.thread == 0) continue;
    if (timeline_->schedule().CountAt(thread, expected.moment) !=
        timeline_->schedule().CountAt(thread, m)) {
      continue;
    }
    Seek(m);
    RunRequest request = stops.Request(timeline_.get());
    request.step = true;
    request.thread = thread;
    request.leave_first_breakpoint = true;
    RunStop stop = Run(request);
    ASSERT_EQ(stop.kind, StopKind::kBreakpoint);
    ASSERT_EQ(stop.thread, expected.thread);
    ASSERT_EQ(moment(), expected.moment);
    Seek(m);
    request.only_thread = true;
    stop = Run(request);
    ASSERT_EQ(stop.thread, thread);
    ++met;
  }
  EXPECT_GE(met, Options().longest_turn <= 200 ? 3 : 1);
}

TEST_F(RunThreadsTest, AnInterruptStopsAtOnce) {
  std::atomic<bool> interrupt{true};
  Seek(Toy().end_moment() - 1);
  RunRequest request = Stops{.breakpoints = {0x1234}}.Request(timeline_.get());
  request.interrupt = &interrupt;
  request.direction = Direction::kBackward;
  EXPECT_EQ(Run(request).kind, StopKind::kInterrupted);
  EXPECT_EQ(moment(), Toy().end_moment() - 1);
  request.direction = Direction::kForward;
  Seek(5);
  EXPECT_EQ(Run(request).kind, StopKind::kInterrupted);
  ExpectTruth();
}

}  // namespace
}  // namespace hindsight

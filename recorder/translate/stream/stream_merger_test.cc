#include "recorder/translate/stream/stream_merger.h"

#include <unistd.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/log/fake_trace_writer.h"
#include "recorder/process/scheduling.h"

namespace hindsight {
namespace {

constexpr uint64_t kCapacity = 1 << 16;

class NoProcess final : public StreamedProcess {
 public:
  explicit NoProcess(TraceWriter* writer) : modules_(writer, "", 1) {}
  const AddressSpace& space() const override { return space_; }
  const ModuleTable& modules() const override { return modules_; }
  std::shared_ptr<const ExecutedPages> code() const override { return nullptr; }
  absl::Status OnBegin(const TraceWriter::ThreadState&, ThreadLog*) override {
    return absl::OkStatus();
  }
  bool OnChild(MadeProcess*) override { return false; }
  absl::Status OnExec(const TraceWriter::ThreadState& state, ThreadLog* log) override {
    return absl::OkStatus();
  }
  std::string program() const override { return "/bin/new"; }
  void OnStatus(int) override {}
  void OnLeft(HsEndReason, uint64_t) override {}
  bool ReadChange(int64_t, const uint64_t*, int64_t, uint64_t) override { return changes_map; }
  absl::Status OnCall(uint64_t, ThreadLog*) override {
    if (on_call) on_call();
    return absl::OkStatus();
  }

  bool changes_map = false;       // all calls do
  std::function<void()> on_call;  // may be empty

 private:
  AddressSpace space_;
  ModuleTable modules_;
};

class NoThreads final : public StreamedThreads {
 public:
  absl::Status OnThread(int32_t, pid_t, uint64_t) override { return absl::OkStatus(); }
  void BeforeTurn(ThreadStream*, uint64_t) override {}
};

// A thread with its ring, and this side of it.
struct Thread {
  Thread(StreamedProcess* process, TraceWriter* writer, int32_t number, Sequence* sequence)
      : memory(HS_RING_HEADER_BYTES + kCapacity),
        ring(reinterpret_cast<HsRing*>(memory.data())),
        reader(ring, kCapacity),
        log(writer, number, sequence),
        scheduling(getpid(), getpid()),
        notes(&log, &scheduling),
        stream(process, &no_threads, &log, &notes, 0, false) {
    ring->capacity = kCapacity;
  }

  bool Write(uint16_t kind, uint64_t count, uint64_t time) {
    const bool call = kind == HS_ENTRY_CALL;
    HsEntry* const entry = HsRingReserve(
        ring, call ? sizeof(HsCall) + sizeof(HsChange) : static_cast<uint32_t>(sizeof(HsState)));
    if (entry == nullptr) return false;
    entry->kind = kind;
    entry->count = count;
    entry->time = time;
    if (call) {
      auto* const made = reinterpret_cast<HsCall*>(entry);
      made->number = 39;
      made->size = 1;
      made->changes[0] = {0, time};  // the result tells when it was
    }
    HsRingCommit(ring);
    return true;
  }

  std::vector<uint8_t> memory;
  HsRing* const ring;
  RingReader reader;
  ThreadLog log;
  ThreadScheduling scheduling;
  ThreadNotes notes;
  NoThreads no_threads;
  ThreadStream stream;
};

class StreamMergerTest : public testing::Test {
 protected:
  Thread& AddThread() {
    threads_.emplace_back(&process_, &writer_, static_cast<int32_t>(threads_.size() + 1),
                          &sequence_);
    merger_.Add(&threads_.back().reader, &threads_.back().stream);
    EXPECT_TRUE(threads_.back().Write(HS_ENTRY_BEGIN, 0, 0));
    return threads_.back();
  }
  // When the system calls in the trace were, in its order.
  std::vector<int64_t> Times() const {
    std::vector<int64_t> times;
    for (const ProcessEvent& event : writer_.events) {
      if (event.kind == EventKind::kSyscall) times.push_back(event.result);
    }
    return times;
  }

  FakeTraceWriter writer_;
  NoProcess process_{&writer_};
  Sequence sequence_;
  std::list<Thread> threads_;
  std::atomic<uint64_t> clock_ = 1'000'000;
  StreamMerger merger_{[this] { return clock_.load(); }};
};

TEST_F(StreamMergerTest, WhileSomebodyWaitsNobodyMayBeFarAhead) {
  Thread& a = AddThread();
  Thread& b = AddThread();
  ASSERT_TRUE(merger_.Drain().ok());
  EXPECT_EQ(b.ring->most_behind, 0u);
  a.ring->awaited = 1;
  ASSERT_TRUE(merger_.Drain().ok());
  EXPECT_NE(b.ring->most_behind, 0u);
  a.ring->awaited = 0;
  clock_ += uint64_t{1} << 40;
  ASSERT_TRUE(merger_.Drain().ok());
  EXPECT_EQ(b.ring->most_behind, 0u) << "long since then";
  merger_.ExpectWaiting();
  ASSERT_TRUE(merger_.Drain().ok());
  EXPECT_NE(b.ring->most_behind, 0u);
}

TEST_F(StreamMergerTest, WhoWaitsForHimselfMayBeAsFarAsThereIsRoom) {
  Thread& only = AddThread();
  only.ring->awaited = 1;
  ASSERT_TRUE(merger_.Drain().ok());
  EXPECT_EQ(only.ring->most_behind, 0u);
}

TEST_F(StreamMergerTest, EntriesOfSeveralThreadsComeInTheOrderOfTheirTimes) {
  Thread& a = AddThread();
  Thread& b = AddThread();
  a.Write(HS_ENTRY_CALL, 1, 10);
  a.Write(HS_ENTRY_CALL, 2, 40);
  b.Write(HS_ENTRY_CALL, 1, 20);
  b.Write(HS_ENTRY_CALL, 2, 30);
  EXPECT_TRUE(*merger_.Drain());
  EXPECT_EQ(Times(), (std::vector<int64_t>{10, 20, 30, 40}));
  EXPECT_FALSE(*merger_.Drain());
}

// What its call has changed is read by then; the rest takes longer.
TEST_F(StreamMergerTest, AThreadThatWaitsGoesOnOnceItsChangeIsRead) {
  Thread& a = AddThread();
  std::vector<bool> waits;
  process_.on_call = [&] { waits.push_back(a.ring->tail != a.ring->head); };
  for (const bool changes : {false, true}) {
    process_.changes_map = changes;
    a.Write(HS_ENTRY_CALL, 1 + waits.size(), 10 * (1 + waits.size()));
    EXPECT_TRUE(*merger_.Drain());
  }
  EXPECT_EQ(waits, (std::vector<bool>{true, false}));
}

TEST_F(StreamMergerTest, WhatMayComeAfterAnEarlierOneWaits) {
  Thread& a = AddThread();
  Thread& b = AddThread();
  a.Write(HS_ENTRY_CALL, 1, 10);
  b.ring->writing = 1;  // it may have looked at the clock before
  ASSERT_TRUE(merger_.Drain().ok());
  EXPECT_TRUE(Times().empty());
  b.Write(HS_ENTRY_CALL, 1, 9);
  b.ring->writing = 0;
  ASSERT_TRUE(merger_.Drain().ok());
  EXPECT_EQ(Times(), (std::vector<int64_t>{9, 10}));
}

TEST_F(StreamMergerTest, WhoHasBeenKilledHoldsNobodyUp) {
  Thread& a = AddThread();
  Thread& b = AddThread();
  a.Write(HS_ENTRY_CALL, 1, 10);
  b.ring->writing = 1;  // killed there
  merger_.NoteGone(&b.stream);
  ASSERT_TRUE(merger_.Drain().ok());
  EXPECT_EQ(Times().size(), 1u);
  EXPECT_TRUE(merger_.IsDrained(&b.stream));
}

TEST_F(StreamMergerTest, WhoHasBeenStoppedHoldsNobodyUpForLong) {
  Thread& a = AddThread();
  Thread& b = AddThread();
  a.Write(HS_ENTRY_CALL, 1, 10);
  b.ring->writing = 1;
  ASSERT_TRUE(merger_.Drain().ok());
  EXPECT_TRUE(Times().empty());
  clock_ += 1'000'000'000;
  ASSERT_TRUE(merger_.Drain().ok());
  EXPECT_EQ(Times().size(), 1u);
}

// The call has not begun before its stamp is in the ring: nobody can have noticed it.
TEST_F(StreamMergerTest, WhoHasBeenStoppedComesLateButBeforeWhatItCauses) {
  Thread& a = AddThread();
  Thread& b = AddThread();
  a.Write(HS_ENTRY_CALL, 1, 10);
  b.ring->writing = 1;
  ASSERT_TRUE(merger_.Drain().ok());
  clock_ += 1'000'000'000;
  ASSERT_TRUE(merger_.Drain().ok());
  b.Write(HS_ENTRY_REACHED, 1, 9);
  b.ring->writing = 0;
  a.Write(HS_ENTRY_CALL, 2, clock_ + 20);  // the effect
  clock_ += 100;
  ASSERT_TRUE(merger_.Drain().ok());
  b.Write(HS_ENTRY_CALL, 1, clock_);
  ASSERT_TRUE(merger_.Drain().ok());
  const ProcessEvent& cause = writer_.events.back();
  const ProcessEvent& effect = *std::prev(writer_.events.end(), 2);
  EXPECT_EQ(cause.thread, 2);
  EXPECT_EQ(cause.sequence, 2u);
  EXPECT_EQ(effect.sequence, 3u);
}

TEST_F(StreamMergerTest, WhatComesAfterTheEndIsAnotherThreads) {
  Thread& a = AddThread();
  a.Write(HS_ENTRY_END, 1, 10);
  a.Write(HS_ENTRY_BEGIN, 0, 30);
  a.Write(HS_ENTRY_CALL, 1, 40);
  ASSERT_TRUE(merger_.Drain().ok());
  EXPECT_TRUE(a.stream.ended());
  EXPECT_TRUE(Times().empty());
  Thread& b = threads_.emplace_back(&process_, &writer_, 2, &sequence_);
  merger_.Add(&a.reader, &b.stream);
  ASSERT_TRUE(merger_.Drain().ok());
  EXPECT_EQ(Times(), (std::vector<int64_t>{40}));
}

TEST_F(StreamMergerTest, WhoBeginsInTheRingOfOneThatHasVanishedTakesItsPlace) {
  Thread& a = AddThread();
  a.Write(HS_ENTRY_CALL, 1, 10);
  ASSERT_TRUE(merger_.Drain().ok());
  Thread& b = threads_.emplace_back(&process_, &writer_, 2, &sequence_);
  merger_.Add(&a.reader, &b.stream);
  a.Write(HS_ENTRY_CALL, 2, 20);
  a.Write(HS_ENTRY_BEGIN, 0, 30);
  a.Write(HS_ENTRY_CALL, 1, 40);
  ASSERT_TRUE(merger_.Drain().ok());
  EXPECT_EQ(Times(), (std::vector<int64_t>{10, 20, 40}));
  EXPECT_EQ(a.stream.count(), 3u);
  EXPECT_EQ(b.stream.count(), 2u);
  EXPECT_TRUE(merger_.IsDrained(&a.stream));
}

TEST_F(StreamMergerTest, ARingThatIsBrokenStopsOnlyItsOwnThread) {
  Thread& a = AddThread();
  Thread& b = AddThread();
  a.Write(77, 1, 5);
  b.Write(HS_ENTRY_CALL, 1, 10);
  EXPECT_FALSE(merger_.Drain().ok());
  EXPECT_TRUE(merger_.Drain().ok());
  EXPECT_EQ(Times().size(), 1u);
}

// Else nobody would look after the recording while a program is faster than its recorder.
TEST_F(StreamMergerTest, ADrainEndsThoughMoreAndMoreIsWritten) {
  constexpr uint64_t kCalls = 1000;
  uint64_t calls = 0;
  Thread& a = AddThread();
  StreamMerger merger([&] {
    clock_ += 1'000'000;
    if (calls < kCalls) a.Write(HS_ENTRY_CALL, ++calls, clock_ - 1);
    return clock_.load();
  });
  merger.Add(&a.reader, &a.stream);
  EXPECT_TRUE(*merger.Drain());
  EXPECT_GT(Times().size(), 0u);
  EXPECT_LT(Times().size(), kCalls / 2);
  for (uint64_t i = 0; i < kCalls; ++i) ASSERT_TRUE(merger.Drain().ok());
  EXPECT_EQ(Times().size(), kCalls);
}

TEST_F(StreamMergerTest, ThreadsThatRunAtOnceAreNeverOutOfOrder) {
  constexpr uint64_t kCalls = 30'000;
  clock_ = 0;
  for (int i = 0; i < 3; ++i) AddThread();
  ASSERT_TRUE(merger_.Drain().ok());
  std::vector<std::thread> running;
  for (Thread& thread : threads_) {
    running.emplace_back([this, &thread] {
      for (uint64_t i = 1; i <= kCalls; ++i) {
        __atomic_store_n(&thread.ring->writing, 1, __ATOMIC_SEQ_CST);
        const uint64_t now = ++clock_;
        while (!thread.Write(HS_ENTRY_CALL, i, now)) std::this_thread::yield();
        __atomic_store_n(&thread.ring->writing, 0, __ATOMIC_RELEASE);
      }
    });
  }
  while (Times().size() < 3 * kCalls) {
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(merger_.Drain().ok());
  }
  for (std::thread& thread : running) thread.join();
  const std::vector<int64_t> times = Times();
  for (size_t i = 0; i < times.size(); ++i) ASSERT_EQ(times[i], static_cast<int64_t>(i + 1));
}

}  // namespace
}  // namespace hindsight

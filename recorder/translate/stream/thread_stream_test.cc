#include "recorder/translate/stream/thread_stream.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/translate/stream/thread_stream_fixture.h"

namespace hindsight {
namespace {

TEST_F(ThreadStreamTest, NothingComesBeforeTheBeginning) {
  EXPECT_FALSE(Call(0, 1, 0).ok());
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  EXPECT_FALSE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  ASSERT_EQ(writer_.segments.size(), 1u);
  EXPECT_EQ(writer_.events.at(0).kind, EventKind::kThreadStart);
  ASSERT_EQ(process_.begun.size(), 1u);
  EXPECT_EQ(process_.begun[0].thread, 7);
  EXPECT_EQ(process_.begun[0].segment, 0u);
  EXPECT_EQ(process_.begun[0].registers[0], 5u);
}

TEST_F(ThreadStreamTest, ExtendedRegistersAreThoseOfTheSegment) {
  constexpr size_t kExtra = HS_EXTENDED_WORDS * sizeof(uint64_t);
  Entry<HsState> begin(HS_ENTRY_BEGIN, 0, kExtra);
  uint64_t* const begun = WordsOf(begin);
  begun[HS_WORD_ZMM16] = 16;
  begun[HS_WORD_K] = 7;
  ASSERT_TRUE(stream_.Consume(begin.base()).ok());
  EXPECT_EQ(process_.begun.at(0).registers[HS_WORD_ZMM16], 16u);
  EXPECT_EQ(process_.begun.at(0).registers[HS_WORD_K], 7u);
  Entry<HsStanding> standing(HS_ENTRY_STANDING, 5, kExtra);
  WordsOf(standing)[HS_WORD_YMM_HIGH] = 81;
  ASSERT_TRUE(stream_.Consume(standing.base()).ok());
  ASSERT_TRUE(stream_.standing().has_value());
  EXPECT_EQ(stream_.standing()->registers[HS_WORD_YMM_HIGH], 81u);
  EXPECT_EQ(stream_.standing()->registers[HS_WORD_K], 0u);
}

TEST_F(ThreadStreamTest, RecordingMayEndWhileTheThreadGoesOn) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  Entry<HsState> end(HS_ENTRY_END, 8);
  end->entry.flags = HS_END_EXEC;
  ASSERT_TRUE(stream_.Consume(end.base()).ok());
  EXPECT_EQ(process_.left, (std::vector<HsEndReason>{HS_END_EXEC}));
  EXPECT_EQ(writer_.events.back().kind, EventKind::kThreadStart);
  EXPECT_TRUE(stream_.ended());
}

TEST_F(ThreadStreamTest, ASystemCallIsAnEventATransitionAndTheProcesssConcern) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  ASSERT_TRUE(Call(10, 39, 4711).ok());
  const auto& effect = LastRecord<SideEffect>();
  EXPECT_EQ(effect.kind, SideEffectKind::kSyscall);
  EXPECT_EQ(effect.sequence, 1u);
  EXPECT_EQ(effect.registers.index, (std::vector<uint16_t>{0, HS_WORD_RIP}));
  EXPECT_EQ(writer_.records.back().count, 10u);
  EXPECT_EQ(writer_.events.back().kind, EventKind::kSyscall);
  EXPECT_EQ(writer_.events.back().result, 4711);
  EXPECT_EQ(process_.calls, (std::vector<int64_t>{39}));
  EXPECT_EQ(process_.counts, (std::vector<uint64_t>{11}));
  EXPECT_EQ(stream_.count(), 11u);
}

TEST_F(ThreadStreamTest, AHashStandsBeforeACallThatHasItsNumberAlready) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok() && Reached(10, 100).ok());
  Entry<HsHash> hash(HS_ENTRY_HASH, 10);
  hash->hash = 77;
  ASSERT_TRUE(stream_.Consume(hash.base()).ok());
  EXPECT_EQ(LastRecord<MemoryHash>().hash, 77u);
  ASSERT_TRUE(Call(10, 39, 4711).ok());
  EXPECT_EQ(LastRecord<SideEffect>().sequence, 1u);
}

TEST_F(ThreadStreamTest, AProcessThatIsMadeIsAnEvent) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  ASSERT_TRUE(Call(10, SYS_fork, 4711).ok());
  const ProcessEvent& fork = writer_.events.back();
  EXPECT_EQ(fork.kind, EventKind::kFork);
  EXPECT_EQ(fork.result, 4711);
  EXPECT_EQ(fork.count, 11u);
  EXPECT_EQ(fork.arguments.at(0), static_cast<uint64_t>(ForkKind::kFork));
  EXPECT_EQ(fork.arguments.at(1), 0u);
  ASSERT_TRUE(Call(12, SYS_vfork, -EAGAIN).ok());
  EXPECT_EQ(process_.children, (std::vector<pid_t>{4711}));
}

TEST_F(ThreadStreamTest, AProgramThatIsExecutedGoesOnInTheSameTrace) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  Entry<HsCall> exec(HS_ENTRY_EXEC, 10);
  exec->number = SYS_execve;
  ASSERT_TRUE(stream_.Consume(exec.base()).ok());
  EXPECT_TRUE(stream_.is_executing());
  stream_.ExpectProgram(stream_);
  EXPECT_FALSE(Call(0, 39, 0).ok());
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 6).ok());
  ASSERT_EQ(writer_.segments.size(), 2u);
  EXPECT_EQ(writer_.segments[1].count, 11u);
  EXPECT_EQ(writer_.events.back().kind, EventKind::kExec);
  EXPECT_EQ(writer_.events.back().text, "/bin/new");
  EXPECT_EQ(process_.begun.back().segment, 1u);
  ASSERT_TRUE(Call(4, 39, 0).ok());
  EXPECT_EQ(stream_.count(), 16u);
}

TEST_F(ThreadStreamTest, AnExecThatFailsIsACall) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  Entry<HsCall> exec(HS_ENTRY_EXEC, 10);
  ASSERT_TRUE(stream_.Consume(exec.base()).ok());
  ASSERT_TRUE(Call(10, SYS_execve, -ENOENT).ok());
  EXPECT_FALSE(stream_.is_executing());
  EXPECT_EQ(stream_.count(), 11u);
}

TEST_F(ThreadStreamTest, CorrectionsRetireNothingInstructionsDo) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  for (const uint16_t kind : {HS_ENTRY_CORRECTION, HS_ENTRY_INSTRUCTION}) {
    Entry<HsPatch> patch(kind, stream_.count(), sizeof(HsChange));
    patch->size = 1;
    patch->changes[0] = {HS_WORD_RFLAGS, 0x202};
    ASSERT_TRUE(stream_.Consume(patch.base()).ok());
    EXPECT_EQ(LastRecord<SideEffect>().retired, kind == HS_ENTRY_INSTRUCTION);
    EXPECT_EQ(LastRecord<SideEffect>().sequence, 0u);
  }
  EXPECT_EQ(stream_.count(), 2u);
}

TEST_F(ThreadStreamTest, ASignalIsADiscontinuityAndAnEvent) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  Entry<HsSignal> signal(HS_ENTRY_SIGNAL, 6, sizeof(HsChange));
  signal->signal = 10;
  signal->siginfo[0] = 10;
  signal->size = 1;
  signal->changes[0] = {HS_WORD_RIP, 0x1000};
  ASSERT_TRUE(stream_.Consume(signal.base()).ok());
  EXPECT_EQ(LastRecord<Discontinuity>().signal, 10);
  EXPECT_EQ(LastRecord<Discontinuity>().sequence, 1u);
  EXPECT_EQ(LastRecord<Discontinuity>().siginfo.size(), 128u);
  EXPECT_EQ(writer_.events.back().kind, EventKind::kSignal);
}

TEST_F(ThreadStreamTest, SegmentsFollowEachOther) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  ASSERT_TRUE(State(HS_ENTRY_SEGMENT, 100, 6).ok());
  ASSERT_EQ(writer_.segments.size(), 2u);
  EXPECT_EQ(writer_.segments[1].count, 100u);
  EXPECT_EQ(LastRecord<SegmentEnd>().registers[0], 6u);
  ASSERT_TRUE(State(HS_ENTRY_END, 120, 7).ok());
  EXPECT_EQ(writer_.segments.size(), 2u);
  EXPECT_EQ(writer_.events.back().kind, EventKind::kThreadExit);
  EXPECT_FALSE(Call(121, 1, 0).ok());
}

TEST_F(ThreadStreamTest, OrderableInstructionsThatFollowEachOtherAreOneRun) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  ASSERT_TRUE(Call(1, 39, 0).ok());
  for (const uint64_t count : {4, 5, 8}) ASSERT_TRUE(Bare(HS_ENTRY_LOCKED, count).ok());
  EXPECT_EQ(sequence_.last, 4u);
  EXPECT_EQ(stream_.count(), 9u);
  ASSERT_TRUE(Call(9, 39, 0).ok());
  const Record& record = writer_.records.at(writer_.records.size() - 2);
  EXPECT_EQ(record.count, 9u);
  EXPECT_EQ(std::get<OrderRun>(record.body).first_sequence, 2u);
  EXPECT_EQ(std::get<OrderRun>(record.body).counts.size(), 3u);
  EXPECT_EQ(LastRecord<SideEffect>().sequence, 5u);
}

TEST_F(ThreadStreamTest, ARunEndsWhereSomethingOfAnotherThreadIsNext) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  ASSERT_TRUE(Bare(HS_ENTRY_LOCKED, 4).ok());
  ++sequence_.last;
  ASSERT_TRUE(Bare(HS_ENTRY_LOCKED, 6).ok());
  EXPECT_EQ(LastRecord<OrderRun>().first_sequence, 1u);
  stream_.FlushRun();
  EXPECT_EQ(LastRecord<OrderRun>().first_sequence, 3u);
  EXPECT_EQ(writer_.records.back().count, 7u);
  stream_.FlushRun();
  EXPECT_EQ(writer_.records.size(), 2u);
}

TEST_F(ThreadStreamTest, AThreadThatIsMadeIsTheProcesssConcern) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  ASSERT_TRUE(Call(10, SYS_clone3, 4711, /*ring=*/3).ok());
  ASSERT_TRUE(Call(11, SYS_clone3, -EAGAIN, /*ring=*/3).ok());
  EXPECT_EQ(threads_.threads, (std::vector<std::vector<int32_t>>{{7, 4711, 3}}));
  EXPECT_TRUE(process_.children.empty());
}

TEST_F(ThreadStreamTest, AThreadThatIsKilledWhileItWaitsIsShownThere) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  ASSERT_TRUE(Bare(HS_ENTRY_LOCKED, 4).ok());
  ASSERT_TRUE(Bare(HS_ENTRY_REACHED, 30).ok());
  EXPECT_TRUE(std::holds_alternative<OrderRun>(writer_.records.back().body));
  stream_.OnGone();
  EXPECT_EQ(writer_.records.back().count, 30u);
}

TEST_F(ThreadStreamTest, ACallThatSucceedsStandsWhereItBegan) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  ASSERT_TRUE(Reached(10, 50).ok());
  EXPECT_EQ(stream_.reserved_sequence(), 1u);
  ++sequence_.last;  // another thread's
  Entry<HsPage> page(HS_ENTRY_PAGE, 10);
  ASSERT_TRUE(stream_.Consume(page.base()).ok());
  ASSERT_TRUE(Call(10, SYS_write, 1).ok());
  EXPECT_EQ(LastRecord<SideEffect>().sequence, 1u);
  EXPECT_EQ(writer_.events.back().sequence, 1u);
  // Its turn, and what it does after the call.
  ASSERT_EQ(threads_.times.size(), 3u);
  EXPECT_EQ(threads_.times[1], 50u);
  EXPECT_EQ(stream_.reserved_sequence(), 0u);
  ASSERT_TRUE(Call(20, SYS_write, 1).ok());
  EXPECT_EQ(LastRecord<SideEffect>().sequence, 3u);
  EXPECT_EQ(sequence_.events(), 3u);
  EXPECT_EQ(log_.kernel_events(), 2u);
}

TEST_F(ThreadStreamTest, ACallThatFailsStandsWhereItReturned) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  ASSERT_TRUE(Reached(10, 50).ok());
  ASSERT_TRUE(Call(10, SYS_write, -EPIPE).ok());
  // Nothing has come in between.
  EXPECT_EQ(LastRecord<SideEffect>().sequence, 1u);
  ASSERT_TRUE(Reached(20, 60).ok());
  ++sequence_.last;
  ASSERT_TRUE(Call(20, SYS_write, -EPIPE).ok());
  EXPECT_EQ(LastRecord<SideEffect>().sequence, 4u);
  EXPECT_EQ(sequence_.events(), 3u);
}

TEST_F(ThreadStreamTest, ACallThatIsNotMadeLeavesItsNumber) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  ASSERT_TRUE(Reached(10, 50).ok());
  Entry<HsSignal> signal(HS_ENTRY_SIGNAL, 10, sizeof(HsChange));
  signal->size = 1;
  signal->changes[0] = {HS_WORD_RIP, 0x4000};
  ASSERT_TRUE(stream_.Consume(signal.base()).ok());
  EXPECT_EQ(LastRecord<Discontinuity>().sequence, 2u);
  ASSERT_TRUE(Reached(12, 60).ok());
  stream_.OnGone();
  EXPECT_EQ(writer_.records.back().count, 12u);
  EXPECT_EQ(sequence_.events(), 1u);
  EXPECT_EQ(log_.kernel_events(), 1u);
}

TEST_F(ThreadStreamTest, AProgramThatTheOnlyThreadExecutesStandsWhereTheCallBegan) {
  for (const bool only : {true, false}) {
    threads_.only = only;
    const uint64_t count = stream_.begun() ? stream_.count() - stream_.first_count() : 0;
    if (!stream_.begun()) {
      ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
    }
    ASSERT_TRUE(Reached(count + 10, 50).ok());
    const uint64_t reserved = stream_.reserved_sequence();
    ++sequence_.last;
    ASSERT_TRUE(stream_.Consume(Entry<HsCall>(HS_ENTRY_EXEC, count + 10).base()).ok());
    stream_.ExpectProgram(stream_);
    ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 6).ok());
    EXPECT_EQ(writer_.events.back().sequence, only ? reserved : reserved + 2);
  }
}

TEST_F(ThreadStreamTest, HowItsProcessEndsIsTold) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  Entry<HsStatus> status(HS_ENTRY_STATUS, 30);
  status->status = 139;
  ASSERT_TRUE(stream_.Consume(status.base()).ok());
  EXPECT_EQ(process_.status, 139);
}

TEST_F(ThreadStreamTest, CountsNeverGoBack) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 10, 5).ok());
  EXPECT_FALSE(Call(9, 39, 0).ok());
}

TEST_F(ThreadStreamTest, AThreadThatIsKilledEndsWithWhatWasConsumed) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  ASSERT_TRUE(Call(10, 39, 4711).ok());
  stream_.OnGone();
  EXPECT_TRUE(std::holds_alternative<Gap>(writer_.records.back().body));
  EXPECT_EQ(writer_.events.back().kind, EventKind::kThreadExit);
  EXPECT_EQ(writer_.events.back().count, 11u);
}

TEST_F(ThreadStreamTest, RecordingCanBeEndedFromOutside) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  ASSERT_TRUE(Call(10, 39, 4711).ok());
  stream_.Leave("enough");
  EXPECT_EQ(LastRecord<Gap>().reason, "enough");
  EXPECT_EQ(writer_.records.back().count, 11u);
  EXPECT_EQ(writer_.events.back().kind, EventKind::kGap);
}

// The program can write to the ring.
TEST_F(ThreadStreamTest, AnyBytesAreAnErrorAtWorst) {
  std::mt19937_64 random(5);
  int refused = 0;
  for (int run = 0; run < 20'000; ++run) {
    ThreadStream stream(&process_, &threads_, &log_, &notes_, 0, false);
    Entry<HsState> begin(HS_ENTRY_BEGIN, 0);
    ASSERT_TRUE(stream.Consume(begin.base()).ok());
    std::vector<uint64_t> words(3 + random() % 40);
    for (uint64_t& word : words) word = random() % 4 == 0 ? random() : random() % 8;
    auto* const entry = reinterpret_cast<HsEntry*>(words.data());
    entry->size = static_cast<uint32_t>(words.size() * 8);
    entry->kind = random() % 13;
    refused += !stream.Consume(entry).ok();
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace hindsight

#include "recorder/translate/stream/thread_table.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "recorder/translate/stream/thread_table_fixture.h"

namespace hindsight {
namespace {

TEST_F(ThreadTableTest, OneThreadNeedsNoSlices) {
  Agent agent = AgentOf(1);
  agent.State(HS_ENTRY_BEGIN, 10);
  agent.Call(20, 39, 0);
  agent.Bare(HS_ENTRY_LOCKED, 30);
  EXPECT_TRUE(*Drain());
  EXPECT_TRUE(Events(EventKind::kSlice).empty());
}

TEST_F(ThreadTableTest, AThreadIsOpenedByTheCallThatMadeIt) {
  Agent first = AgentOf(1), second = AgentOf(2);
  second.State(HS_ENTRY_BEGIN, 30);
  first.State(HS_ENTRY_BEGIN, 10);
  ASSERT_TRUE(Drain().ok());
  EXPECT_EQ(Events(EventKind::kThreadStart).size(), 1u);
  first.Call(20, SYS_clone, 4711, 2);
  ASSERT_TRUE(Drain().ok());
  const auto starts = Events(EventKind::kThreadStart);
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[1].thread, 4711);
  EXPECT_EQ(starts[1].number, getpid());
  EXPECT_EQ(starts[1].sequence, 3u);  // after the call and the slice
}

// In a PID namespace of its own the call tells another number than the recorder's.
TEST_F(ThreadTableTest, AThreadMaySayWhichNumberItHas) {
  Agent first = AgentOf(1);
  first.State(HS_ENTRY_BEGIN, 10);
  rings_[2]->thread = 815;
  first.Call(20, SYS_clone, 2, 2);
  rings_[3]->thread = -1;
  first.Call(30, SYS_clone, 3, 3);
  Agent(rings_[2]).State(HS_ENTRY_BEGIN, 40);
  Agent(rings_[3]).State(HS_ENTRY_BEGIN, 50);
  ASSERT_TRUE(Drain().ok());
  const auto starts = Events(EventKind::kThreadStart);
  ASSERT_EQ(starts.size(), 3u);
  EXPECT_EQ(starts[1].thread, 815);
  EXPECT_EQ(starts[2].thread, 3) << "there is no such number";
}

TEST_F(ThreadTableTest, ASliceBeginsWhereAnotherThreadsEventIsNext) {
  clock_.Update(100, 1000);
  Agent first = AgentOf(1), second = AgentOf(2);
  BeginTwo(&first, &second);
  first.count = 7;
  first.Bare(HS_ENTRY_LOCKED, 40);
  first.count = 9;
  first.Bare(HS_ENTRY_LOCKED, 50);
  second.count = 5;
  second.Bare(HS_ENTRY_LOCKED, 60);
  ASSERT_TRUE(Drain().ok());
  const auto slices = Events(EventKind::kSlice);
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[1].thread, getpid());
  EXPECT_EQ(slices[1].count, 7u);
  EXPECT_EQ(slices[1].arguments.at(0), 400u);
  EXPECT_EQ(slices[1].arguments.at(1), 300u);
  EXPECT_EQ(slices[2].thread, 4711);
  EXPECT_EQ(slices[2].count, 5u);
  EXPECT_EQ(slices[2].sequence, slices[1].sequence + 3);
  const auto& run = std::get<OrderRun>(writer_->records.back().body);
  EXPECT_EQ(run.first_sequence, slices[1].sequence + 1);
  EXPECT_EQ(run.counts.size(), 2u);
}

TEST_F(ThreadTableTest, WhoHasALargeSegmentIsToEndIt) {
  Agent first = AgentOf(1), second = AgentOf(2);
  BeginTwo(&first, &second);
  first.count = 100;
  first.State(HS_ENTRY_SEGMENT, 40);
  ASSERT_TRUE(Drain().ok());
  EXPECT_EQ(rings_[1]->large_segment, 0u);
  writer_->large = true;
  ASSERT_TRUE(Drain().ok());
  EXPECT_EQ(rings_[1]->large_segment, 101u) << "the one that began in state 100";
  EXPECT_EQ(rings_[2]->large_segment, 1u);
}

TEST_F(ThreadTableTest, WhatAThreadSeesBeginsASliceAfterWhatAnotherDid) {
  Agent first = AgentOf(1), second = AgentOf(2);
  BeginTwo(&first, &second);
  second.count = 5;
  second.Bare(HS_ENTRY_LOCKED, 40);
  first.count = 7;
  first.Word(kData, 1, /*time=*/50);
  first.count = 8;
  first.Word(kData, 2, /*time=*/60);
  second.count = 6;
  second.Word(kData, 3, /*time=*/70);
  ASSERT_TRUE(Drain().ok());
  const auto slices = Events(EventKind::kSlice);
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[1].thread, getpid());
  EXPECT_EQ(slices[1].count, 7u);
  EXPECT_EQ(slices[2].thread, 4711);
  EXPECT_EQ(slices[2].count, 6u);
}

TEST_F(ThreadTableTest, WhatIsSeenSaysInWhichSliceItCame) {
  Agent first = AgentOf(1), second = AgentOf(2);
  BeginTwo(&first, &second);
  second.count = 5;
  second.Bare(HS_ENTRY_LOCKED, 40);
  first.count = 7;
  first.Word(kData, 1, /*time=*/50);
  second.count = 6;
  second.Bare(HS_ENTRY_LOCKED, 60);
  first.Word(kData, 2, /*time=*/70);
  first.count = 8;
  first.Word(kData, 3, /*time=*/80);
  ASSERT_TRUE(Drain().ok());
  std::vector<int> turns;
  for (const Record& record : writer_->records) {
    if (const auto* import = std::get_if<PageImport>(&record.body)) turns.push_back(import->turn);
  }
  EXPECT_EQ(turns, std::vector<int>({1, 2, 0}));
}

TEST_F(ThreadTableTest, WhatIsSeenBetweenTheBeginningOfACallAndItsEndBeginsNoSlice) {
  Agent first = AgentOf(1), second = AgentOf(2);
  BeginTwo(&first, &second);
  first.count = 7;
  first.Bare(HS_ENTRY_REACHED, 40);
  second.count = 5;
  second.Bare(HS_ENTRY_LOCKED, 50);
  first.Word(kData, 1, /*time=*/60);
  first.Call(70, SYS_write, 1);
  ASSERT_TRUE(Drain().ok());
  const auto slices = Events(EventKind::kSlice);
  ASSERT_EQ(slices.size(), 4u);
  EXPECT_EQ(slices[2].thread, 4711);
  EXPECT_EQ(slices[3].count, 8u) << "after the call";
}

TEST_F(ThreadTableTest, ACallLiesInTheSliceInWhichItBegan) {
  Agent first = AgentOf(1), second = AgentOf(2);
  BeginTwo(&first, &second);
  first.count = 7;
  first.Bare(HS_ENTRY_REACHED, 40);
  second.count = 5;
  second.Call(50, SYS_read, 0);
  ASSERT_TRUE(Drain().ok());
  const uint64_t reserved = table_->SequenceOfCall(getpid(), 7);
  first.Call(60, SYS_write, 1);
  second.Call(70, SYS_read, 0);
  first.Bare(HS_ENTRY_LOCKED, 80);
  ASSERT_TRUE(Drain().ok());
  const auto slices = Events(EventKind::kSlice);
  ASSERT_EQ(slices.size(), 6u);
  EXPECT_EQ(slices[1].count, 7u);
  EXPECT_EQ(slices[1].sequence + 1, reserved);
  EXPECT_EQ(slices[2].thread, 4711);
  EXPECT_EQ(slices[3].count, 8u) << "from its end on it runs after what the other did";
  EXPECT_EQ(slices[5].count, 8u);
  const auto calls = Events(EventKind::kSyscall);
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[2].sequence, reserved);
  EXPECT_EQ(calls[1].sequence, slices[2].sequence + 1);
  EXPECT_EQ(calls[3].sequence, slices[4].sequence + 1);
}

TEST_F(ThreadTableTest, WhatANewThreadDidComesBeforeWhatItsMakerDidLater) {
  Agent first = AgentOf(1), second = AgentOf(2);
  first.State(HS_ENTRY_BEGIN, 10);
  first.Call(20, SYS_clone, 4711, 2);
  second.State(HS_ENTRY_BEGIN, 30);
  second.Call(40, SYS_getpid, 1);
  first.Call(50, SYS_getpid, 2);
  ASSERT_TRUE(Drain().ok());
  const auto calls = Events(EventKind::kSyscall);
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[1].result, 1);
  EXPECT_EQ(calls[2].result, 2);
}

TEST_F(ThreadTableTest, ARingIsUsedAgainByAnotherThread) {
  Agent first = AgentOf(1), second = AgentOf(2);
  BeginTwo(&first, &second);
  second.State(HS_ENTRY_END, 40);
  Agent third = AgentOf(2);
  third.State(HS_ENTRY_BEGIN, 60);
  ASSERT_TRUE(Drain().ok());
  EXPECT_EQ(Events(EventKind::kThreadExit).size(), 1u);
  EXPECT_EQ(log_->totals().threads, 1u);
  first.Call(50, SYS_clone, 4712, 2);
  third.count = 3;
  third.Call(70, 39, 0);
  ASSERT_TRUE(Drain().ok());
  ASSERT_EQ(Events(EventKind::kThreadStart).size(), 3u);
  EXPECT_EQ(Events(EventKind::kThreadStart)[2].thread, 4712);
  EXPECT_EQ(table_->instructions(), 2u + 4u);
}

TEST_F(ThreadTableTest, ThreadsThatAreKilledEndWithWhatTheyTold) {
  Agent first = AgentOf(1), second = AgentOf(2);
  BeginTwo(&first, &second);
  second.count = 5;
  second.Call(40, 39, 0);
  rings_[1]->writing = 1;  // killed there
  second.Bare(HS_ENTRY_REACHED, 0);
  first.Call(35, SYS_clone, 4713, 3);  // which has not begun
  ASSERT_TRUE(table_->DrainLast().ok());
  table_->Finish();
  const auto exits = Events(EventKind::kThreadExit);
  ASSERT_EQ(exits.size(), 2u);
  EXPECT_EQ(exits[0].count, 2u);
  EXPECT_EQ(exits[1].count, 6u);
  EXPECT_EQ(table_->first_count(), 2u);
  EXPECT_EQ(log_->totals().threads, 2u);
}

TEST_F(ThreadTableTest, OneThreadsEndOfRecordingIsThatOfAll) {
  Agent first = AgentOf(1), second = AgentOf(2);
  BeginTwo(&first, &second);
  second.State(HS_ENTRY_END, 40, HS_END_CODE);
  ASSERT_TRUE(Drain().ok());
  EXPECT_TRUE(process_->left);
  table_->Leave("enough");
  EXPECT_EQ(Events(EventKind::kGap).size(), 2u);
  EXPECT_EQ(log_->totals().threads, 2u);
  // What they and others write is thrown away.
  first.Call(50, 39, 0);
  AgentOf(3).State(HS_ENTRY_BEGIN, 60);
  table_->SkipOthers();
  for (const size_t ring : {1, 2, 3}) EXPECT_EQ(rings_[ring]->tail, rings_[ring]->head);
}

TEST_F(ThreadTableTest, ARingThatThereIsNotIsAnError) {
  Agent first = AgentOf(1);
  first.State(HS_ENTRY_BEGIN, 10);
  first.Call(20, SYS_clone, 4711, 77);
  EXPECT_FALSE(Drain().ok());
}

TEST_F(ThreadTableTest, AllThatStandStillAreInTheKeyframe) {
  Agent first = AgentOf(1), second = AgentOf(2);
  BeginTwo(&first, &second);
  first.count = 50;
  second.count = 60;
  second.Standing(100, /*began=*/0);
  ASSERT_TRUE(Drain().ok());
  EXPECT_TRUE(process_->stood.empty());
  first.Standing(101, /*began=*/90);
  ASSERT_TRUE(Drain().ok());
  ASSERT_EQ(process_->stood.size(), 1u);
  EXPECT_EQ(process_->stood[0].first, getpid());
  const auto& states = process_->stood[0].second;
  ASSERT_EQ(states.size(), 2u);
  EXPECT_EQ(states[0].count, 50u);
  EXPECT_EQ(states[1].thread, 4711);
  EXPECT_EQ(states[1].count, 60u);
  EXPECT_EQ(states[1].segment, 1u);
  const size_t before = Events(EventKind::kSlice).size();
  // One that has gone on does not stand, and does what it does after the others have stood.
  second.Call(110, SYS_getpid, 1);
  first.Standing(120, /*began=*/115);
  ASSERT_TRUE(Drain().ok());
  ASSERT_EQ(process_->stood.size(), 2u);
  EXPECT_EQ(process_->stood[1].second.size(), 1u);
  const auto slices = Events(EventKind::kSlice);
  ASSERT_GT(slices.size(), before);
  EXPECT_EQ(slices[before].thread, 4711);
  EXPECT_EQ(slices[before].count, 60u);
}

TEST_F(ThreadTableTest, AProgramThatAThreadExecutesIsTheFirstThreads) {
  Agent first = AgentOf(1), second = AgentOf(2);
  BeginTwo(&first, &second);
  first.count = 50;
  first.Bare(HS_ENTRY_REACHED, 0);
  second.Exec(40);
  std::vector<uint8_t> memory(HS_RING_HEADER_BYTES + kCapacity);
  const std::vector<HsRing*> rings = {reinterpret_cast<HsRing*>(memory.data())};
  rings[0]->capacity = kCapacity;
  ASSERT_TRUE(table_->DrainLast().ok());
  ASSERT_TRUE(table_->OpenProgram(std::make_shared<RingSet>(rings, kCapacity), 0).ok());
  Agent program(rings[0]);
  program.State(HS_ENTRY_BEGIN, 60);
  program.Call(70, 39, 0);
  ASSERT_TRUE(Drain().ok());
  const auto exits = Events(EventKind::kThreadExit);
  ASSERT_EQ(exits.size(), 1u);
  EXPECT_EQ(exits[0].thread, 4711);
  const auto execs = Events(EventKind::kExec);
  ASSERT_EQ(execs.size(), 1u);
  EXPECT_EQ(execs[0].thread, getpid());
  EXPECT_EQ(execs[0].count, 51u);
  // Who looks at the call sees the other thread, too: its end comes after the turn.
  const auto place = [this](EventKind kind) {
    return std::find_if(writer_->events.begin(), writer_->events.end(),
                        [kind](const ProcessEvent& event) { return event.kind == kind; });
  };
  EXPECT_TRUE(place(EventKind::kSlice) < place(EventKind::kThreadExit));
  EXPECT_TRUE(place(EventKind::kThreadExit) < place(EventKind::kExec));
  EXPECT_EQ(table_->instructions(), 52u);
}

}  // namespace
}  // namespace hindsight

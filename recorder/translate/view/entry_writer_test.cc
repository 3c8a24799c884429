#include "recorder/translate/view/entry_writer.h"

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/translate/stream/ring_reader.h"

namespace hindsight {
namespace {

constexpr uint64_t kCapacity = 16384;

class EntryWriterTest : public testing::Test {
 protected:
  EntryWriterTest() : memory_(HS_RING_HEADER_BYTES + kCapacity), reader_(ring(), kCapacity) {
    ring()->capacity = kCapacity;
    writer_.Init(ring());
  }

  HsRing* ring() { return reinterpret_cast<HsRing*>(memory_.data()); }
  template <typename T>
  const T& Next() {
    if (read_) reader_.Done();
    read_ = true;
    return *reinterpret_cast<const T*>(*reader_.Peek());
  }

  std::vector<uint8_t> memory_;
  RingReader reader_;
  EntryWriter writer_;
  bool read_ = false;
  uint64_t next_ = 0;
};

// What the processor itself saves.
TEST_F(EntryWriterTest, AStateHasTheWordsOfTheRegisterFile) {
  GuestState state = {};
  for (uint64_t i = 0; i < 16; ++i) state.gpr[i] = 100 + i;
  state.rip = 1;
  state.rflags = 2;
  state.fs_base = 3;
  state.gs_base = 4;
  for (uint64_t i = 0; i < 6; ++i) state.selectors[i] = 10 + i;
  const double value = 1.5;
  asm volatile("fninit; fldl %1; movsd %1, %%xmm15; fxsave64 %0; fninit"
               : "=m"(state.fxsave)
               : "m"(value)
               : "xmm15");
  writer_.State(HS_ENTRY_BEGIN, 9, state);
  const auto& entry = Next<HsState>();
  EXPECT_EQ(entry.entry.kind, HS_ENTRY_BEGIN);
  EXPECT_EQ(entry.entry.count, 9u);
  EXPECT_NE(entry.entry.time, 0u);
  EXPECT_EQ(entry.words[15], 115u);
  EXPECT_EQ(entry.words[HS_WORD_RIP], 1u);
  EXPECT_EQ(entry.words[HS_WORD_RFLAGS], 2u);
  EXPECT_EQ(entry.words[HS_WORD_FS_BASE], 3u);
  EXPECT_EQ(entry.words[HS_WORD_GS_BASE], 4u);
  EXPECT_EQ(entry.words[HS_WORD_CS], 10u);
  EXPECT_EQ(entry.words[HS_WORD_CS + 5], 15u);
  EXPECT_EQ(entry.words[HS_WORD_FCW], 0x37fu);
  EXPECT_EQ(entry.words[HS_WORD_FSW] >> 11 & 7, 7u);
  EXPECT_EQ(entry.words[HS_WORD_FTW], 0x80u);
  EXPECT_EQ(entry.words[HS_WORD_ST], 0xc000000000000000u);
  EXPECT_EQ(entry.words[HS_WORD_ST + 1], 0x3fffu);
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  EXPECT_EQ(entry.words[HS_WORD_XMM + 30], bits);
  EXPECT_EQ(entry.entry.size, sizeof(HsState));
}

TEST_F(EntryWriterTest, ExtendedRegistersComeAfterTheOthers) {
  GuestState state = {};
  state.has_extended = true;
  for (uint64_t i = 0; i < HS_EXTENDED_WORDS; ++i) state.extended[i] = 1000 + i;
  const auto expect = [](const HsEntry& entry, const uint64_t* words, size_t fixed) {
    EXPECT_EQ(entry.size, fixed + HS_EXTENDED_WORDS * sizeof(uint64_t));
    EXPECT_EQ(words[HS_WORD_YMM_HIGH], 1000u);
    EXPECT_EQ(words[HS_ALL_STATE_WORDS - 1], 1000u + HS_EXTENDED_WORDS - 1);
  };
  writer_.State(HS_ENTRY_SEGMENT, 1, state);
  const auto& segment = Next<HsState>();
  expect(segment.entry, segment.words, sizeof(HsState));
  writer_.Standing(2, state, {.began = 5, .trigger = 6, .detail = 7});
  const auto& standing = Next<HsStanding>();
  expect(standing.entry, standing.words, sizeof(HsStanding));
  EXPECT_EQ(standing.detail, 7u);
  writer_.Step(3, state);
  const auto& step = Next<HsPatch>();
  ASSERT_EQ(step.size, static_cast<uint64_t>(HS_ALL_STATE_WORDS));
  EXPECT_EQ(step.changes[HS_WORD_K].word, static_cast<uint64_t>(HS_WORD_K));
  EXPECT_EQ(step.changes[HS_WORD_K].value, 1000u + HS_WORD_K - HS_STATE_WORDS);
  writer_.End(4, HS_END_EXIT, state);
  const auto& end = Next<HsState>();
  expect(end.entry, end.words, sizeof(HsState));
}

TEST_F(EntryWriterTest, ACallChangesWhatTheInstructionDoes) {
  const HsChange base = {HS_WORD_FS_BASE, 0x5000};
  writer_.Call(7, {158, {1, 2, 3, 4, 5, 6}, 0, 0x4002, 0x246}, &base, 1);
  const auto& call = Next<HsCall>();
  EXPECT_EQ(call.number, 158u);
  EXPECT_EQ(call.arguments[5], 6u);
  ASSERT_EQ(call.size, 5u);
  const uint64_t words[] = {0, 1, 11, HS_WORD_RIP, HS_WORD_FS_BASE};
  const uint64_t values[] = {0, 0x4002, 0x246, 0x4002, 0x5000};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(call.changes[i].word, words[i]);
    EXPECT_EQ(call.changes[i].value, values[i]);
  }
}

TEST_F(EntryWriterTest, AReturnFromASignalChangesEverything) {
  GuestState after = {};
  after.gpr[0] = 77;
  after.rip = 0x1234;
  writer_.CallTo(7, {.number = 15}, after);
  const auto& call = Next<HsCall>();
  ASSERT_EQ(call.size, static_cast<uint64_t>(HS_STATE_WORDS));
  EXPECT_EQ(call.changes[0].value, 77u);
  EXPECT_EQ(call.changes[HS_WORD_RIP].word, static_cast<uint64_t>(HS_WORD_RIP));
  EXPECT_EQ(call.changes[HS_WORD_RIP].value, 0x1234u);
}

TEST_F(EntryWriterTest, AHashIsOfAState) {
  writer_.Hash(7, 0x1008, 24, 0x1234);
  const auto& hash = Next<HsHash>();
  EXPECT_EQ(hash.entry.kind, HS_ENTRY_HASH);
  EXPECT_EQ(hash.entry.count, 7u);
  EXPECT_EQ(hash.entry.time, 0u);
  EXPECT_EQ(hash.address, 0x1008u);
  EXPECT_EQ(hash.bytes, 24u);
  EXPECT_EQ(hash.hash, 0x1234u);
}

TEST_F(EntryWriterTest, ACallThatStandsWhereItBeginsHasATime) {
  writer_.Reached(7, /*timed=*/false);
  EXPECT_EQ(Next<HsEntry>().time, 0u);
  writer_.Reached(8, /*timed=*/true);
  const auto& reached = Next<HsEntry>();
  EXPECT_EQ(reached.kind, HS_ENTRY_REACHED);
  EXPECT_NE(reached.time, 0u);
  EXPECT_EQ(ring()->writing, 0u);
}

TEST_F(EntryWriterTest, WhatWasSeenHasTheTimeAtWhichItWasRead) {
  const EntryWriter::Seen seen = writer_.TakeSeen();
  EXPECT_EQ(ring()->writing, HS_WRITING);
  const uint64_t later = writer_.TakeTime();
  writer_.CommitSeen(writer_.Begin(HS_ENTRY_LINES, 7, sizeof(HsLines)), seen);
  EXPECT_EQ(ring()->writing, 0u);
  const auto& lines = Next<HsEntry>();
  EXPECT_NE(lines.time, 0u);
  EXPECT_LT(lines.time, later);
  writer_.CancelSeen(writer_.TakeSeen());
  EXPECT_EQ(ring()->writing, 0u);
}

TEST_F(EntryWriterTest, WhatIsSeenLeavesAnAnnouncedTimeAnnounced) {
  writer_.AnnounceTime();
  const EntryWriter::Seen seen = writer_.TakeSeen();
  writer_.CommitSeen(writer_.Begin(HS_ENTRY_LINES, 7, sizeof(HsLines)), seen);
  EXPECT_EQ(ring()->writing, 1u);
  writer_.Locked(7, writer_.TakeAnnouncedTime());
  EXPECT_EQ(ring()->writing, 0u);
}

TEST_F(EntryWriterTest, ASignalHasItsSiginfo) {
  const uint8_t siginfo[128] = {10, 0, 0, 0, 3};
  writer_.Signal(7, 10, siginfo, {});
  const auto& signal = Next<HsSignal>();
  EXPECT_EQ(signal.signal, 10u);
  EXPECT_EQ(signal.siginfo[4], 3);
  EXPECT_EQ(signal.size, static_cast<uint64_t>(HS_STATE_WORDS));
}

TEST_F(EntryWriterTest, AStepTellsWhatHasChanged) {
  uint64_t before[HS_ALL_STATE_WORDS] = {};
  GuestState after = {};
  after.has_extended = true;
  after.rip = 0x1234;
  after.gpr[3] = 33;
  after.extended[HS_EXTENDED_WORDS - 1] = 7;
  before[HS_ALL_STATE_WORDS - 2] = 6;
  writer_.Step(3, after, before);
  const auto& step = Next<HsPatch>();
  std::vector<uint64_t> words;
  for (uint64_t i = 0; i < step.size; ++i) words.push_back(step.changes[i].word);
  // With what a replay may have got otherwise.
  EXPECT_EQ(words, (std::vector<uint64_t>{3, HS_WORD_RIP, HS_WORD_RFLAGS, HS_WORD_MXCSR,
                                          HS_WORD_FSW, HS_WORD_FOP, HS_WORD_FIP, HS_WORD_FDP,
                                          HS_ALL_STATE_WORDS - 2, HS_ALL_STATE_WORDS - 1}));
  EXPECT_EQ(step.changes[0].value, 33u);
  EXPECT_EQ(step.changes[step.size - 1].value, 7u);
}

TEST_F(EntryWriterTest, TheLastEntrySaysWhyItIs) {
  writer_.End(7, HS_END_THREAD, {});
  EXPECT_EQ(Next<HsState>().entry.flags, HS_END_THREAD);
}

TEST_F(EntryWriterTest, ACorrectionHasNoRegisterThatProgramsComputeWith) {
  GuestState state = {};
  state.rflags = 0x246;
  writer_.Correction(5, state);
  const auto& patch = Next<HsPatch>();
  EXPECT_EQ(patch.entry.kind, HS_ENTRY_CORRECTION);
  ASSERT_EQ(patch.size, 6u);
  EXPECT_EQ(patch.changes[0].word, static_cast<uint64_t>(HS_WORD_RFLAGS));
  EXPECT_EQ(patch.changes[0].value, 0x246u);
}

TEST_F(EntryWriterTest, WithoutRoomItWaitsForTheRecorder) {
  std::atomic<int> written = 0;
  std::thread agent([&] {
    for (int i = 0; i < 100; ++i) {
      writer_.State(HS_ENTRY_SEGMENT, i, {});
      ++written;
    }
    writer_.AwaitRecorder();
    written = 1000;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(written, 100);
  for (uint64_t i = 0; i < 100;) {
    const auto entry = reader_.Peek();
    ASSERT_TRUE(entry.ok());
    if (*entry == nullptr) continue;
    EXPECT_EQ((*entry)->count, i);
    if (++i == 100) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_NE(written, 1000);
    }
    reader_.Done();
  }
  // Who has looked and found nothing says how far it has come.
  EXPECT_EQ(*reader_.Peek(), nullptr);
  agent.join();
  EXPECT_EQ(written, 1000);
}

TEST_F(EntryWriterTest, WhatIsHeldBackIsThereAtOnce) {
  writer_.HoldBack();
  writer_.Reached(1, /*timed=*/true);
  writer_.Reached(2, /*timed=*/false);
  EXPECT_EQ(*reader_.Peek(), nullptr);
  EXPECT_FALSE(reader_.IsQuiet());
  writer_.Publish();
  EXPECT_EQ(Next<HsEntry>().count, 1u);
  EXPECT_EQ(Next<HsEntry>().count, 2u);
  reader_.Done();
  EXPECT_EQ(*reader_.Peek(), nullptr);
  EXPECT_TRUE(reader_.IsQuiet());
}

TEST_F(EntryWriterTest, ButNotMoreThanThereIsRoomFor) {
  constexpr uint64_t kEntries = 3 * kCapacity / sizeof(HsEntry);
  std::thread agent([&] {
    writer_.HoldBack();
    for (uint64_t i = 0; i < kEntries; ++i) writer_.Reached(i, /*timed=*/true);
    writer_.Publish();
  });
  for (uint64_t i = 0; i < kEntries;) {
    const HsEntry* const entry = *reader_.Peek();
    if (entry == nullptr) continue;
    ASSERT_EQ(entry->count, i++);
    reader_.Done();
  }
  agent.join();
  EXPECT_EQ(*reader_.Peek(), nullptr);
}

TEST_F(EntryWriterTest, WhoWaitsForTheRecorderHoldsNothingBack) {
  std::thread agent([&] {
    writer_.HoldBack();
    writer_.Reached(1, /*timed=*/true);
    writer_.AwaitRecorder();
    writer_.Reached(2, /*timed=*/true);
  });
  while (*reader_.Peek() == nullptr) continue;
  EXPECT_EQ(Next<HsEntry>().count, 1u);
  reader_.Done();
  EXPECT_EQ(*reader_.Peek(), nullptr);
  agent.join();
  EXPECT_EQ(*reader_.Peek(), nullptr);
  EXPECT_FALSE(reader_.IsQuiet());
}

TEST_F(EntryWriterTest, OfLockedInstructionsThereIsRoomForWhatTheRecorderMayBeBehind) {
  reader_.SetMostBehind(4 * sizeof(HsEntry));
  uint64_t written = 0;
  const EntryWriter::LockedRoom room = writer_.RoomForLocked();
  while (ring()->head < room.limit) {
    ring()->head += sizeof(HsEntry);
    ++written;
  }
  EXPECT_EQ(written, 4u);
}

TEST_F(EntryWriterTest, ACallMayHaveTheTimeAtWhichItsEffectWasRead) {
  GuestCall call = {};
  call.map_read = 7;
  call.time = writer_.TakeTime();
  writer_.Call(1, call, nullptr, 0);
  const auto& entry = Next<HsCall>();
  EXPECT_EQ(entry.entry.time, call.time);
  EXPECT_EQ(entry.map_read, 7u);
}

// As translated code does, over the ring's end and when it is full.
TEST_F(EntryWriterTest, WhereThereIsRoomLockedInstructionsAreWrittenElsewhere) {
  uint64_t written = 0, here = 0;
  for (int round = 0; round < 200; ++round) {
    const EntryWriter::LockedRoom room = writer_.RoomForLocked();
    while (ring()->head < room.limit) {
      const HsEntry entry = {sizeof(HsEntry), HS_ENTRY_LOCKED, 0, written, 1};
      std::memcpy(reinterpret_cast<void*>(ring()->head + room.bias), &entry, sizeof(entry));
      ring()->head += sizeof(entry);
      ++written;
      ++here;
    }
    ASSERT_LE(ring()->head - ring()->tail, kCapacity);
    for (uint64_t i = 0; i < 100 + written % 7; ++i) {
      const HsEntry* const entry = *reader_.Peek();
      if (entry == nullptr) break;
      ASSERT_EQ(entry->kind, HS_ENTRY_LOCKED);
      ASSERT_EQ(entry->count, next_++);
      reader_.Done();
    }
    writer_.Locked(written++, 1);
  }
  EXPECT_GT(here, 10'000u);
}

}  // namespace
}  // namespace hindsight

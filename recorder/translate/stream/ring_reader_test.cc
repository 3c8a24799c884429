#include "recorder/translate/stream/ring_reader.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

constexpr uint64_t kCapacity = 4096;

class RingReaderTest : public testing::Test {
 protected:
  explicit RingReaderTest(uint64_t capacity = kCapacity)
      : memory_(HS_RING_HEADER_BYTES + capacity), reader_(ring(), capacity) {
    ring()->capacity = capacity;
  }

  HsRing* ring() { return reinterpret_cast<HsRing*>(memory_.data()); }

  // Writes an entry of `size` bytes that say what `value` is. False: there is no room.
  bool Write(uint32_t size, uint64_t value) {
    HsEntry* const entry = HsRingReserve(ring(), size);
    if (entry == nullptr) return false;
    entry->kind = HS_ENTRY_PAGE;
    entry->count = value;
    std::memset(entry + 1, static_cast<int>(value & 0xff), size - sizeof(HsEntry));
    HsRingCommit(ring());
    return true;
  }

  alignas(64) std::vector<uint8_t> memory_;
  RingReader reader_;
};

TEST_F(RingReaderTest, WhoWritesIsAheadByNoMoreThanItMayBe) {
  reader_.SetMostBehind(256);
  uint64_t written = 0;
  while (Write(64, written)) ++written;
  EXPECT_EQ(written, 4u);
  // What is held back has room for certain.
  ring()->holds_back = 1;
  EXPECT_TRUE(Write(64, written));
  HsRingPublish(ring());
  ring()->holds_back = 0;
  for (uint64_t i = 0; i <= written; ++i) {
    ASSERT_EQ((*reader_.Peek())->count, i);
    reader_.Done();
  }
  EXPECT_EQ(*reader_.Peek(), nullptr);
  // One entry may be longer.
  EXPECT_TRUE(Write(512, 1));
  EXPECT_FALSE(Write(64, 1));
  reader_.SetMostBehind(0);
  EXPECT_TRUE(Write(64, 1));
}

TEST_F(RingReaderTest, WhoWaitsIsLetGoBeforeTheEntryIsDoneWith) {
  ASSERT_TRUE(Write(32, 1));
  reader_.LetGo();
  EXPECT_EQ(ring()->tail, 0u);  // not read yet
  EXPECT_EQ((*reader_.Peek())->count, 1u);
  ring()->tail_waiters = 1;
  reader_.LetGo();
  EXPECT_EQ(ring()->tail, 32u);
  EXPECT_EQ(ring()->tail_waiters, 0u);
  // What is written now, in its place as well, comes after it.
  for (uint64_t i = 2; Write(64, i); ++i) {
  }
  EXPECT_EQ((*reader_.Peek())->count, 1u);
  EXPECT_FALSE(reader_.IsQuiet());
  reader_.Done();
  EXPECT_EQ((*reader_.Peek())->count, 2u);
  reader_.Done();
  EXPECT_EQ((*reader_.Peek())->count, 3u);
}

TEST_F(RingReaderTest, EmptyRingHasNoEntry) {
  EXPECT_EQ(*reader_.Peek(), nullptr);
  EXPECT_TRUE(reader_.IsQuiet());
}

TEST_F(RingReaderTest, EntriesComeInTheirOrderAndStayUntilDone) {
  ASSERT_TRUE(Write(32, 1));
  ASSERT_TRUE(Write(64, 2));
  EXPECT_FALSE(reader_.IsQuiet());
  EXPECT_EQ((*reader_.Peek())->count, 1u);
  EXPECT_EQ((*reader_.Peek())->count, 1u);
  EXPECT_EQ(ring()->tail, 0u);
  reader_.Done();
  EXPECT_EQ((*reader_.Peek())->count, 2u);
  reader_.Done();
  EXPECT_EQ(*reader_.Peek(), nullptr);
  EXPECT_EQ(ring()->tail, 96u);
}

TEST_F(RingReaderTest, FullRingHasNoRoomUntilSomethingIsDone) {
  while (Write(512, 7)) {
  }
  ASSERT_NE(*reader_.Peek(), nullptr);
  EXPECT_FALSE(Write(512, 8));
  for (uint64_t done = 0; done < kCapacity / 8; done += 512) {
    ASSERT_NE(*reader_.Peek(), nullptr);
    reader_.Done();
  }
  EXPECT_TRUE(Write(512, 8));
}

class LargeRingTest : public RingReaderTest {
 protected:
  static constexpr uint64_t kLargeCapacity = 4 * HS_RING_RESTART_BYTES;

  LargeRingTest() : RingReaderTest(kLargeCapacity) {}

  static constexpr uint32_t kSize = 4096;
  static constexpr uint64_t kEntries = HS_RING_RESTART_BYTES / kSize;

  void WriteUpToRestart() {
    for (uint64_t i = 0; i < kEntries; ++i) ASSERT_TRUE(Write(kSize, i));
  }
  void ReadAll(uint64_t first, uint64_t last) {
    for (uint64_t i = first; i <= last; ++i) {
      const auto entry = reader_.Peek();
      ASSERT_TRUE(entry.ok() && *entry != nullptr);
      EXPECT_EQ((*entry)->count, i);
      reader_.Done();
    }
    EXPECT_EQ(*reader_.Peek(), nullptr);
  }
};

TEST_F(LargeRingTest, AnEmptyRingStartsOverThoughItsEndIsFar) {
  WriteUpToRestart();
  ReadAll(0, kEntries - 1);
  ASSERT_TRUE(Write(kSize, 99));
  EXPECT_EQ(ring()->head, kLargeCapacity + kSize);
  ReadAll(99, 99);
  EXPECT_TRUE(reader_.IsQuiet());
}

TEST_F(LargeRingTest, OneThatIsNotEmptyGoesOn) {
  WriteUpToRestart();
  ASSERT_TRUE(Write(kSize, kEntries));
  EXPECT_EQ(ring()->head, HS_RING_RESTART_BYTES + kSize);
  ReadAll(0, kEntries);
}

TEST_F(LargeRingTest, StartingOverLeavesRoomForTheEntry) {
  for (const uint32_t size : {HS_RING_RESTART_BYTES + 8u, kSize, HS_RING_RESTART_BYTES + 16u}) {
    ASSERT_TRUE(Write(size, 1)) << size;
    ReadAll(1, 1);
  }
}

TEST_F(RingReaderTest, WhatTheAgentIsWritingIsNotQuiet) {
  ring()->writing = 1;
  EXPECT_FALSE(reader_.IsQuiet());
  ring()->writing = 0;
  EXPECT_TRUE(reader_.IsQuiet());
}

TEST_F(RingReaderTest, AWriterThatIsFasterLosesNothing) {
  constexpr uint64_t kEntries = 200'000;
  std::thread agent([this] {
    std::minstd_rand random(1);
    for (uint64_t i = 1; i <= kEntries; ++i) {
      const auto size = static_cast<uint32_t>(sizeof(HsEntry) + random() % 60 * 8);
      while (!Write(size, i)) {
        __atomic_store_n(&ring()->tail_waiters, 1, __ATOMIC_SEQ_CST);
        if (HsRingReserve(ring(), size) != nullptr) continue;
        syscall(SYS_futex, &ring()->tail_waiters, FUTEX_WAIT, 1, nullptr, nullptr, 0);
      }
    }
  });
  for (uint64_t i = 1; i <= kEntries;) {
    const auto entry = reader_.Peek();
    ASSERT_TRUE(entry.ok()) << entry.status();
    if (*entry == nullptr) continue;
    ASSERT_EQ((*entry)->count, i);
    const auto* bytes = reinterpret_cast<const uint8_t*>(*entry + 1);
    for (uint32_t j = sizeof(HsEntry); j < (*entry)->size; ++j) {
      ASSERT_EQ(bytes[j - sizeof(HsEntry)], i & 0xff);
    }
    reader_.Done();
    ++i;
  }
  agent.join();
}

TEST_F(RingReaderTest, WhatNobodyWantsMakesRoomEvenIfItIsNoEntry) {
  while (Write(512, 7)) {
  }
  ASSERT_NE(*reader_.Peek(), nullptr);
  std::fill(memory_.begin() + HS_RING_HEADER_BYTES, memory_.end(), 0xff);
  reader_.SkipAll();
  EXPECT_TRUE(Write(512, 8));
  EXPECT_EQ((*reader_.Peek())->count, 8u);
}

// The program can write to the ring.
TEST_F(RingReaderTest, AnyBytesAreAnErrorAtWorst) {
  std::mt19937_64 random(3);
  for (int run = 0; run < 20'000; ++run) {
    std::fill(memory_.begin(), memory_.end(), 0);
    RingReader reader(ring(), kCapacity);
    for (int i = 0; i < 64; ++i) memory_[HS_RING_HEADER_BYTES + random() % 512] = random();
    ring()->head = random() % 3 == 0 ? random() : random() % (2 * kCapacity);
    for (int i = 0; i < 100; ++i) {
      const auto entry = reader.Peek();
      if (!entry.ok() || *entry == nullptr) break;
      ASSERT_GE((*entry)->size, sizeof(HsEntry));
      ASSERT_LE((*entry)->size, kCapacity);
      reader.Done();
    }
  }
}

}  // namespace
}  // namespace hindsight

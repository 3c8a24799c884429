#include "recorder/translate/view/thread_view.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/translate/stream/ring_reader.h"

namespace hindsight {
namespace {

constexpr uint64_t kPage = ThreadView::kPage, kPages = 64;
constexpr uint64_t kCapacity = 4 << 20;

bool Read(void* to, const void* from, uint64_t bytes) {
  const iovec local = {to, bytes}, remote = {const_cast<void*>(from), bytes};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

// So often another thread stores to this byte when memory has just been read.
int stores_after_read = 0;
uint8_t* stored_after_read;

bool ReadWhileOthersStore(void* to, const void* from, uint64_t bytes) {
  const bool read = Read(to, from, bytes);
  if (stores_after_read-- > 0) ++*stored_after_read;
  return read;
}

bool IsSame(const void* memory, const void* other, uint64_t bytes) {
  std::vector<uint8_t> copy(bytes);
  return Read(copy.data(), memory, bytes) && std::memcmp(copy.data(), other, bytes) == 0;
}

uint8_t* Map(uint64_t bytes, int rights) {
  return static_cast<uint8_t*>(
      mmap(nullptr, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

// Memory of this process with a view of it.
class ThreadViewTest : public testing::Test {
 protected:
  ThreadViewTest()
      : memory_(Map(kPages * kPage, PROT_READ | PROT_WRITE)),
        seen_(Map(kPages * kPage, PROT_NONE)),
        ring_(reinterpret_cast<HsRing*>(
            Map(HS_RING_HEADER_BYTES + kCapacity, PROT_READ | PROT_WRITE))),
        reader_(ring_, kCapacity) {
    ring_->capacity = kCapacity;
    writer_.Init(ring_);
    const ViewWindow window = {At(0), At(kPages * kPage)};
    const uint64_t bytes = ThreadView::TableBytes(&window, 1);
    held_.resize(bytes);
    in_segment_.resize(bytes);
    pages_.resize(kPages);
    view_.Init(reinterpret_cast<uint64_t>(seen_) - At(0), &window, 1,
               {held_.data(), in_segment_.data(), pages_.data(), pages_.size(), &shared_},
               {&ReadWhileOthersStore, &IsSame}, &writer_, &KnownToOthers, &IsEven);
  }
  ~ThreadViewTest() override {
    stores_after_read = 0;
    munmap(memory_, kPages * kPage);
    munmap(seen_, kPages * kPage);
    munmap(ring_, HS_RING_HEADER_BYTES + kCapacity);
  }

  // Lines that begin with 7, where the view does not yet have what is new.
  static ThreadView::Known KnownToOthers(const ThreadView& view, uint64_t page, uint64_t lines,
                                         const uint8_t* bytes) {
    uint64_t known = 0;
    for (uint64_t i = 0; i < 64; ++i) {
      const auto* own = reinterpret_cast<const uint8_t*>(page + view.distance() + 64 * i);
      if ((lines >> i & 1) != 0 && own[0] != 7 && bytes[64 * i] == 7) known |= uint64_t{1} << i;
    }
    return {.lines = known, .shown = {{9, known}}};
  }

  // Every other page is one that other processes write to.
  static bool IsEven(uint64_t address) { return address / kPage % 2 == 0; }

  // Of this process.
  static uint64_t Mappings() {
    std::ifstream maps("/proc/self/maps");
    uint64_t count = 0;
    for (std::string line; std::getline(maps, line);) ++count;
    return count;
  }
  uint64_t At(uint64_t offset) const { return reinterpret_cast<uint64_t>(memory_) + offset; }

  // Brings what the trace says the view is up to date. Returns the entries' counts.
  std::vector<uint64_t> Replay() {
    std::vector<uint64_t> counts;
    others_know_ = 0;
    while (true) {
      const auto entry = reader_.Peek();
      EXPECT_TRUE(entry.ok()) << entry.status();
      if (!entry.ok() || *entry == nullptr) return counts;
      counts.push_back((*entry)->count);
      if ((*entry)->kind == HS_ENTRY_PAGE) {
        const auto* page = reinterpret_cast<const HsPage*>(*entry);
        EXPECT_TRUE(known_.emplace(page->address, std::vector<uint8_t>()).second);
        known_[page->address].assign(page->bytes, page->bytes + kPage);
      } else if ((*entry)->kind == HS_ENTRY_LINES) {
        const auto* lines = reinterpret_cast<const HsLines*>(*entry);
        const uint8_t* next = lines->bytes;
        others_know_ |= lines->known;
        for (int i = 0; i < 64; ++i) {
          if ((lines->mask >> i & 1) == 0) continue;
          std::memcpy(&known_.at(lines->address)[i * 64], next, 64);
          next += 64;
        }
      }
      reader_.Done();
    }
  }
  // The trace's contents of each page that is held are the view's.
  void ExpectKnown() {
    for (uint64_t i = 0; i < kPages; ++i) {
      if (!view_.Holds(At(i * kPage))) continue;
      ASSERT_TRUE(known_.contains(At(i * kPage))) << i;
      EXPECT_EQ(std::memcmp(known_[At(i * kPage)].data(), seen_ + i * kPage, kPage), 0) << i;
    }
  }

  uint8_t* const memory_;
  uint8_t* const seen_;
  HsRing* const ring_;
  RingReader reader_;
  EntryWriter writer_;
  ViewMemory::Shared shared_ = {};
  std::vector<uint8_t> held_, in_segment_;
  std::vector<uint64_t> pages_;
  ThreadView view_;
  std::map<uint64_t, std::vector<uint8_t>> known_;
  uint64_t others_know_ = 0;  // lines, of the last Replay
};

TEST_F(ThreadViewTest, APageThatIsTouchedEntersTheViewAndTheTrace) {
  memory_[5 * kPage + 9] = 42;
  EXPECT_FALSE(view_.Holds(At(5 * kPage)));
  ASSERT_TRUE(view_.Touch(At(5 * kPage + 100), {17}));
  EXPECT_TRUE(view_.Holds(At(5 * kPage)));
  EXPECT_EQ(seen_[5 * kPage + 9], 42);
  seen_[5 * kPage] = 1;  // it may be written to
  EXPECT_EQ(Replay(), (std::vector<uint64_t>{17}));
  EXPECT_EQ(known_.at(At(5 * kPage))[9], 42);
}

TEST_F(ThreadViewTest, TouchedAgainNothingHappens) {
  ASSERT_TRUE(view_.Touch(At(0), {1}));
  ASSERT_TRUE(view_.Touch(At(8), {2}));
  EXPECT_EQ(Replay().size(), 1u);
}

TEST_F(ThreadViewTest, WhatCannotBeReadDoesNotEnter) {
  mprotect(memory_ + kPage, kPage, PROT_NONE);
  EXPECT_FALSE(view_.Touch(At(kPage), {1}));
  EXPECT_FALSE(view_.Holds(At(kPage)));
  EXPECT_FALSE(view_.Touch(At(kPages * kPage), {1}));  // no window
  EXPECT_TRUE(Replay().empty());
}

TEST_F(ThreadViewTest, WhoGoesThroughMemoryInOrderGetsMoreAtOnce) {
  int touches = 0;
  for (uint64_t i = 0; i < kPages; ++i) {
    if (view_.Holds(At(i * kPage))) continue;
    ASSERT_TRUE(view_.Touch(At(i * kPage), {i}));
    ++touches;
  }
  EXPECT_LT(touches, 10);
  Replay();
  ExpectKnown();
}

TEST_F(ThreadViewTest, TheNextSegmentBeginsWithThePagesThatAreKept) {
  for (const uint64_t page : {7, 3, 5, 6, 1}) {
    memory_[page * kPage] = static_cast<uint8_t>(page);
    ASSERT_TRUE(view_.Touch(At(page * kPage), {1}));
  }
  Replay();
  view_.KeepFirst(2);
  EXPECT_TRUE(view_.Holds(At(7 * kPage)));
  EXPECT_TRUE(view_.Holds(At(3 * kPage)));
  for (const uint64_t page : {5, 6, 1}) EXPECT_FALSE(view_.Holds(At(page * kPage))) << page;
  known_.clear();
  view_.BeginSegment(2);
  EXPECT_EQ(view_.page_count(), 2u);
  EXPECT_EQ(Replay(), (std::vector<uint64_t>{2, 2}));
  ASSERT_TRUE(view_.Touch(At(5 * kPage), {3}));
  EXPECT_EQ(seen_[5 * kPage], 5);
}

TEST_F(ThreadViewTest, WhatOthersKnowIsToldWithTheLines) {
  ASSERT_TRUE(view_.Touch(At(0), {1}));
  memory_[64] = 7;
  memory_[2 * 64] = 8;
  ASSERT_TRUE(view_.Compare(At(0), 8, 2));
  Replay();
  EXPECT_EQ(others_know_, 2u);
  ExpectKnown();
}

TEST_F(ThreadViewTest, LinesThatDifferAreImported) {
  ASSERT_TRUE(view_.TouchAll(At(kPage - 8), 16, 1));
  Replay();
  memory_[kPage - 1] = 1;
  memory_[kPage] = 2;
  memory_[2 * kPage] = 3;  // not of the range
  ASSERT_TRUE(view_.Compare(At(kPage - 8), 16, 2));
  EXPECT_EQ(seen_[kPage - 1], 1);
  EXPECT_EQ(seen_[kPage], 2);
  EXPECT_EQ(Replay(), (std::vector<uint64_t>{2, 2}));
  ExpectKnown();
  ASSERT_TRUE(view_.Compare(At(kPage - 8), 16, 3));
  EXPECT_TRUE(Replay().empty());
}

TEST_F(ThreadViewTest, WhatIsStoredBeforeTheTimeIsTakenIsInTheImport) {
  stored_after_read = memory_ + 9;
  stores_after_read = 1;
  ASSERT_TRUE(view_.Touch(At(9), {0}));
  EXPECT_EQ(seen_[9], 1);
  memory_[9] = 10;
  stores_after_read = 2;
  ASSERT_TRUE(view_.Compare(At(9), 1, 3));
  EXPECT_EQ(seen_[9], 12);
  // Others may store all the time.
  memory_[9] = 20;
  stores_after_read = 1000;
  ASSERT_TRUE(view_.Compare(At(9), 1, 4));
  EXPECT_EQ(seen_[9] + 1, memory_[9]);
  Replay();
  ExpectKnown();
}

// A locked instruction has changed memory, and its view, before anybody could compare.
TEST_F(ThreadViewTest, WhatMemoryHadBeforeAnInstructionIsImported) {
  ASSERT_TRUE(view_.Touch(At(0), {1}));
  Replay();
  memory_[7] = 9;  // somebody else, before
  memory_[7] = seen_[7] = 3;
  memory_[70] = 4;  // somebody else
  const uint8_t old = 9;
  view_.TakeOld(At(7), 1, &old, /*time=*/1234, 2);
  EXPECT_EQ(seen_[7], 3);
  EXPECT_EQ(seen_[70], 0) << "nothing says that it was there by then";
  EXPECT_EQ(Replay(), std::vector<uint64_t>{2});
  EXPECT_EQ(known_[At(0)][7], 9) << "as the instruction finds it when it is replayed";
  EXPECT_EQ(known_[At(0)][70], 0);
}

// The translated store reaches the view first.
TEST_F(ThreadViewTest, AStoreThatFailsIsTakenBackByComparing) {
  ASSERT_TRUE(view_.TouchAll(At(kPage - 8), 16, 1));
  std::memset(seen_ + kPage - 8, 7, 16);
  ASSERT_TRUE(view_.Compare(At(kPage - 8), 16, 2));
  EXPECT_EQ(std::memcmp(seen_ + kPage - 8, memory_ + kPage - 8, 16), 0);
  Replay();
  ExpectKnown();
}

TEST_F(ThreadViewTest, OtherMemoryAtTheSameAddressIsImportedWhole) {
  std::memset(memory_, 1, kPage);
  ASSERT_TRUE(view_.Touch(At(0), {1}));
  view_.Drop(At(0), At(kPage));
  EXPECT_FALSE(view_.Holds(At(0)));
  std::memset(memory_, 0, kPage);
  ASSERT_TRUE(view_.Touch(At(0), {2}));
  Replay();
  EXPECT_EQ(known_.at(At(0))[0], 0);
  ExpectKnown();
}

TEST_F(ThreadViewTest, WhatWasKnownOfOtherMemoryIsReadAgain) {
  ASSERT_TRUE(view_.Touch(At(0), {1}));
  ASSERT_TRUE(view_.Touch(At(5 * kPage), {1}));
  view_.Drop(At(0), At(kPage));
  memory_[0] = 7;
  view_.EnterAgain(At(0), At(9 * kPage), 0, 2);
  EXPECT_TRUE(view_.Holds(At(0)));
  EXPECT_FALSE(view_.Holds(At(kPage)));
  Replay();
  EXPECT_EQ(known_.at(At(0))[0], 7);
  ExpectKnown();
}

TEST_F(ThreadViewTest, WhatWasKnownOfMovedMemoryIsReadWhereItIs) {
  ASSERT_TRUE(view_.Touch(At(3 * kPage), {1}));
  view_.Drop(At(2 * kPage), At(4 * kPage));
  memory_[11 * kPage] = 9;
  view_.EnterAgain(At(2 * kPage), At(4 * kPage), 8 * kPage, 2);
  EXPECT_FALSE(view_.Holds(At(3 * kPage)));
  EXPECT_FALSE(view_.Holds(At(10 * kPage)));
  EXPECT_TRUE(view_.Holds(At(11 * kPage)));
  Replay();
  ExpectKnown();
}

TEST_F(ThreadViewTest, ASegmentBeginsWithAllThatIsHeld) {
  ASSERT_TRUE(view_.Touch(At(3 * kPage), {1}));
  ASSERT_TRUE(view_.Touch(At(9 * kPage), {2}));
  ASSERT_TRUE(view_.Touch(At(20 * kPage), {3}));
  Replay();
  seen_[9 * kPage] = memory_[9 * kPage] = 5;
  view_.Drop(At(20 * kPage), At(21 * kPage));
  known_.clear();
  view_.BeginSegment(100);
  EXPECT_EQ(Replay(), (std::vector<uint64_t>{100, 100}));
  ExpectKnown();
  ASSERT_TRUE(view_.Touch(At(20 * kPage), {101}));
  Replay();
  ExpectKnown();
}

TEST_F(ThreadViewTest, ComparedAsAWholeItIsWhatMemoryHolds) {
  for (const uint64_t page : {3, 9, 20}) ASSERT_TRUE(view_.Touch(At(page * kPage), {page}));
  Replay();
  memory_[9 * kPage + 70] = 5;  // by somebody else
  view_.Drop(At(20 * kPage), At(21 * kPage));
  memory_[20 * kPage] = 6;  // what is mapped there now
  view_.CompareAll(50);
  EXPECT_EQ(Replay(), (std::vector<uint64_t>{50, 50}));
  for (const uint64_t page : {3, 9, 20}) EXPECT_TRUE(view_.Holds(At(page * kPage)));
  ExpectKnown();
  EXPECT_EQ(seen_[9 * kPage + 70], 5);
  EXPECT_EQ(seen_[20 * kPage], 6);
}

TEST_F(ThreadViewTest, PagesThatOthersWriteToAreComparedByThemselves) {
  for (const uint64_t page : {3, 4}) {
    ASSERT_TRUE(view_.Touch(At(page * kPage), {page}));
    memory_[page * kPage] = 5;  // by somebody else
  }
  Replay();
  view_.CompareShared(50);
  const bool first_is_even = IsEven(At(3 * kPage));
  EXPECT_EQ(Replay(), (std::vector<uint64_t>{50}));
  EXPECT_EQ(seen_[(first_is_even ? 3 : 4) * kPage], 5);
  EXPECT_EQ(seen_[(first_is_even ? 4 : 3) * kPage], 0);
}

TEST_F(ThreadViewTest, ASegmentBeginsWithWhatMemoryHasByThen) {
  for (const uint64_t page : {3, 9, 20}) ASSERT_TRUE(view_.Touch(At(page * kPage), {page}));
  Replay();
  memory_[9 * kPage + 70] = 5;  // by somebody else
  view_.Drop(At(20 * kPage), At(21 * kPage));
  memory_[20 * kPage] = 6;
  view_.Refresh(50);
  EXPECT_EQ(Replay(), std::vector<uint64_t>{50}) << "when that was";
  EXPECT_EQ(known_[At(9 * kPage)][70], 0) << "what the segment begins with says it";
  EXPECT_FALSE(view_.Holds(At(20 * kPage)));
  EXPECT_EQ(seen_[9 * kPage + 70], 5);
  known_.clear();
  view_.BeginSegment(50);
  EXPECT_EQ(Replay(), (std::vector<uint64_t>{50, 50}));
  ExpectKnown();
}

TEST_F(ThreadViewTest, MemoryOfManyRunsTakesFewMappings) {
  const uint64_t before = Mappings();
  shared_.runs = ViewMemory::kManyRuns;
  for (uint64_t i = 0; i < kPages; i += 2) {
    memory_[i * kPage] = static_cast<uint8_t>(i);
    ASSERT_TRUE(view_.Touch(At(i * kPage), {i}));
  }
  EXPECT_GT(shared_.file, 0);
  EXPECT_EQ(shared_.runs, ViewMemory::kManyRuns);
  EXPECT_LT(Mappings() - before, kPages / 2);
  Replay();
  ExpectKnown();
  uint8_t byte;
  EXPECT_FALSE(Read(&byte, seen_ + kPage, 1));
  EXPECT_TRUE(Read(&byte, seen_, 1));
  view_.Drop(At(0), At(3 * kPage));
  EXPECT_FALSE(Read(&byte, seen_, 1));
  close(shared_.file);
}

TEST_F(ThreadViewTest, RunsAreCounted) {
  ASSERT_TRUE(view_.Touch(At(4 * kPage), {1}));
  ASSERT_TRUE(view_.Touch(At(6 * kPage), {1}));
  EXPECT_EQ(shared_.runs, 2u);
  ASSERT_TRUE(view_.TouchAll(At(5 * kPage), 1, 1));
  EXPECT_EQ(shared_.runs, 1u);
  view_.Drop(At(5 * kPage), At(6 * kPage));
  EXPECT_EQ(shared_.runs, 2u);
  view_.GiveUp();
  EXPECT_EQ(shared_.runs, 0u);
}

// With so many runs of pages elsewhere.
class CrowdedViewTest : public ThreadViewTest, public testing::WithParamInterface<uint64_t> {};
// Memory of this process with the view of two windows of it. Between their views lies memory that
// is not a view's.
class TwoWindowsTest : public testing::Test {
 protected:
  static constexpr uint64_t kFirst = 4, kSecond = 12, kAll = 16;  // pages
  TwoWindowsTest()
      : memory_(Map(kAll * kPage, PROT_READ | PROT_WRITE)),
        seen_(Map(kAll * kPage, PROT_NONE)),
        ring_(reinterpret_cast<HsRing*>(
            Map(HS_RING_HEADER_BYTES + kCapacity, PROT_READ | PROT_WRITE))) {
    ring_->capacity = kCapacity;
    writer_.Init(ring_);
    const ViewWindow windows[] = {{At(0), At(kFirst)}, {At(kSecond), At(kAll)}};
    held_.resize(ThreadView::TableBytes(windows, 2));
    in_segment_.resize(held_.size());
    pages_.resize(kAll);
    view_.Init(reinterpret_cast<uint64_t>(seen_) - At(0), windows, 2,
               {held_.data(), in_segment_.data(), pages_.data(), pages_.size(), &shared_},
               {&Read, &IsSame}, &writer_);
    EXPECT_EQ(mprotect(between(), (kSecond - kFirst) * kPage, PROT_READ | PROT_WRITE), 0);
    std::memset(between(), 5, (kSecond - kFirst) * kPage);
  }
  ~TwoWindowsTest() override {
    munmap(memory_, kAll * kPage);
    munmap(seen_, kAll * kPage);
    munmap(ring_, HS_RING_HEADER_BYTES + kCapacity);
  }

  uint64_t At(uint64_t page) const { return reinterpret_cast<uint64_t>(memory_) + page * kPage; }
  uint8_t* between() const { return seen_ + kFirst * kPage; }

  uint8_t* const memory_;
  uint8_t* const seen_;
  HsRing* const ring_;
  EntryWriter writer_;
  std::vector<uint8_t> held_, in_segment_;
  std::vector<uint64_t> pages_;
  ViewMemory::Shared shared_ = {};
  ThreadView view_;
};

TEST_F(TwoWindowsTest, ADropOfAllLeavesWhatLiesBetween) {
  for (const uint64_t end : {At(kAll), ~uint64_t{0}}) {
    ASSERT_TRUE(view_.Touch(At(0), {1}));
    ASSERT_TRUE(view_.Touch(At(kAll - 1), {1}));
    view_.Drop(0, end);
    EXPECT_FALSE(view_.Holds(At(0)));
    EXPECT_FALSE(view_.Holds(At(kAll - 1)));
    EXPECT_EQ(between()[0], 5);
    EXPECT_EQ(between()[(kSecond - kFirst) * kPage - 1], 5);
  }
}

INSTANTIATE_TEST_SUITE_P(With, CrowdedViewTest, testing::Values(0, ViewMemory::kManyRuns));

TEST_P(CrowdedViewTest, AnythingInAnyOrderLeavesTraceAndViewTheSame) {
  std::mt19937_64 random(7);
  shared_.runs = GetParam();
  for (uint64_t i = 0; i < kPages; i += 2) ASSERT_TRUE(view_.Touch(At(i * kPage), {0}));
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t page = random() % kPages;
    const uint64_t offset = page * kPage + random() % kPage;
    switch (random() % 6) {
      case 0:
        memory_[offset] = static_cast<uint8_t>(random());  // others
        break;
      case 1:
        ASSERT_TRUE(view_.Touch(At(offset), {.count = static_cast<uint64_t>(i)}));
        break;
      case 2:
        ASSERT_TRUE(view_.Compare(At(page * kPage), kPage, i));
        break;
      case 3:
        if (random() % 8 == 0) {
          view_.Drop(At(page * kPage), At(std::min(kPages, page + 1 + random() % 9) * kPage));
        }
        break;
      case 4:
        if (!view_.Holds(At(offset)) || !view_.Compare(At(offset), 1, i)) break;
        Replay();
        seen_[offset] = memory_[offset] = known_[At(page * kPage)][offset % kPage] = 1;
        break;
      default:
        if (random() % 50 != 0) break;
        Replay();
        known_.clear();
        view_.BeginSegment(i);
    }
    Replay();
    if (i % 64 == 0) ExpectKnown();
  }
}

}  // namespace
}  // namespace hindsight

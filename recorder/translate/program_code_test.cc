// Which known pages are taken in while the program runs: of a file that is mapped here, the
// "program".

#include "recorder/translate/program_code.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "recorder/process/memory_map.h"

namespace hindsight {
namespace {

// In a window of the program's addresses, where nothing of this process is, not even a sanitizer.
constexpr uint64_t kStart = 0x45000000;
constexpr int kPages = 64;

class ProgramCodeTest : public testing::Test {
 protected:
  ProgramCodeTest() {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directory(directory_);
    // Each page is a return and nothing else, so that no block leads to another one.
    const UniqueFd fd(open((directory_ + "/code").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const std::vector<uint8_t> code(kPages * kPageBytes, 0xc3);
    EXPECT_EQ(write(fd.get(), code.data(), code.size()), static_cast<ssize_t>(code.size()));
    void* const at = reinterpret_cast<void*>(kStart);
    EXPECT_EQ(mmap(at, code.size(), PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE,
                   fd.get(), 0),
              at);
    for (uint64_t i = 0; i < 50; ++i) order_.push_back(kStart + i * 37 % 61 * kPageBytes);
    Begin();
    for (const uint64_t pc : order_) EXPECT_NE(code_->Translate(pc), 0u);
    memo_->Save();
    Begin();
  }
  ~ProgramCodeTest() override {
    munmap(reinterpret_cast<void*>(kStart), kPages * kPageBytes);
    code_.reset();
  }

  // Another recording with the same store.
  void Begin() {
    code_.reset();
    memo_ = std::make_shared<TranslationMemo>(TranslationStore::Open(directory_, "test"));
    fd_ = UniqueFd(memfd_create("hindsight", MFD_CLOEXEC));
    file_ = std::make_unique<MemoryFile>(*MemoryFile::Open(getpid(), fd_.get()));
    TranslationOptions options;
    options.guards = std::make_shared<CodeGuards>();
    options.memo = memo_;
    options.flavour = flavour_;
    options.exclusive_memory = flavour_ == Flavour::kRecord;
    code_ = std::make_unique<ProgramCode>(getpid(), options, file_.get());
  }
  // Asks for the page at this place of the order, then has so many pages taken in as there are.
  size_t Ask(size_t place) {
    EXPECT_FALSE(IsIn(place)) << place;
    EXPECT_NE(code_->Translate(order_[place]), 0u);
    EXPECT_TRUE(IsIn(place));
    return TakeAhead();
  }
  size_t TakeAhead() {
    size_t taken = 0;
    while (code_->TranslateAhead()) ++taken;
    return taken;
  }
  bool IsIn(size_t place) const {
    const auto map = file_->block_map();
    return std::any_of(map.begin(), map.end(), [=, this](const BlockMapEntry& entry) {
      return entry.guest_pc == order_[place];
    });
  }

  Flavour flavour_ = Flavour::kPlain;
  const std::string directory_ = testing::TempDir() + "/program_code";
  std::vector<uint64_t> order_;  // in which pages were executed in the first recording
  UniqueFd fd_;
  std::shared_ptr<TranslationMemo> memo_;
  std::unique_ptr<MemoryFile> file_;
  std::unique_ptr<ProgramCode> code_;
};

TEST_F(ProgramCodeTest, PagesAreTakenInTheOrderInWhichTheyWereExecuted) {
  EXPECT_FALSE(code_->TranslateAhead());
  EXPECT_EQ(Ask(0), 8u);
  for (size_t place = 0; place <= 8; ++place) EXPECT_TRUE(IsIn(place)) << place;
  EXPECT_FALSE(IsIn(9));
  EXPECT_EQ(Ask(9), 16u);
  EXPECT_TRUE(IsIn(25));
  EXPECT_EQ(Ask(26), 50u - 27) << "there are no more";
  EXPECT_EQ(code_->block_count(), 50u);
}

TEST_F(ProgramCodeTest, WhoIsElsewhereGetsNone) {
  EXPECT_EQ(Ask(30), 0u);
  EXPECT_EQ(Ask(10), 0u);
  EXPECT_EQ(Ask(11), 8u);
  EXPECT_EQ(Ask(20), 16u);
  EXPECT_TRUE(IsIn(37)) << "30 was there, and cost nothing";
  EXPECT_FALSE(IsIn(38));
}

TEST_F(ProgramCodeTest, NothingIsTakenAfterItIsStopped) {
  code_->Translate(order_[0]);
  EXPECT_TRUE(code_->TranslateAhead());
  code_->StopAhead();
  EXPECT_FALSE(code_->TranslateAhead());
  EXPECT_EQ(Ask(2), 16u);
}

// A page that begins with jumps, each to the next one.
TEST_F(ProgramCodeTest, OneBlockIsTranslatedAtOnceAndSomeOfThoseItLeadsToAfterwards) {
  std::vector<uint8_t> jumps(100 * 2);
  for (size_t i = 0; i < jumps.size(); i += 2) jumps[i] = 0xeb;
  const UniqueFd fd(open((directory_ + "/code").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(pwrite(fd.get(), jumps.data(), jumps.size(), (kPages - 2) * off_t{kPageBytes}),
            static_cast<ssize_t>(jumps.size()));
  const uint64_t first = kStart + (kPages - 2) * kPageBytes;
  EXPECT_NE(code_->Translate(first), 0u);
  EXPECT_EQ(code_->block_count(), 1u);
  EXPECT_EQ(TakeAhead(), 6u);
  EXPECT_EQ(code_->block_count(), 7u);
  EXPECT_NE(code_->Translate(first + 7 * 2), 0u);
  EXPECT_EQ(code_->block_count(), 8u);
}

TEST_F(ProgramCodeTest, WhatIsMappedNoMoreIsNotTaken) {
  EXPECT_EQ(Ask(0), 8u);
  code_->Translate(order_[9]);
  code_->Invalidate(kStart, kStart + kPages * kPageBytes);
  EXPECT_EQ(code_->block_count(), 0u);
  EXPECT_FALSE(code_->TranslateAhead());
}

// Nothing leads to what does not compare its loads any more, which is in another file of the store.
TEST_F(ProgramCodeTest, MemoryThatIsSharedIsComparedFromThenOn) {
  flavour_ = Flavour::kRecord;
  Begin();
  EXPECT_EQ(file_->control()->exclusive, 1u);
  const uint64_t trusting = code_->Translate(order_[0]);
  const uint32_t epoch = file_->control()->epoch;
  code_->ShareMemory();
  EXPECT_EQ(file_->control()->exclusive, 0u);
  EXPECT_NE(file_->control()->epoch, epoch);
  EXPECT_EQ(code_->block_count(), 0u);
  const auto map = file_->block_map();
  EXPECT_FALSE(std::any_of(map.begin(), map.end(),
                           [](const BlockMapEntry& entry) { return entry.host != 0; }));
  const uint64_t comparing = code_->Translate(order_[0]);
  EXPECT_NE(comparing, 0u);
  EXPECT_NE(comparing, trusting);
  EXPECT_TRUE(code_->Recover(trusting).has_value()) << "who asks where it was finds that";
  memo_->Save();
  Begin();
  EXPECT_NE(code_->Translate(order_[0]), 0u);
  code_->ShareMemory();
  EXPECT_NE(code_->Translate(order_[0]), 0u);
  EXPECT_EQ(code_->block_count(), 1u);
}

TEST_F(ProgramCodeTest, PagesWithOtherBytesAreNotTaken) {
  const int changed = static_cast<int>((order_[3] - kStart) / kPageBytes);
  const UniqueFd fd(open((directory_ + "/code").c_str(), O_RDWR | O_CLOEXEC));
  const uint8_t nop = 0x90;
  ASSERT_EQ(pwrite(fd.get(), &nop, 1, changed * static_cast<off_t>(kPageBytes)), 1);
  EXPECT_EQ(Ask(0), 8u);
  EXPECT_TRUE(IsIn(2));
  EXPECT_FALSE(IsIn(3));
  EXPECT_TRUE(IsIn(4));
  EXPECT_NE(code_->Translate(order_[3]), 0u);
  EXPECT_TRUE(IsIn(3));
}

TEST_F(ProgramCodeTest, EpochTellsWhatIsFoundAndForgottenOfTheCode) {
  const uint32_t begin = file_->control()->epoch;
  EXPECT_NE(code_->Translate(order_[0]), 0u);
  const uint32_t found = file_->control()->epoch;
  EXPECT_NE(found, begin);
  EXPECT_NE(code_->Translate(order_[20]), 0u);
  EXPECT_EQ(file_->control()->epoch, found) << "in the same region";
  const uint64_t nobody_was_here = kStart + (kPages - 1) * kPageBytes;
  code_->Invalidate(nobody_was_here, nobody_was_here + kPageBytes);
  EXPECT_NE(file_->control()->epoch, found);
}

// What a process has read of its code is its child's, for which this process stands here, too. The
// file is changed meanwhile, which shows in pages that nobody has read.
TEST_F(ProgramCodeTest, ChildTakesWhatItsMakerHasReadOfItsCode) {
  constexpr uint8_t kReturn = 0xc3, kNop = 0x90;
  const auto ignored = [](const MapRegion&) {};
  CodeSource maker(getpid(), ignored);
  const uint64_t read = kStart, last_read = kStart + 15 * kPageBytes;
  const uint64_t unread = kStart + 40 * kPageBytes;
  ASSERT_EQ(maker.At(read)[0], kReturn);
  const UniqueFd fd(open((directory_ + "/code").c_str(), O_RDWR | O_CLOEXEC));
  const std::vector<uint8_t> changed(kPages * kPageBytes, kNop);
  ASSERT_EQ(pwrite(fd.get(), changed.data(), changed.size(), 0),
            static_cast<ssize_t>(changed.size()));

  std::vector<MapRegion> told;
  CodeSource child(getpid(), [&](const MapRegion& region) { told.push_back(region); });
  child.Inherit(&maker);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].start, kStart);
  EXPECT_TRUE(child.IsConstant(read));
  EXPECT_EQ(child.At(read)[0], kReturn);
  EXPECT_EQ(child.At(last_read)[kPageBytes - 1], kReturn) << "the next page is not known";
  EXPECT_EQ(child.At(last_read)[kPageBytes], kNop);
  EXPECT_EQ(child.At(unread)[0], kNop);
  EXPECT_EQ(maker.At(read)[0], kReturn);

  // A child of the child knows what both have read.
  CodeSource grandchild(getpid(), ignored);
  grandchild.Inherit(&child);
  ASSERT_EQ(pwrite(fd.get(), std::vector<uint8_t>(changed.size(), 0xf4).data(), changed.size(), 0),
            static_cast<ssize_t>(changed.size()));
  EXPECT_EQ(grandchild.At(read)[0], kReturn);
  EXPECT_EQ(grandchild.At(unread)[0], kNop);

  EXPECT_TRUE(child.Forget(kStart, kStart + kPageBytes));
  EXPECT_FALSE(child.Forget(kStart, kStart + kPageBytes));
  EXPECT_EQ(child.At(read)[0], 0xf4);
  EXPECT_EQ(grandchild.At(read)[0], kReturn);
}

TEST_F(ProgramCodeTest, ChildTakesNothingOfWhatIsOtherwiseMapped) {
  CodeSource maker(getpid(), [](const MapRegion&) {});
  ASSERT_FALSE(maker.At(kStart).empty());
  void* const at = reinterpret_cast<void*>(kStart);
  const UniqueFd fd(open((directory_ + "/code").c_str(), O_RDONLY | O_CLOEXEC));
  const auto map_again = [&](int protection, off_t offset) {
    ASSERT_EQ(mmap(at, kPages * kPageBytes, protection, MAP_PRIVATE | MAP_FIXED, fd.get(), offset),
              at);
  };
  const auto takes = [&] {
    bool any = false;
    CodeSource child(getpid(), [&](const MapRegion&) { any = true; });
    child.Inherit(&maker);
    return any;
  };
  map_again(PROT_READ | PROT_EXEC, 0);
  EXPECT_TRUE(takes());
  map_again(PROT_READ | PROT_EXEC, kPageBytes);
  EXPECT_FALSE(takes());
  map_again(PROT_READ | PROT_WRITE | PROT_EXEC, 0);
  EXPECT_FALSE(takes());
}

// Code of a library: of its file, as long as that is what the process has.
class SystemCodeTest : public testing::Test {
 protected:
  void SetUp() override {
    const MemoryMap map = MemoryMap::OfProcess("/proc/self/maps");
    for (const MapRegion& region : map.regions()) {
      if (region.name.find("/libc.so") != std::string::npos) library_ = region;
    }
    Map();
    if (files_->Find("", RegionHere()) == nullptr) GTEST_SKIP() << "its file does not tell times";
  }
  ~SystemCodeTest() override { munmap(at(0), kBytes); }

  static constexpr uint64_t kPlace = 0x48000000, kBytes = 64 * kPageBytes;
  static uint8_t* at(uint64_t page) {
    return reinterpret_cast<uint8_t*>(kPlace + page * kPageBytes);
  }
  static MapRegion RegionHere() { return *MemoryMap::OfProcess("/proc/self/maps").Find(kPlace); }
  void Map() const {
    const UniqueFd fd(open(library_.name.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(mmap(at(0), kBytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd.get(), 0),
              at(0));
  }
  void Protect(int protection) const { ASSERT_EQ(mprotect(at(0), kBytes, protection), 0); }
  // Without its being told of a change, as if it were not there yet.
  CodeSource NewSource() const {
    return CodeSource(
        getpid(), [](const MapRegion&) {}, files_);
  }
  static bool IsAsInMemory(CodeSource* source, uint64_t page) {
    const absl::Span<const uint8_t> bytes = source->At(kPlace + page * kPageBytes + 16);
    return bytes.size() == 2 * kPageBytes - 16 &&
           std::equal(bytes.begin(), bytes.end(), at(page) + 16);
  }

  MapRegion library_;
  const std::shared_ptr<CodeFiles> files_ = std::make_shared<CodeFiles>();
};

TEST_F(SystemCodeTest, IsReadFromTheFile) {
  CodeSource source = NewSource();
  EXPECT_TRUE(IsAsInMemory(&source, 0));
  EXPECT_TRUE(IsAsInMemory(&source, 40));
  // Nobody has told of this: it shows who is not asked.
  Protect(PROT_READ | PROT_WRITE);
  *(at(0) + 20) ^= 1;
  Protect(PROT_READ | PROT_EXEC);
  EXPECT_FALSE(IsAsInMemory(&source, 0));
  source.Forget(kPlace, kPlace + kBytes);
  EXPECT_TRUE(IsAsInMemory(&source, 0));
}

TEST_F(SystemCodeTest, IsReadFromMemoryIfTheProcessHasStoredThere) {
  Protect(PROT_READ | PROT_WRITE);
  *(at(40) + 20) ^= 1;
  Protect(PROT_READ | PROT_EXEC);
  CodeSource source = NewSource();
  EXPECT_TRUE(IsAsInMemory(&source, 40));
  EXPECT_TRUE(IsAsInMemory(&source, 0));
}

TEST_F(SystemCodeTest, IsReadFromMemoryOnceOthersMayStoreThere) {
  CodeSource source = NewSource();
  EXPECT_TRUE(IsAsInMemory(&source, 0));
  files_->EndAll();
  Protect(PROT_READ | PROT_WRITE);
  *(at(8) + 20) ^= 1;
  Protect(PROT_READ | PROT_EXEC);
  EXPECT_TRUE(IsAsInMemory(&source, 8));
}

TEST_F(SystemCodeTest, IsAlsoAChilds) {
  CodeSource maker = NewSource();
  EXPECT_TRUE(IsAsInMemory(&maker, 0));
  CodeSource child = NewSource();
  EXPECT_TRUE(child.Inherit(&maker).empty());
  EXPECT_TRUE(IsAsInMemory(&child, 0));
  EXPECT_TRUE(IsAsInMemory(&child, 20));
}

}  // namespace
}  // namespace hindsight

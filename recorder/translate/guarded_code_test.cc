// When blocks of code that can be written to check it: of memory that is mapped here, the
// "program".

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "base/unique_fd.h"
#include "recorder/translate/guard/code_check.h"
#include "recorder/translate/program_code.h"
#include "translator/host/branch_site.h"

namespace hindsight {
namespace {

// In a window of the program's addresses, where nothing of this process is, not even a sanitizer.
constexpr uint64_t kStart = 0x46000000;
constexpr uint64_t kPages = 4;
constexpr uint64_t kLastOfPage = kStart + kPageBytes - 2;

class GuardedCodeTest : public testing::Test {
 protected:
  GuardedCodeTest() {
    Map(MAP_ANONYMOUS | MAP_PRIVATE, -1);
    fd_ = UniqueFd(memfd_create("hindsight", MFD_CLOEXEC));
    file_ = std::make_unique<MemoryFile>(*MemoryFile::Open(getpid(), fd_.get()));
    code_ = MakeCode();
  }
  ~GuardedCodeTest() override {
    code_.reset();
    munmap(code_at(kStart), kPages * kPageBytes);
  }
  void SetUp() override {
    UniqueFd file = MakeUserfaultfd();
    if (!file.valid()) GTEST_SKIP() << "no userfaultfd for this user";
    ASSERT_TRUE(code_->OpenGuard(std::move(file)));
  }

  static UniqueFd MakeUserfaultfd() {
    return UniqueFd(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)));
  }
  std::unique_ptr<ProgramCode> MakeCode() {
    TranslationOptions options;
    options.memo = std::make_shared<TranslationMemo>();
    options.guards = guards_;
    options.flavour = Flavour::kRecord;
    return std::make_unique<ProgramCode>(getpid(), options, file_.get());
  }

  static uint8_t* code_at(uint64_t address) { return reinterpret_cast<uint8_t*>(address); }
  // Returns everywhere.
  static void Map(int flags, int file) {
    void* const at = code_at(kStart);
    ASSERT_EQ(mmap(at, kPages * kPageBytes, PROT_READ | PROT_WRITE | PROT_EXEC, flags | MAP_FIXED,
                   file, 0),
              at);
    std::memset(at, 0xc3, kPages * kPageBytes);
  }
  // As long as pages take to settle at first, and some more; then looks after them.
  size_t Wait() {
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
    size_t pages = 0;
    while (code_->GuardSettledPage()) ++pages;
    return pages;
  }
  // Until there is one to look after.
  void WaitForPage() {
    while (!code_->GuardSettledPage()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  bool Checks(uint64_t host) const {
    const uint8_t opcode = file_->code(host)[kGuardBranchAt - 1];
    EXPECT_TRUE(opcode == kJumpOpcode || opcode == kFallThroughOpcode);
    return opcode == kJumpOpcode;
  }
  // Of the thread's, for the block's guard.
  int32_t ByteOf(uint64_t host) const {
    int32_t place = 0;
    std::memcpy(&place, file_->code(host) + kGuardByteAt, sizeof(place));
    return place;
  }

  UniqueFd fd_;
  const std::shared_ptr<CodeGuards> guards_ = std::make_shared<CodeGuards>();
  std::unique_ptr<MemoryFile> file_;
  std::unique_ptr<ProgramCode> code_;
};

TEST_F(GuardedCodeTest, CodeIsCheckedUntilItHasSettledAndFromTheNextStoreOn) {
  const auto start = CodeGuard::Clock::now();
  const uint64_t first = code_->Translate(kStart), second = code_->Translate(kStart + 64);
  const uint64_t other = code_->Translate(kStart + kPageBytes);
  EXPECT_TRUE(Checks(first));
  WaitForPage();
  EXPECT_GE(CodeGuard::Clock::now() - start, std::chrono::milliseconds(30));
  WaitForPage();
  EXPECT_FALSE(Checks(first));
  EXPECT_FALSE(Checks(second));
  EXPECT_FALSE(Checks(other));
  EXPECT_EQ(ByteOf(first), ByteOf(second));
  EXPECT_NE(ByteOf(first), ByteOf(other));

  const auto stored = CodeGuard::Clock::now();
  code_at(kStart)[300] = 0x90;
  EXPECT_TRUE(Checks(first)) << "anywhere in the page";
  EXPECT_TRUE(Checks(second));
  EXPECT_FALSE(Checks(other));
  const int32_t before = ByteOf(first);
  WaitForPage();
  EXPECT_GE(CodeGuard::Clock::now() - stored, std::chrono::milliseconds(60))
      << "from then on it takes longer";
  EXPECT_FALSE(Checks(first));
  EXPECT_NE(ByteOf(first), before) << "what views showed then says nothing";
}

TEST_F(GuardedCodeTest, BlocksThatComeLaterAreGuardedFromTheBeginning) {
  code_->Translate(kStart);
  EXPECT_EQ(Wait(), 1u);
  const uint64_t later = code_->Translate(kStart + 64);
  EXPECT_FALSE(Checks(later));
  code_at(kStart)[64] = 0x90;
  EXPECT_TRUE(Checks(later));
  EXPECT_TRUE(Checks(code_->Translate(kStart + 128)));
}

TEST_F(GuardedCodeTest, WhatHasChangedBeforeTheGuardIsNotGuarded) {
  const uint64_t changed = code_->Translate(kStart), same = code_->Translate(kStart + 64);
  code_at(kStart)[0] = 0x90;
  EXPECT_EQ(Wait(), 1u);
  EXPECT_TRUE(Checks(changed));
  EXPECT_FALSE(Checks(same));
}

TEST_F(GuardedCodeTest, ABlockOfTwoPagesIsAlwaysChecked) {
  std::memset(code_at(kLastOfPage), 0x90, 4);
  const uint64_t both = code_->Translate(kLastOfPage);
  const uint64_t inside = code_->Translate(kStart);
  EXPECT_EQ(Wait(), 1u);
  EXPECT_TRUE(Checks(both));
  EXPECT_FALSE(Checks(inside));
}

TEST_F(GuardedCodeTest, OtherMemoryAtItsAddressIsChecked) {
  const uint64_t before = code_->Translate(kStart);
  EXPECT_EQ(Wait(), 1u);
  Map(MAP_ANONYMOUS | MAP_PRIVATE, -1);
  code_->Invalidate(kStart, kStart + kPages * kPageBytes);
  EXPECT_TRUE(Checks(before));
  const uint64_t after = code_->Translate(kStart);
  EXPECT_TRUE(Checks(after));
  EXPECT_EQ(Wait(), 1u);
  EXPECT_FALSE(Checks(after));
  code_at(kStart)[0] = 0x90;
  EXPECT_TRUE(Checks(after));
}

TEST_F(GuardedCodeTest, WhatOthersCouldStoreToElsewhereIsChecked) {
  const UniqueFd shared(memfd_create("code", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(shared.get(), kPages * kPageBytes), 0);
  for (const int kind : {MAP_SHARED, MAP_PRIVATE}) {
    Map(kind, shared.get());
    code_->Invalidate(kStart, kStart + kPages * kPageBytes);
    const uint64_t host = code_->Translate(kStart);
    EXPECT_EQ(Wait(), 1u);
    EXPECT_TRUE(Checks(host));
  }
}

TEST_F(GuardedCodeTest, NothingIsGuardedOnceAllGuardsHaveEnded) {
  const uint64_t host = code_->Translate(kStart);
  EXPECT_EQ(Wait(), 1u);
  guards_->EndAll();
  EXPECT_TRUE(Checks(host));
  // This would fail with a guard (/proc/PID/mem).
  const UniqueFd memory(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(pwrite(memory.get(), "\x90", 1, kStart), 1);
  const uint64_t other = code_->Translate(kStart + kPageBytes);
  Wait();
  EXPECT_TRUE(Checks(other));
}

TEST_F(GuardedCodeTest, NothingIsGuardedByWhoComesAfterwards) {
  guards_->EndAll();
  code_ = MakeCode();
  EXPECT_FALSE(code_->OpenGuard(MakeUserfaultfd()));
  const uint64_t host = code_->Translate(kStart);
  Wait();
  EXPECT_TRUE(Checks(host));
}

TEST_F(GuardedCodeTest, AProcessThatCannotBeGuardedIsAskedOnceAndWaitedForNoMore) {
  code_ = MakeCode();
  code_->Translate(kStart);
  EXPECT_TRUE(code_->UntilSettledPage().has_value());
  EXPECT_EQ(Wait(), 0u);
  EXPECT_EQ(file_->control()->guard, GuardState::kWanted);
  EXPECT_FALSE(code_->UntilSettledPage().has_value());
  file_->control()->guard = GuardState::kImpossible;
  EXPECT_EQ(Wait(), 0u);
  EXPECT_EQ(file_->control()->guard, GuardState::kImpossible);
  EXPECT_FALSE(code_->UntilSettledPage().has_value());
}

}  // namespace
}  // namespace hindsight

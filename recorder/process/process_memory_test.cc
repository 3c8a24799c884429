#include "recorder/process/process_memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/process/fake_process_memory.h"

namespace hindsight {
namespace {

constexpr uint64_t kPage = 4096;

// A page that can be written, one that cannot, and one that is not mapped, in a child process.
class ProcessMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    void* const pages =
        mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    start_ = reinterpret_cast<uint64_t>(pages);
    std::memset(pages, 0x11, 2 * kPage);
    ASSERT_EQ(mprotect(reinterpret_cast<void*>(start_ + kPage), kPage, PROT_READ), 0);
    ASSERT_EQ(munmap(reinterpret_cast<void*>(start_ + 2 * kPage), kPage), 0);
    child_ = fork();
    if (child_ == 0) {
      while (true) pause();
    }
  }
  void TearDown() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    munmap(reinterpret_cast<void*>(start_), 2 * kPage);
  }

  // Two pieces that can be read, and one that reaches into unmapped memory.
  void MovesPiecesUntilOneCannotBe(ProcessMemory* memory) {
    std::vector<uint8_t> bytes(24, 0x22);
    const MemoryPiece pieces[] = {{start_, bytes.data(), 8},
                                  {start_ + 8, bytes.data() + 8, 8},
                                  {start_ + 2 * kPage - 4, bytes.data() + 16, 8},
                                  {start_, bytes.data(), 8}};
    EXPECT_EQ(memory->WritePieces(absl::MakeConstSpan(pieces, 2)), 2u);
    bytes.assign(24, 0);
    EXPECT_EQ(memory->ReadPieces(pieces), 2u);
    EXPECT_EQ(bytes[0], 0x22);
    EXPECT_EQ(bytes[15], 0x22);
  }

  uint64_t start_ = 0;
  pid_t child_ = 0;
};

TEST_F(ProcessMemoryTest, PiecesAreMovedUntilOneCannotBe) {
  ProcessVmMemory by_rights(child_);
  MovesPiecesUntilOneCannotBe(&by_rights);
  ProcMemFile file(child_);
  MovesPiecesUntilOneCannotBe(&file);
  FakeProcessMemory fake;
  fake.Map(start_, 2 * kPage);
  MovesPiecesUntilOneCannotBe(&fake);
}

TEST_F(ProcessMemoryTest, OnlyTheFileWritesWhereTheProcessMayNot) {
  const uint8_t byte = 0x33;
  EXPECT_FALSE(ProcessVmMemory(child_).Write(start_ + kPage, absl::MakeConstSpan(&byte, 1)));
  EXPECT_TRUE(ProcMemFile(child_).Write(start_ + kPage, absl::MakeConstSpan(&byte, 1)));
  uint8_t now = 0;
  EXPECT_TRUE(ProcessVmMemory(child_).Read(start_ + kPage, absl::MakeSpan(&now, 1)));
  EXPECT_EQ(now, 0x33);
  EXPECT_EQ(*reinterpret_cast<const uint8_t*>(start_ + kPage), 0x11);  // the parent's page
}

TEST_F(ProcessMemoryTest, AProcessThatIsGoneHasNone) {
  kill(child_, SIGKILL);
  siginfo_t info;
  waitid(P_PID, child_, &info, WEXITED | WNOWAIT);
  uint8_t byte = 0;
  EXPECT_FALSE(ProcessVmMemory(child_).Read(start_, absl::MakeSpan(&byte, 1)));
  EXPECT_FALSE(ProcMemFile(child_).Read(start_, absl::MakeSpan(&byte, 1)));
  EXPECT_FALSE(ProcMemFile(child_).Write(start_, absl::MakeConstSpan(&byte, 1)));
}

}  // namespace
}  // namespace hindsight

#include "recorder/ptrace/whole/shared_frames.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr size_t kPages = 10'000;

// A child that has the memory as it is now, and waits to be killed.
pid_t Copy() {
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  return child;
}

void Kill(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

bool FramesAreVisible(const uint8_t* memory) {
  const auto address = reinterpret_cast<uint64_t>(memory);
  const SharedFrames self(getpid(), getpid());
  return self.Find(address, address + kPageBytes)[0];
}

TEST(SharedFrames, TellsWhatWasWritten) {
  auto* memory = static_cast<uint8_t*>(mmap(nullptr, kPages * kPageBytes, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  const auto start = reinterpret_cast<uint64_t>(memory);
  // The last ones have never been written.
  for (size_t i = 0; i < kPages - 10; ++i) memory[i * kPageBytes] = 1;
  const bool visible = FramesAreVisible(memory);
  const pid_t earlier = Copy();
  std::vector<bool> changed(kPages);
  std::srand(7);
  for (int i = 0; i < 500; ++i) {
    const size_t page = static_cast<size_t>(std::rand()) % (kPages - 10);
    changed[page] = true;
    // The same value as before: it is another page all the same.
    memory[page * kPageBytes] = static_cast<uint8_t>(i % 2);
  }
  const pid_t later = Copy();
  // What the program does afterwards is no matter.
  for (size_t i = 0; i < kPages; i += 3) memory[i * kPageBytes] = 9;
  const std::vector<bool> shared =
      SharedFrames(later, earlier).Find(start, start + kPages * kPageBytes);
  ASSERT_EQ(shared.size(), kPages);
  for (size_t i = 0; i < kPages; ++i) {
    EXPECT_EQ(shared[i], visible && !changed[i] && i < kPages - 10) << i;
  }
  Kill(later);
  Kill(earlier);
  munmap(memory, kPages * kPageBytes);
}

TEST(SharedFrames, NothingIsSharedWithAProcessThatIsGone) {
  static uint8_t page[2 * kPageBytes];
  page[0] = page[kPageBytes] = 1;
  const uint64_t start = reinterpret_cast<uint64_t>(page) / kPageBytes * kPageBytes;
  const pid_t child = Copy();
  Kill(child);
  EXPECT_FALSE(SharedFrames(getpid(), child).Find(start, start + kPageBytes)[0]);
}

}  // namespace
}  // namespace hindsight

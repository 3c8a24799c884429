#include "recorder/ptrace/whole/process_copy.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "recorder/process/process_memory.h"
#include "recorder/ptrace/whole/whole_fixture.h"

namespace hindsight {
namespace {

constexpr size_t kPages = 64;

// What testdata/moments.c says of itself: its pid, and where each thread's pages are.
struct Moments {
  pid_t pid = 0;
  std::vector<uint64_t> memory;

  explicit Moments(absl::string_view line) {
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \n"), absl::SkipEmpty());
    for (size_t i = 1; i < words.size(); ++i) {
      memory.push_back(std::strtoull(words[i].c_str(), nullptr, 16));
    }
    if (!words.empty()) pid = std::atoi(words[0].c_str());
  }

  // The number in each page of the thread's memory, as `process` has it.
  std::vector<uint64_t> Numbers(pid_t process, size_t thread) const {
    std::vector<uint64_t> numbers(kPages);
    std::vector<MemoryPiece> pieces;
    for (size_t i = 0; i < kPages; ++i) {
      pieces.push_back({memory[thread] + i * 4096, reinterpret_cast<uint8_t*>(&numbers[i]), 8});
    }
    EXPECT_EQ(ProcessVmMemory(process).ReadPieces(pieces), kPages);
    return numbers;
  }
};

bool AreOfOneMoment(const std::vector<uint64_t>& numbers) {
  size_t i = 0;
  while (i < numbers.size() && numbers[i] == numbers[0]) ++i;
  for (; i < numbers.size(); ++i) {
    if (numbers[i] != numbers[0] - 1) return false;
  }
  return true;
}

int DescriptorsOf(pid_t pid) {
  DIR* directory = opendir(absl::StrCat("/proc/", pid, "/fd").c_str());
  int count = 0;
  while (directory != nullptr && readdir(directory) != nullptr) ++count;
  if (directory != nullptr) closedir(directory);
  return count - 2;
}

class ProcessCopyTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Strangers, ProcessCopyTest, testing::Bool());

TEST_P(ProcessCopyTest, HoldsTheMomentUnnoticed) {
  RunningProgram program({TestProgram("moments"), "3", absl::StrCat(kPages)}, GetParam());
  const Moments moments(program.ReadLine());
  ASSERT_EQ(moments.memory.size(), 3u);
  int changed = 0;
  for (int i = 0; i < 60; ++i) {
    auto stop = StopProcess(moments.pid);
    ASSERT_NE(stop, nullptr);
    std::vector<std::vector<uint64_t>> at_stop;
    for (size_t t = 0; t < 3; ++t) at_stop.push_back(moments.Numbers(moments.pid, t));
    const auto copy = ProcessCopy::Make(*stop);
    ASSERT_TRUE(copy.ok()) << copy.status();
    stop->Release();
    usleep(i % 5 * 1000);
    for (size_t t = 0; t < 3; ++t) {
      EXPECT_TRUE(AreOfOneMoment(at_stop[t]));
      EXPECT_EQ(moments.Numbers((*copy)->pid(), t), at_stop[t]);
      changed += moments.Numbers(moments.pid, t) != at_stop[t];
    }
    EXPECT_EQ(DescriptorsOf((*copy)->pid()), 0);
  }
  EXPECT_GT(changed, 60);
  int status;
  const std::string out = program.Finish(&status);
  EXPECT_EQ(status, 0) << out;
}

// Threads in all kinds of calls: the one that makes the call is another each time.
TEST(OwnCopyTest, CallsGoOnAsBefore) {
  RunningProgram program({TestProgram("busy_threads")}, false);
  ASSERT_EQ(program.ReadLine(), "ready\n");
  for (int i = 0; i < 50; ++i) {
    auto stop = StopProcess(program.child());
    ASSERT_NE(stop, nullptr);
    const auto copy = ProcessCopy::Make(*stop);
    ASSERT_TRUE(copy.ok()) << copy.status();
    stop.reset();
    usleep(i % 5 * 1000);
  }
  int status;
  const std::string out = program.Finish(&status);
  EXPECT_EQ(status, 0) << out;
}

TEST_P(ProcessCopyTest, ForgetsWhatItIsAskedTo) {
  RunningProgram program({TestProgram("moments"), "2", absl::StrCat(kPages)}, GetParam());
  const Moments moments(program.ReadLine());
  ASSERT_EQ(moments.memory.size(), 2u);
  auto stop = StopProcess(moments.pid);
  ASSERT_NE(stop, nullptr);
  const auto copy = ProcessCopy::Make(*stop);
  ASSERT_TRUE(copy.ok()) << copy.status();
  const std::vector<uint64_t> at_stop[] = {moments.Numbers(moments.pid, 0),
                                           moments.Numbers(moments.pid, 1)};
  const uint64_t start = moments.memory[0];
  const AddressRange ranges[] = {{start, start + 4 * 4096}, {start + 6 * 4096, start + 9 * 4096}};
  (*copy)->Forget(ranges);
  std::vector<uint64_t> expected = at_stop[0];
  for (const size_t page : {0, 1, 2, 3, 6, 7, 8}) expected[page] = 0;
  EXPECT_EQ(moments.Numbers((*copy)->pid(), 0), expected);
  EXPECT_EQ(moments.Numbers((*copy)->pid(), 1), at_stop[1]);
  EXPECT_EQ(moments.Numbers(moments.pid, 0), at_stop[0]);
  stop->Release();
  int status;
  const std::string out = program.Finish(&status);
  EXPECT_EQ(status, 0) << out;
}

TEST_P(ProcessCopyTest, OutlivesTheProcess) {
  RunningProgram program({TestProgram("moments"), "1", absl::StrCat(kPages)}, GetParam());
  const Moments moments(program.ReadLine());
  auto stop = StopProcess(moments.pid);
  ASSERT_NE(stop, nullptr);
  const std::vector<uint64_t> at_stop = moments.Numbers(moments.pid, 0);
  auto copy = ProcessCopy::Make(*stop);
  ASSERT_TRUE(copy.ok()) << copy.status();
  stop.reset();
  kill(moments.pid, SIGKILL);
  int status;
  program.Finish(&status);
  EXPECT_EQ(moments.Numbers((*copy)->pid(), 0), at_stop);
  const pid_t pid = (*copy)->pid();
  copy->reset();
  // That of a stranger is freed by whoever adopts orphans, soon.
  while (kill(pid, 0) == 0) usleep(1000);
}

// A process that waits for ever in one call, which has to make it again.
TEST(OwnCopyTest, OneThreadInACall) {
  RunningProgram program({"/bin/cat"}, false);
  // Reading its input, and no longer being loaded.
  const std::string call = absl::StrCat("/proc/", program.child(), "/syscall");
  for (std::string line; !absl::StartsWith(line, "0 0x0 ");) {
    std::getline(std::ifstream(call), line);
  }
  for (int i = 0; i < 20; ++i) {
    auto stop = StopProcess(program.child());
    ASSERT_NE(stop, nullptr);
    const auto copy = ProcessCopy::Make(*stop);
    ASSERT_TRUE(copy.ok()) << copy.status();
  }
  int status;
  program.Finish(&status);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace hindsight

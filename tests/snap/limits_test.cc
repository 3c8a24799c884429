// Snapshots for which there is no room: on the disk, in a file, in memory. The program does not
// notice, what was written opens, and one line says what is missing.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/test_small_disk.h"
#include "tests/harness/child.h"
#include "tests/harness/files.h"
#include "tracefmt/trace_reader.h"

namespace hindsight::e2e {
namespace {

std::vector<std::string> LinesOf(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

// What is there is whole, and says why there is no more: `reason`.
void ExpectOpens(const std::string& trace, const std::string& reason, size_t least_snapshots) {
  const ChildResult verify = RunProcess({Hindsight(), "verify", trace});
  EXPECT_EQ(verify.Ending(), "exit 0") << verify.out << verify.err;
  const auto reader = TraceReader::Open(trace);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->manifest().state, TraceState::kInterrupted);
  EXPECT_TRUE(absl::StrContains((*reader)->manifest().end_reason, reason))
      << (*reader)->manifest().end_reason;
  EXPECT_GE((*reader)->full_keyframes().size(), least_snapshots);
  for (const auto& keyframe : (*reader)->full_keyframes()) {
    EXPECT_TRUE(keyframe->CheckFile().ok());
  }
}

// pages.c has 4 MB that cannot be compressed, and takes six snapshots.
ChildResult SnapPages(const std::string& trace) {
  ChildResult run =
      RunProcess({Hindsight(), "snap", "--quiet", "-o", trace, "--", Runfile("tests/snap/pages")});
  EXPECT_EQ(run.Ending(), "exit 0") << run.err;
  return run;
}

// What the files of a trace take on a disk.
uint64_t SizeOf(const std::string& trace) {
  constexpr uint64_t kBlock = 4096;
  uint64_t size = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(trace)) {
    if (entry.is_regular_file()) size += (entry.file_size() + kBlock - 1) / kBlock * kBlock;
  }
  return size;
}

void SnapPagesOnFullDisk(const std::string& directory) {
  const ChildResult run = SnapPages(directory + "/trace");
  const std::vector<std::string> lines = LinesOf(run.err);
  ASSERT_EQ(lines.size(), 1u) << run.err;
  EXPECT_TRUE(absl::StrContains(lines[0], "the trace could not be written")) << lines[0];
  EXPECT_TRUE(absl::StrContains(lines[0], "No space left on device")) << lines[0];
}

class FullDiskSnapTest : public testing::Test {
 protected:
  static void On(const std::string& size, const std::function<void(const std::string&)>& body) {
    const SmallDiskRun run = RunOnSmallDisk(size, [&](const std::string& directory) {
      body(directory);
      return !HasFailure();
    });
    if (run == SmallDiskRun::kCannotMount) GTEST_SKIP() << "cannot mount";
    EXPECT_EQ(run, SmallDiskRun::kPassed);
  }
};

TEST_F(FullDiskSnapTest, WhatWasWrittenBeforeOpens) {
  const TempDir large_enough;
  const std::string trace = large_enough.File("trace");
  SnapPages(trace);
  // All but the last two or three.
  const uint64_t size = SizeOf(trace) - 2 * std::filesystem::file_size(trace + "/full/6");
  On(absl::StrCat(size), [](const std::string& directory) {
    SnapPagesOnFullDisk(directory);
    ExpectOpens(directory + "/trace", "No space left", 1);
  });
}

TEST_F(FullDiskSnapTest, InTheFirstSnapshot) {
  On("3m", [](const std::string& directory) {
    SnapPagesOnFullDisk(directory);
    ExpectOpens(directory + "/trace", "No space left", 0);
  });
}

TEST_F(FullDiskSnapTest, WhatWasAttachedToRunsOn) {
  On("3m", [](const std::string& directory) {
    Child program = Child::Start({Runfile("tests/snap/large"), "8"}, {.keep_input_open = true});
    size_t position = 0;
    ASSERT_TRUE(program.WaitForOut("ready\n", &position));
    const ChildResult snap = RunProcess({Hindsight(), "snap", "--quiet", "-o", directory + "/trace",
                                         "--every=20ms", absl::StrCat("--attach=", program.pid())},
                                        {.timeout = absl::Seconds(60)});
    EXPECT_EQ(snap.Ending(), "exit 125") << snap.err;
    const std::vector<std::string> lines = LinesOf(snap.err);
    ASSERT_EQ(lines.size(), 1u) << snap.err;
    EXPECT_TRUE(absl::StrContains(lines[0], "No space left on device")) << lines[0];
    program.CloseInput();
    EXPECT_EQ(program.Finish().Ending(), "exit 0");
  });
}

// As with a quota: a signal (SIGXFSZ) that would end the capturer.
TEST(LimitedFileTest, IsAnErrorLikeAFullDisk) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  const ChildResult run =
      RunProcess({"bash", "-c", "ulimit -f 1000; exec \"$@\"", "-", Hindsight(), "snap", "--quiet",
                  "-o", trace, "--", Runfile("tests/snap/pages")});
  EXPECT_EQ(run.Ending(), "exit 0") << run.err;
  const std::vector<std::string> lines = LinesOf(run.err);
  ASSERT_EQ(lines.size(), 1u) << run.err;
  EXPECT_TRUE(absl::StrContains(lines[0], "File too large")) << lines[0];
  ExpectOpens(trace, "File too large", 0);
}

// How many pages of 24 MB of shared memory are in a snapshot, the first of them; as large.c has
// filled them.
size_t SharedPagesWith(const std::string& option) {
  constexpr size_t kPageWords = 512, kPages = 24 * 256;
  const TempDir directory;
  const std::string trace = directory.File("trace");
  Child snap = Child::Start({Hindsight(), "snap", "--quiet", option, "-o", trace, "--",
                             Runfile("tests/snap/large"), "24", "shared"},
                            {.keep_input_open = true});
  size_t position = 0;
  EXPECT_TRUE(snap.WaitForOut("ready\n", &position));
  snap.Signal(SIGUSR1);
  EXPECT_TRUE(snap.WaitForFile(trace + "/full/1")) << snap.err();
  snap.CloseInput();
  EXPECT_EQ(snap.Finish().Ending(), "exit 0");
  const auto reader = TraceReader::Open(trace);
  EXPECT_TRUE(reader.ok()) << reader.status();
  if (!reader.ok()) return 0;
  const uint64_t start = std::strtoull(snap.out().c_str(), nullptr, 16);
  uint64_t seed = 1;
  for (size_t i = 0; i < kPages; ++i) {
    uint64_t page[kPageWords] = {}, expected[kPageWords];
    for (uint64_t& word : expected) {
      word = seed = seed * 6364136223846793005u + 1442695040888963407u;
    }
    const auto read = (*reader)->full_keyframes().at(0)->ReadPage(
        start + i * sizeof(page), {reinterpret_cast<uint8_t*>(page), sizeof(page)});
    if (!read.ok()) return i;
    EXPECT_TRUE(std::equal(page, page + kPageWords, expected)) << i;
  }
  return kPages;
}

TEST(LimitedSharedMemoryTest, TheFirstPartIsThere) {
  // The program's other shared memory is a page: the control file of its points.
  EXPECT_NEAR(SharedPagesWith("--max-shared=1M"), 256, 64);
  EXPECT_EQ(SharedPagesWith("--max-shared=0"), 24 * 256u);
}

// How many processes there are of the program that `argv` runs: itself, its copies, and who makes
// them. The most that are seen at a time.
size_t MostProcesses(const std::vector<std::string>& argv, const std::string& program,
                     std::string* err) {
  Child child = Child::Start(argv, {.keep_input_open = true});
  size_t position = 0, most = 0;
  EXPECT_TRUE(child.WaitForOut("\n", &position));
  for (int look = 0; look < 300; ++look) {
    size_t count = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
      const std::filesystem::path exe = std::filesystem::read_symlink(entry.path() / "exe", error);
      count += !error && exe == std::filesystem::canonical(program);
    }
    most = std::max(most, count);
    usleep(2000);
  }
  child.CloseInput();
  const ChildResult result = child.Finish();
  EXPECT_EQ(result.Ending(), "exit 0") << result.err;
  *err = result.err;
  return most;
}

TEST(LimitedMemoryTest, OneCopyWaitsIfThereIsRoomForNone) {
  const TempDir directory;
  // A program of its own: other tests run others.
  const std::string program = directory.File("moments");
  std::filesystem::copy(Runfile("recorder/testdata/moments"), program);
  const auto command = [&](const std::string& cap, const std::string& trace) {
    return std::vector<std::string>{Hindsight(),           "snap", "--every=1ms", cap, "-o",
                                    directory.File(trace), "--",   program,       "2", "3000"};
  };
  std::string err;
  const size_t with_little = MostProcesses(command("--max-memory=1M", "little"), program, &err);
  EXPECT_LE(with_little, 3u);
  EXPECT_TRUE(absl::StrContains(err, "snapshots of the timer were passed over")) << err;
  const size_t with_much = MostProcesses(command("--max-memory=4G", "much"), program, &err);
  EXPECT_GT(with_much, 5u);
}

}  // namespace
}  // namespace hindsight::e2e

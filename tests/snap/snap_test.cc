// hindsight snap: a program runs natively, and snapshots of it are taken.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/harness/child.h"
#include "tests/harness/files.h"
#include "tracefmt/trace_reader.h"

namespace hindsight::e2e {
namespace {

constexpr size_t kPages = 64;

// Runs recorder/testdata/moments.c under `hindsight snap`.
class SnapTest : public testing::Test {
 protected:
  std::vector<std::string> Command(const std::vector<std::string>& options,
                                   const std::vector<std::string>& program) const {
    std::vector<std::string> argv = {Hindsight(), "snap", "-o", trace_};
    argv.insert(argv.end(), options.begin(), options.end());
    argv.push_back("--");
    argv.insert(argv.end(), program.begin(), program.end());
    return argv;
  }
  std::vector<std::string> Moments() const {
    return {Runfile("recorder/testdata/moments"), "3", absl::StrCat(kPages)};
  }
  // What the program says of itself: its pid, and where the pages of its threads are.
  void ReadMoments(const std::string& out) {
    const std::vector<std::string> words =
        absl::StrSplit(out.substr(0, out.find('\n')), ' ', absl::SkipEmpty());
    ASSERT_EQ(words.size(), 4u) << out;
    pid_ = std::atoi(words[0].c_str());
    for (size_t i = 1; i < words.size(); ++i) {
      memory_.push_back(std::strtoull(words[i].c_str(), nullptr, 16));
    }
  }
  std::unique_ptr<TraceReader> Open() const {
    auto trace = TraceReader::Open(trace_);
    EXPECT_TRUE(trace.ok()) << trace.status();
    return trace.ok() ? *std::move(trace) : nullptr;
  }
  // Each thread's pages are of one moment in each snapshot.
  void CheckMemory(const TraceReader& trace) const {
    for (uint64_t number = 1; number <= trace.full_keyframes().size(); ++number) {
      const auto& keyframe = trace.full_keyframes()[number - 1];
      EXPECT_EQ(keyframe->number(), number);
      EXPECT_TRUE(keyframe->CheckFile().ok());
      for (const uint64_t start : memory_) {
        std::vector<uint64_t> numbers;
        for (size_t i = 0; i < kPages; ++i) {
          uint64_t page[512] = {};
          const auto read = keyframe->ReadPage(start + i * 4096,
                                               {reinterpret_cast<uint8_t*>(page), sizeof(page)});
          EXPECT_TRUE(read.ok() || absl::IsNotFound(read)) << read;
          numbers.push_back(page[0]);
        }
        size_t same = 1;
        while (same < kPages && numbers[same] == numbers[0]) ++same;
        for (size_t i = same; i < kPages; ++i) EXPECT_EQ(numbers[i] + 1, numbers[0]) << number;
      }
    }
  }
  size_t CountEvents(const TraceReader& trace, EventKind kind) const {
    size_t count = 0;
    for (const ProcessEvent& event : trace.events()) count += event.kind == kind;
    return count;
  }

  TempDir directory_;
  const std::string trace_ = directory_.path() + "/trace";
  pid_t pid_ = 0;
  std::vector<uint64_t> memory_;
};

TEST_F(SnapTest, TimerTakesWholeMomentsUnnoticed) {
  Child child = Child::Start(Command({"--every=20ms"}, Moments()), {.keep_input_open = true});
  size_t position = 0;
  ASSERT_TRUE(child.WaitForOut("\n", &position));
  ReadMoments(child.out());
  usleep(1'500'000);
  child.CloseInput();
  const ChildResult result = child.Finish();
  EXPECT_EQ(result.Ending(), "exit 0") << result.out << result.err;
  EXPECT_TRUE(absl::StrContains(result.out, "complaints 0\n")) << result.out;
  const auto trace = Open();
  ASSERT_NE(trace, nullptr);
  EXPECT_EQ(trace->manifest().state, TraceState::kComplete);
  EXPECT_EQ(trace->manifest().engine, "snapshots");
  EXPECT_GE(trace->full_keyframes().size(), 10u);
  EXPECT_EQ(CountEvents(*trace, EventKind::kSnapshot), trace->full_keyframes().size());
  EXPECT_EQ(trace->full_keyframes().at(2)->threads().size(), 6u);
  CheckMemory(*trace);
}

class WithheldSnapTest : public SnapTest, public testing::WithParamInterface<const char*> {};

TEST_P(WithheldSnapTest, HasMemoryThatChildrenDoNotGet) {
  std::vector<std::string> program = Moments();
  program.push_back(GetParam());
  Child child = Child::Start(Command({"--every=20ms"}, program), {.keep_input_open = true});
  size_t position = 0;
  ASSERT_TRUE(child.WaitForOut("\n", &position));
  ReadMoments(child.out());
  usleep(500'000);
  child.CloseInput();
  EXPECT_EQ(child.Finish().Ending(), "exit 0");
  const auto trace = Open();
  ASSERT_NE(trace, nullptr);
  ASSERT_GE(trace->full_keyframes().size(), 3u);
  CheckMemory(*trace);
  const FullKeyframe& last = *trace->full_keyframes().back();
  for (const uint64_t start : memory_) {
    std::vector<uint8_t> page(4096);
    EXPECT_TRUE(last.ReadPage(start, absl::MakeSpan(page)).ok());
    EXPECT_NE(page, std::vector<uint8_t>(4096));
    EXPECT_TRUE(last.SawAllAt(start));
    const auto& maps = last.maps();
    EXPECT_TRUE(std::any_of(maps.begin(), maps.end(), [&](const MapRegion& region) {
      return region.start <= start && start < region.end;
    }));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, WithheldSnapTest, testing::Values("withheld", "wiped"));

TEST_F(SnapTest, RequestFromOutside) {
  Child child = Child::Start(Command({}, Moments()), {.keep_input_open = true});
  size_t position = 0;
  ASSERT_TRUE(child.WaitForOut("\n", &position));
  ReadMoments(child.out());
  child.Signal(SIGUSR1);
  ASSERT_TRUE(child.WaitForFile(trace_ + "/full/1")) << child.err();
  kill(pid_, SIGKILL);
  EXPECT_EQ(child.Finish().Ending(), "signal 9");
  const auto trace = Open();
  ASSERT_NE(trace, nullptr);
  ASSERT_EQ(trace->full_keyframes().size(), 1u);
  for (const ProcessEvent& event : trace->events()) {
    if (event.kind == EventKind::kSnapshot) {
      EXPECT_EQ(event.arguments.at(1), 9u);
    }
  }
  CheckMemory(*trace);
}

// Each call waits until the process has been copied: the number is that of the call.
TEST_F(SnapTest, CallsAndBreakpointsOfTheProgram) {
  const ChildResult result =
      Child::Start(Command({"--level=3"}, {Runfile("tests/snap/steps")})).Finish();
  EXPECT_EQ(result.Ending(), "exit 4") << result.err;
  const uint64_t address = std::strtoull(result.out.c_str(), nullptr, 16);
  const auto trace = Open();
  ASSERT_NE(trace, nullptr);
  ASSERT_EQ(trace->full_keyframes().size(), 6u);
  for (const auto& keyframe : trace->full_keyframes()) {
    uint64_t page[512] = {};
    ASSERT_TRUE(
        keyframe->ReadPage(PageOf(address), {reinterpret_cast<uint8_t*>(page), sizeof(page)}).ok());
    EXPECT_EQ(page[address % 4096 / 8], keyframe->number());
  }
  std::vector<uint64_t> triggers;
  for (const ProcessEvent& event : trace->events()) {
    if (event.kind != EventKind::kSnapshot) continue;
    triggers.push_back(event.arguments.at(1));
    EXPECT_EQ(event.text, event.number == 6 ? "" : "label=step\n");
    EXPECT_EQ(event.arguments.at(2), event.number == 6 ? 3u : 0u);
  }
  EXPECT_EQ(triggers, (std::vector<uint64_t>{1, 1, 1, 1, 1, 2}));
}

TEST_F(SnapTest, ExitStatusIsTheProgramsOwn) {
  Child child = Child::Start(Command({}, {"/bin/sh", "-c", "exit 7"}));
  EXPECT_EQ(child.Finish().Ending(), "exit 7");
  const auto trace = Open();
  ASSERT_NE(trace, nullptr);
  EXPECT_EQ(trace->manifest().exit_status, 7 << 8);
}

TEST_F(SnapTest, KilledCapturerLeavesTheProgramAndWhatWasWritten) {
  for (int i = 0; i < 5; ++i) {
    std::filesystem::remove_all(trace_);
    memory_.clear();
    Child child = Child::Start(Command({"--every=10ms"}, Moments()), {.keep_input_open = true});
    size_t position = 0;
    ASSERT_TRUE(child.WaitForOut("\n", &position));
    ReadMoments(child.out());
    ASSERT_TRUE(child.WaitForFile(trace_ + "/full/3")) << child.err();
    usleep(i * 3000);
    child.Signal(SIGKILL);
    // What is left of the capturer ends soon; then the trace has its final state.
    auto trace = Open();
    while (trace != nullptr && trace->manifest().state == TraceState::kRecording) {
      usleep(1000);
      trace = Open();
    }
    ASSERT_NE(trace, nullptr);
    EXPECT_EQ(kill(pid_, 0), 0) << "the program has died";
    EXPECT_GE(trace->full_keyframes().size(), 3u);
    CheckMemory(*trace);
    kill(pid_, SIGKILL);
    child.Finish();
  }
}

TEST_F(SnapTest, AttachedProcessRunsOn) {
  Child program = Child::Start(Moments(), {.keep_input_open = true});
  size_t position = 0;
  ASSERT_TRUE(program.WaitForOut("\n", &position));
  ReadMoments(program.out());
  Child child = Child::Start(
      {Hindsight(), "snap", "-o", trace_, "--every=20ms", absl::StrCat("--attach=", pid_)});
  ASSERT_TRUE(child.WaitForFile(trace_ + "/full/5")) << child.err();
  child.Signal(SIGINT);
  EXPECT_EQ(child.Finish().Ending(), "exit 0");
  program.CloseInput();
  const ChildResult result = program.Finish();
  EXPECT_EQ(result.Ending(), "exit 0") << result.out;
  const auto trace = Open();
  ASSERT_NE(trace, nullptr);
  EXPECT_GE(trace->full_keyframes().size(), 5u);
  CheckMemory(*trace);
}

}  // namespace
}  // namespace hindsight::e2e

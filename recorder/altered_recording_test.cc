// Recordings in which something was changed, but written as a recorder would have: verification
// must not call them exact.

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "keyframes/verify/verify.h"
#include "recorder/record.h"
#include "tracefmt/samples/copy_trace.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

using ::testing::HasSubstr;

const std::string& Text() {
  static const std::string* text = new std::string(std::string(32, 'a') + std::string(32, 'b'));
  return *text;
}

std::string NewDirectory() {
  std::string path = testing::TempDir() + "/altered.XXXXXX";
  EXPECT_NE(mkdtemp(path.data()), nullptr);
  return path;
}

// A recording with all there is: segments, full keyframes, a signal, a thread.
std::string RecordWith(EngineKind engine) {
  setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
  const std::string directory = NewDirectory();
  std::ofstream(directory + "/in") << Text();
  RecordOptions options;
  options.engine = engine;
  options.directory = directory + "/trace";
  options.arguments = {"recorder/testdata/writes_out", directory + "/in"};
  options.light_keyframe_interval = 50'000;
  options.full_keyframe_interval = 200'000;
  const auto result = RecordProgram(options);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(WEXITSTATUS(result->wait_status), 7);
  return options.directory;
}

const std::string& Original() {
  static const std::string* trace = new std::string(RecordWith(EngineKind::kEmulate));
  return *trace;
}

const std::string& Translated() {
  static const std::string* trace = new std::string(RecordWith(EngineKind::kTranslate));
  return *trace;
}

std::unique_ptr<TraceReader> Read(const std::string& trace) {
  auto reader = TraceReader::Open(trace);
  EXPECT_TRUE(reader.ok()) << reader.status();
  return *std::move(reader);
}

// "exact", or the difference.
std::string Verdict(const std::string& trace) {
  const auto result = Verify(*Read(trace));
  EXPECT_TRUE(result.ok()) << result.status();
  return result->exact() ? "exact" : std::string(result->difference.message());
}

std::string VerdictOn(const Alteration& alteration, const std::string& original = Original()) {
  const std::string directory = NewDirectory();
  CopyTrace(original, directory + "/trace", alteration);
  const std::string verdict = Verdict(directory + "/trace");
  std::filesystem::remove_all(directory);
  return verdict;
}

using IsIt = std::function<bool(const ProcessEvent&)>;

// Alters the first event for which `is_it` holds. `change` returns 0: it is left out.
std::string VerdictOnEvent(const IsIt& is_it,
                           const std::function<uint64_t(ProcessEvent*)>& change) {
  bool done = false;
  Alteration alteration;
  alteration.event = [&](ProcessEvent* event) {
    if (done || !is_it(*event)) return true;
    done = true;
    return change(event) != 0;
  };
  const std::string verdict = VerdictOn(alteration);
  EXPECT_TRUE(done);
  return verdict;
}

IsIt Of(EventKind kind) {
  return [kind](const ProcessEvent& event) { return event.kind == kind; };
}

bool IsWrite(const ProcessEvent& event) {
  return event.kind == EventKind::kSyscall && event.number == SYS_write;
}

TEST(AlteredTest, ACopyIsExact) { EXPECT_EQ(VerdictOn({}), "exact"); }

TEST(AlteredTest, AnArgumentOfASystemCall) {
  EXPECT_THAT(VerdictOnEvent(IsWrite, [](ProcessEvent* event) { return ++event->arguments[2]; }),
              HasSubstr("it says argument 0x41, but rdx is 0x40"));
}

TEST(AlteredTest, TheResultOfASystemCall) {
  EXPECT_THAT(VerdictOnEvent(IsWrite, [](ProcessEvent* event) { return ++event->result; }),
              HasSubstr("it says result 65, but rax becomes 64"));
}

TEST(AlteredTest, TheNumberOfASystemCall) {
  EXPECT_THAT(VerdictOnEvent(IsWrite, [](ProcessEvent* event) { return ++event->number; }),
              HasSubstr("it says system call 2, but rax is 1"));
}

TEST(AlteredTest, TheSequenceNumberOfASystemCall) {
  EXPECT_THAT(VerdictOnEvent(IsWrite, [](ProcessEvent* event) { return ++event->sequence; }),
              HasSubstr("it says sequence number"));
}

TEST(AlteredTest, ASystemCallWithoutItsEvent) {
  EXPECT_THAT(VerdictOnEvent(IsWrite, [](ProcessEvent*) { return false; }),
              HasSubstr("no event records this system call"));
}

TEST(AlteredTest, AnEventWithoutItsSystemCall) {
  EXPECT_NE(VerdictOnEvent(IsWrite, [](ProcessEvent* event) { return ++event->count; }), "exact");
}

TEST(AlteredTest, ASignal) {
  EXPECT_THAT(
      VerdictOnEvent(Of(EventKind::kSignal), [](ProcessEvent* event) { return ++event->number; }),
      HasSubstr("signal"));
  EXPECT_THAT(VerdictOnEvent(Of(EventKind::kSignal),
                             [](ProcessEvent* event) { return event->text[20] ^= 1, 1; }),
              HasSubstr("siginfo"));
}

TEST(AlteredTest, StartsAndEndsOfThreads) {
  for (const EventKind kind :
       {EventKind::kThreadStart, EventKind::kThreadExit, EventKind::kFullKeyframe}) {
    EXPECT_NE(VerdictOnEvent(Of(kind), [](ProcessEvent*) { return false; }), "exact");
  }
  EXPECT_NE(VerdictOnEvent(Of(EventKind::kThreadExit),
                           [](ProcessEvent* event) { return ++event->count; }),
            "exact");
}

class AlteredOfBothTest : public testing::TestWithParam<const std::string& (*)()> {};
INSTANTIATE_TEST_SUITE_P(Engines, AlteredOfBothTest, testing::Values(&Original, &Translated));

// That only the kernel reads.
TEST_P(AlteredOfBothTest, AByteThatIsWrittenOut) {
  std::list<std::vector<uint8_t>> kept;
  int changed = 0;
  Alteration alteration;
  alteration.record = [&](int32_t, uint64_t, Record* record) {
    auto* page = std::get_if<PageImport>(&record->body);
    if (page == nullptr) return true;
    kept.emplace_back(page->lines.begin(), page->lines.end());
    const auto found =
        std::search(kept.back().begin(), kept.back().end(), Text().begin(), Text().end());
    if (found == kept.back().end()) return true;
    ++changed;
    found[40] = 'X';
    page->lines = kept.back();
    return true;
  };
  EXPECT_THAT(VerdictOn(alteration, GetParam()()), HasSubstr("64 bytes at address"));
  EXPECT_GE(changed, 1);
}

// One that the program finds as it is when the keyframe is taken.
TEST(AlteredTest, APageOfAFullKeyframe) {
  const auto reader = Read(Original());
  const FullKeyframe::ThreadState& start = reader->full_keyframes().front()->threads().front();
  const auto segment = reader->LoadSegment(start.thread, start.segment);
  ASSERT_TRUE(segment.ok());
  uint64_t address = 0;
  for (const Record& record : (*segment)->records()) {
    const auto* page = std::get_if<PageImport>(&record.body);
    if (record.count == start.count && page != nullptr) address = page->address;
  }
  ASSERT_NE(address, 0u);
  Alteration alteration;
  alteration.page = [&](uint64_t keyframe, uint64_t page, absl::Span<uint8_t> bytes) {
    if (keyframe == 1 && page == address) bytes[100] ^= 1;
  };
  EXPECT_THAT(VerdictOn(alteration), HasSubstr("full keyframe 1 has byte"));
}

// Neither does it excuse a difference that there are other threads, unless they could write.
TEST(AlteredTest, APageOfAFullKeyframeAmongThreads) {
  const auto reader = Read(Original());
  const FullKeyframe* among_threads = nullptr;
  for (const auto& keyframe : reader->full_keyframes()) {
    if (keyframe->threads().size() > 1) among_threads = keyframe.get();
  }
  ASSERT_NE(among_threads, nullptr);
  // All of them: replay knows some.
  Alteration alteration;
  alteration.page = [&](uint64_t keyframe, uint64_t, absl::Span<uint8_t> bytes) {
    if (keyframe == among_threads->number()) bytes[100] ^= 1;
  };
  EXPECT_THAT(VerdictOn(alteration),
              HasSubstr("full keyframe " + std::to_string(among_threads->number()) + " has byte"));
}

// The kernel stores in a buffer that another thread looks at while a full keyframe is saved.
TEST(AlteredTest, WhatTheKernelStoredForAnotherThreadMayDiffer) {
  const std::string directory = NewDirectory();
  RecordOptions options;
  options.directory = directory + "/trace";
  options.arguments = {"recorder/testdata/reads_beside"};
  options.full_keyframe_interval = 20'000;
  options.children = ChildPolicy::kNone;
  const auto recorded = RecordProgram(options);
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  EXPECT_EQ(WEXITSTATUS(recorded->wait_status), 0);
  const auto result = Verify(*Read(options.directory));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->exact()) << result->difference;
  EXPECT_GT(result->counts.full_keyframes, 5u);
  std::filesystem::remove_all(directory);
}

// Nothing else reports them: the totals of the copy are those of what is left.
TEST(AlteredTest, SegmentsThatAFullKeyframeNames) {
  Alteration alteration;
  alteration.segment = [](int32_t, uint64_t segment) { return segment == 0; };
  EXPECT_NE(VerdictOn(alteration), "exact");
}

TEST(AlteredTest, AllOfItIsChecked) {
  const auto result = Verify(*Read(Original()));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->no_totals, "");
  EXPECT_GT(result->counts.events, 20u);
  EXPECT_GT(result->counts.memory_ranges, 10u);
  EXPECT_GT(result->counts.keyframe_pages_equal, 10u);
  EXPECT_GE(result->counts.keyframe_states, result->counts.full_keyframes);
  EXPECT_GE(result->counts.modules, 2u);
}

}  // namespace
}  // namespace hindsight

// A recorder that dies, runs out of disk, or is still at work.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/test_seed.h"
#include "tracefmt/samples/test_trace.h"

namespace hindsight {
namespace {

// Waits for a child and returns its status.
int Reap(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) != child) {
  }
  return status;
}

std::string EmptyPath() {
  const char* parent = getenv("TEST_TMPDIR");
  std::string pattern = std::string(parent == nullptr ? "/tmp" : parent) + "/crash.XXXXXX";
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  return pattern;
}

// Records until killed: segments of 1000 transitions, a keyframe before each, a Flush every 100;
// tells `pipe` the count reached after every Flush.
void RecordForever(const std::string& directory, int pipe) {
  auto writer = *TraceWriter::Create(directory, SampleManifest());
  uint64_t count = 0;
  for (uint64_t number = 0;; ++number) {
    bool ok = writer->BeginFullKeyframe(number + 1, 0, {}, {}, {}).ok();
    for (uint64_t page = 0; page < 100; ++page) {
      ok &=
          writer->AddPage(page * kPageBytes, FilledPage(static_cast<uint8_t>(number + page))).ok();
    }
    ok &= writer->FinishFullKeyframe().ok();
    ok &= writer->BeginSegment(kThread, number, count, 0, SampleRegisters(count)).ok();
    for (int i = 0; i < 1000; ++i) {
      ok &= writer->Append(kThread, Effect(count++)).ok();
      if (i % 100 != 0) continue;
      ok &= writer->AppendEvent({.kind = EventKind::kSyscall, .count = count}).ok();
      ok &= writer->Flush().ok();
      ok &= write(pipe, &count, sizeof(count)) == sizeof(count);
    }
    ok &= writer->Append(kThread, {count, SegmentEnd{SampleRegisters(count)}}).ok();
    if (!ok) _exit(1);
  }
}

TEST(Crash, AfterKillWhateverWasFlushedIsThere) {
  std::mt19937 random(TestSeed());
  for (int round = 0; round < 10; ++round) {
    const std::string directory = EmptyPath();
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = fork();
    if (child == 0) RecordForever(directory, pipe[1]);
    close(pipe[1]);
    uint64_t flushed = 0;
    for (uint32_t left = 1 + random() % 60; left > 0; --left) {
      ASSERT_EQ(read(pipe[0], &flushed, sizeof(flushed)), sizeof(flushed));
    }
    kill(child, SIGKILL);
    while (read(pipe[0], &flushed, sizeof(flushed)) == sizeof(flushed)) {
    }
    close(pipe[0]);
    EXPECT_TRUE(WIFSIGNALED(Reap(child)));

    auto reader = TraceReader::Open(directory);
    ASSERT_TRUE(reader.ok()) << reader.status();
    const OpenTrace read(*std::move(reader));
    EXPECT_EQ(read->manifest().state, TraceState::kInterrupted);
    uint64_t count = 0;
    for (const SegmentInfo& info : read->segments(kThread)) {
      EXPECT_EQ(info.first_count, count);
      const auto segment = read.Load(info.number);
      EXPECT_TRUE(segment->damage().ok()) << segment->damage();
      for (const Record& record : segment->records()) {
        EXPECT_EQ(record.count, count);
        if (std::holds_alternative<SideEffect>(record.body)) ++count;
      }
      EXPECT_EQ(segment->end_count(), count);
    }
    EXPECT_GE(count, flushed);
    EXPECT_FALSE(read->events().empty());
    // Nothing is on disk whose events are not.
    EXPECT_GT(read->events().back().count + 100, count);
    for (size_t i = 0; i < read->full_keyframes().size(); ++i) {
      EXPECT_EQ(read.FirstByte(i, 99 * kPageBytes), static_cast<uint8_t>(i + 99));
    }
    std::filesystem::remove_all(directory);
  }
}

TEST(Crash, BetweenCreateAndTheFirstSegment) {
  TestTrace trace;
  trace.Abandon();
  const OpenTrace read = trace.Read();
  EXPECT_EQ(read->manifest().state, TraceState::kInterrupted);
  EXPECT_TRUE(read->threads().empty());
  EXPECT_TRUE(read->warnings().empty());
}

TEST(StillRecording, SaysSoAndShowsWhatWasFlushed) {
  TestTrace trace;
  trace.Begin(0).Add(Effect(0)).Flush().Add(Effect(1));
  const OpenTrace read = trace.Read();
  EXPECT_EQ(read->manifest().state, TraceState::kRecording);
  EXPECT_EQ(read.Load(0)->records().size(), 1);
  trace.Flush();
  EXPECT_EQ(read.Load(0)->records().size(), 2);
  EXPECT_TRUE(read.Load(0)->damage().ok());
  EXPECT_TRUE(read->warnings().empty());
}

TEST(StillRecording, ChildrenOfTheRecorderDoNotKeepTheLock) {
  TestTrace trace;
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe[0], 0);
    close(pipe[1]);
    execl("/bin/cat", "cat", nullptr);  // until the pipe closes
    _exit(127);
  }
  // The lock goes with the recorder's own descriptor once the child has called exec.
  trace.Abandon();
  close(pipe[0]);
  absl::StatusOr<std::unique_ptr<TraceReader>> reader = trace.TryRead();
  while (reader.ok() && (*reader)->manifest().state == TraceState::kRecording) {
    reader = trace.TryRead();
  }
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader)->manifest().state, TraceState::kInterrupted);
  close(pipe[1]);
  EXPECT_EQ(Reap(child), 0);
}

// Appends what does not compress until told to stop; exits 0 if the error then sticks.
void RecordUntilFull(const std::string& directory) {
  const rlimit limit = {300000, 300000};
  setrlimit(RLIMIT_FSIZE, &limit);
  auto writer = *TraceWriter::Create(directory, SampleManifest());
  std::mt19937_64 random(1);
  absl::Status status = writer->BeginSegment(kThread, 0, 0, 0, SampleRegisters());
  for (uint64_t count = 0; status.ok() && count < 10000000; ++count) {
    status = writer->Append(kThread, StateHash(count, random()));
  }
  const bool sticks = !status.ok() && !writer->Flush().ok() &&
                      !writer->Append(kThread, {~0ull, SegmentEnd{SampleRegisters()}}).ok() &&
                      !writer->Finish(SampleManifest()).ok();
  _exit(sticks ? 0 : 1);
}

TEST(DiskFull, IsStickyAndWhatIsWrittenStaysUsable) {
  const std::string directory = EmptyPath();
  const pid_t child = fork();
  if (child == 0) RecordUntilFull(directory);
  ASSERT_EQ(Reap(child), 0);
  const OpenTrace read(*TraceReader::Open(directory));
  EXPECT_EQ(read->manifest().state, TraceState::kInterrupted);
  EXPECT_GT(read.Load(0)->records().size(), 1000);
  EXPECT_TRUE(read.Load(0)->damage().ok());
  std::filesystem::remove_all(directory);
}

TEST(Create, RefusesADirectoryThatIsNotEmpty) {
  TestTrace trace;
  EXPECT_TRUE(
      absl::IsAlreadyExists(TraceWriter::Create(trace.directory(), SampleManifest()).status()));
  EXPECT_TRUE(TraceWriter::Create(trace.Path("new"), SampleManifest()).ok());
  std::filesystem::create_directory(trace.Path("empty"));
  EXPECT_TRUE(TraceWriter::Create(trace.Path("empty"), SampleManifest()).ok());
  EXPECT_FALSE(TraceWriter::Create("/no/such/parent", SampleManifest()).ok());
}

TEST(Misuse, IsRefusedAndHarmless) {
  TestTrace trace;
  TraceWriter* writer = trace.writer();
  EXPECT_FALSE(writer->Append(kThread, Effect(0)).ok());
  EXPECT_FALSE(writer->BeginSegment(kThread, 1, 0, 0, SampleRegisters()).ok());
  trace.Begin(0).Add(Effect(5));
  EXPECT_FALSE(writer->Append(kThread, Effect(4)).ok());
  EXPECT_FALSE(writer->BeginSegment(kThread, 1, 0, 0, SampleRegisters()).ok());
  EXPECT_FALSE(writer->AddPage(0, FilledPage(0)).ok());
  EXPECT_FALSE(writer->FinishFullKeyframe().ok());
  EXPECT_FALSE(writer->BeginFullKeyframe(2, 0, {}, {}, {}).ok());
  ASSERT_TRUE(writer->BeginFullKeyframe(1, 0, {}, {}, {}).ok());
  EXPECT_TRUE(writer->AddPage(0x2000, FilledPage(1)).ok());
  EXPECT_FALSE(writer->AddPage(0x2000, FilledPage(1)).ok());
  EXPECT_FALSE(writer->AddPage(0x3001, FilledPage(1)).ok());
  EXPECT_FALSE(writer->AddModulePage(0x4000, 0, 0).ok());
  EXPECT_TRUE(writer->FinishFullKeyframe().ok());
  const std::vector<uint64_t> before = {4}, twice = {5, 5}, after = {7};
  for (const auto& counts : {before, twice, after}) {
    EXPECT_FALSE(writer->Append(kThread, {7, OrderRun{1, counts}}).ok());
  }
  trace.End(6);
  trace.Finish();
  EXPECT_EQ(trace.Read().Load(0)->records().size(), 2);
  EXPECT_EQ(trace.Read()->full_keyframes()[0]->page_count(), 1);
}

}  // namespace
}  // namespace hindsight

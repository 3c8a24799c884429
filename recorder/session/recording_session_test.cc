#include "recorder/session/recording_session.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/log/fake_trace_writer.h"
#include "recorder/session/engine.h"

namespace hindsight {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class FakeEngine final : public Engine {
 public:
  absl::Status Record(pid_t, absl::Span<const StoppedThread>) override { return absl::OkStatus(); }
  uint64_t open_instructions() const override { return instructions; }
  uint64_t living_processes() const override { return living; }

  uint64_t instructions = 0;
  uint64_t living = 1;
};

// A recording whose clock is stopped until the test moves it.
class RecordingSessionTest : public ::testing::Test {
 protected:
  RecordingSession& Begin() {
    RecordingSession::Plan plan;
    plan.part = *RecordedPart::Parse(options_);
    plan.triggers = *SnapshotTriggers::Parse(options_.capture);
    auto writer = std::make_unique<FakeTraceWriter>();
    writer_ = writer.get();
    RecordingSession::Trace trace = {std::move(writer), Manifest()};
    session_ = std::make_unique<RecordingSession>(options_, std::move(plan), std::move(trace),
                                                  [this] { return now_; });
    return *session_;
  }
  ProcessLog* Open(pid_t process, ProcessLog* parent = nullptr) {
    Manifest manifest;
    manifest.pid = process;
    auto log = session_->Open(std::move(manifest), parent, "/proc/self/root");
    EXPECT_TRUE(log.ok()) << log.status();
    return *log;
  }
  void TickAfter(milliseconds time) {
    now_ += time;
    session_->Tick(engine_);
  }

  RecordOptions options_;
  RecordingSession::Clock::time_point now_ = RecordingSession::Clock::time_point(seconds(100));
  FakeEngine engine_;
  FakeTraceWriter* writer_ = nullptr;
  std::unique_ptr<RecordingSession> session_;
};

TEST_F(RecordingSessionTest, TimeCountsFromTheBeginning) {
  RecordingSession& session = Begin();
  EXPECT_EQ(session.NowNs(), 0u);
  now_ += milliseconds(3);
  EXPECT_EQ(session.NowNs(), 3'000'000u);
}

TEST_F(RecordingSessionTest, TheFirstErrorIsKept) {
  RecordingSession& session = Begin();
  Open(7);
  session.Keep(absl::OkStatus());
  EXPECT_FALSE(session.end_wanted());
  session.Keep(absl::DataLossError("first"));
  session.Keep(absl::InternalError("second"));
  EXPECT_TRUE(session.end_wanted());
  EXPECT_EQ(session.status().message(), "first");
  EXPECT_EQ(session.Result().status(), absl::AbortedError("first"));
}

TEST_F(RecordingSessionTest, EndsAfterMaxSeconds) {
  options_.max_seconds = 2;
  Begin();
  TickAfter(milliseconds(1999));
  EXPECT_FALSE(session_->end_wanted());
  TickAfter(milliseconds(1));
  EXPECT_TRUE(session_->end_wanted());
  EXPECT_FALSE(session_->timed_out());
}

TEST_F(RecordingSessionTest, TimesOut) {
  options_.timeout_seconds = 1;
  Begin();
  TickAfter(seconds(1));
  EXPECT_TRUE(session_->end_wanted());
  EXPECT_TRUE(session_->timed_out());
}

TEST_F(RecordingSessionTest, EndsWhenTheTraceIsLarge) {
  options_.max_trace_bytes = 1000;
  Begin();
  TickAfter(milliseconds(1));  // nothing is recorded yet
  Open(7);
  writer_->bytes = 999;
  TickAfter(milliseconds(1));
  EXPECT_FALSE(session_->end_wanted());
  writer_->bytes = 1000;
  TickAfter(milliseconds(1));
  EXPECT_EQ(session_->end_reason(), "the trace has reached 1000 bytes");
}

TEST_F(RecordingSessionTest, EndsWhenAskedTo) {
  Begin();
  raise(SIGTERM);
  TickAfter(milliseconds(1));
  EXPECT_TRUE(session_->end_wanted());
  EXPECT_EQ(session_->signal_for_program(), SIGTERM);
}

TEST_F(RecordingSessionTest, ProcessesThatOutliveTheProgramHaveAnInstant) {
  Begin();
  session_->NoteProgramExit(0x100);
  TickAfter(milliseconds(199));
  EXPECT_FALSE(session_->end_wanted());
  engine_.living = 2;
  TickAfter(milliseconds(1));
  EXPECT_EQ(session_->end_reason(), "the program has ended");
  Open(7);
  EXPECT_EQ(session_->Result()->processes_left, 2u);
  EXPECT_EQ(session_->Result()->wait_status, 0x100);
}

TEST_F(RecordingSessionTest, WithoutLivingProcessesTheEngineEndsByItself) {
  Begin();
  session_->NoteProgramExit(0);
  engine_.living = 0;
  TickAfter(seconds(10));
  EXPECT_FALSE(session_->end_wanted());
  Open(7);
  EXPECT_EQ(session_->Result()->processes_left, 0u);
}

TEST_F(RecordingSessionTest, WaitsForAllIfAskedTo) {
  options_.wait_for_all = true;
  Begin();
  session_->NoteProgramExit(0);
  TickAfter(seconds(10));
  EXPECT_FALSE(session_->end_wanted());
}

TEST_F(RecordingSessionTest, TasksThatAreNotRecordedMayMapWhatRecordedOnesDo) {
  Begin();
  MapRegion region;
  region.shared = true;
  region.name = "/tmp/some file";
  ForeignMappings& foreign = session_->foreign_mappings();
  foreign.Update({&region, 1}, getpid(), session_->NowNs());
  EXPECT_FALSE(foreign.IsDue(session_->NowNs()));
  session_->NoteUnrecorded();
  EXPECT_TRUE(foreign.IsDue(session_->NowNs()));
}

TEST_F(RecordingSessionTest, FlushesEveryTraceOnceASecond) {
  Begin();
  Open(7);
  Open(8);
  TickAfter(milliseconds(899));
  EXPECT_FALSE(session_->flush_due());
  EXPECT_EQ(writer_->flushes, 0);
  now_ += milliseconds(1);
  EXPECT_TRUE(session_->flush_due());
  TickAfter(milliseconds(0));
  EXPECT_FALSE(session_->flush_due());
  EXPECT_EQ(writer_->flushes, 1);
  EXPECT_EQ(writer_->children[0]->flushes, 1);
}

TEST_F(RecordingSessionTest, AFlushThatFailsEndsTheRecording) {
  Begin();
  Open(7);
  writer_->status = absl::ResourceExhaustedError("the disk is full");
  TickAfter(seconds(1));
  EXPECT_TRUE(session_->failed());
}

TEST_F(RecordingSessionTest, ShowsProgressFourTimesASecond) {
  std::vector<RecordProgress> shown;
  options_.progress = [&](const RecordProgress& progress) { shown.push_back(progress); };
  options_.hide_progress = [] {};
  Begin();
  ProcessLog* const log = Open(7);
  Sequence sequence;
  log->AddThread(ThreadLog(writer_, 7, &sequence), 10, {});
  session_->Tick(engine_);
  engine_.instructions = 30;
  session_->sequence()->last = 5;
  TickAfter(milliseconds(249));
  ASSERT_EQ(shown.size(), 1u);
  session_->Close(log);
  TickAfter(milliseconds(1));
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_EQ(shown[1].instructions, 40u);  // of closed processes as well
  EXPECT_EQ(shown[1].events, 5u);
}

TEST_F(RecordingSessionTest, AClosedProcessIsFinishedTheFirstOneAtTheEnd) {
  Begin();
  ProcessLog* const first = Open(7);
  ProcessLog* const second = Open(8, first);
  FakeTraceWriter* const child = writer_->children[0];
  Open(9, second);
  ASSERT_EQ(child->children.size(), 1u);
  session_->Close(first);
  EXPECT_FALSE(writer_->finished.has_value());
  session_->FinishTraces();
  EXPECT_EQ(writer_->finished->pid, 7);
  EXPECT_EQ(child->children[0]->finished->pid, 9);
  EXPECT_EQ(session_->Result()->processes, 3u);
}

TEST_F(RecordingSessionTest, NothingRecordedIsAnError) {
  options_.start_at = "main";
  Begin();
  session_->FinishTraces();
  EXPECT_EQ(session_->Result().status(),
            absl::FailedPreconditionError("nothing was recorded: main was not reached"));
}

TEST_F(RecordingSessionTest, TheFirstDifferenceOfABlockIsReported) {
  Begin();
  Open(7);
  for (const char* difference : {"", "rax", "rbx"}) session_->NoteBlockCheck(difference);
  const RecordResult result = *session_->Result();
  EXPECT_EQ(result.blocks_checked, 3u);
  EXPECT_EQ(result.blocks_differing, 2u);
  EXPECT_EQ(result.first_difference, "rax");
}

TEST(RecordedPartTest, PlacesAreParsed) {
  RecordOptions options;
  options.start_at = ":main";
  EXPECT_EQ(RecordedPart::Parse(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RecordedPartTest, OnlyProcessesThatRunTheProgram) {
  RecordOptions options;
  EXPECT_TRUE((*RecordedPart::Parse(options))->Includes(getpid()));
  options.children = ChildPolicy::kOnly;
  options.only_program = "recording_session_test";
  EXPECT_TRUE((*RecordedPart::Parse(options))->Includes(getpid()));
  options.only_program = "session_test";
  EXPECT_FALSE((*RecordedPart::Parse(options))->Includes(getpid()));
}

TEST(RecordedPartTest, NothingIsIncludedBeforeItsStart) {
  RecordOptions options;
  options.start_at = "main";
  auto part = *RecordedPart::Parse(options);
  EXPECT_TRUE(part->has_start());
  EXPECT_FALSE(part->Includes(getpid()));
  EXPECT_TRUE(part->StopPlaces(getpid(), AddressSpace()).empty());
}

}  // namespace
}  // namespace hindsight

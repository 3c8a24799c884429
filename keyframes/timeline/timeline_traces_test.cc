// Timelines of traces that are not whole, not alone, or not continuous.

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "isa/registers.h"
#include "keyframes/timeline/timeline.h"
#include "keyframes/toys/toy_threads.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {
namespace {

constexpr uint64_t kCode = 0x400000;
constexpr uint64_t kData = 0x600000;
constexpr int32_t kThread = 5;
constexpr int32_t kOther = 6;

// Writes traces of threads that execute nothing but `nop`s, unless a test says otherwise.
class TracesTest : public testing::Test {
 protected:
  TracesTest() {
    const char* parent = std::getenv("TEST_TMPDIR");
    directory_ = std::string(parent == nullptr ? "/tmp" : parent) + "/traces_XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    trace_path_ = directory_ + "/trace";
    manifest_.pid = kThread;
    manifest_.register_layout = kRegisterLayout;
    code_.fill(0x90);
  }
  ~TracesTest() override {
    timeline_.reset();
    reader_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  void Begin() { writer_ = *TraceWriter::Create(trace_path_, manifest_); }
  RegisterFile At(uint64_t count) {
    RegisterFile registers;
    registers.rip = kCode + count;
    registers.rflags = 0x202;
    registers.gpr[kRsp] = kData + kLineBytes;
    registers.cs = 0x33;
    registers.ss = 0x2b;
    return registers;
  }
  void BeginSegment(int32_t thread, uint64_t number, uint64_t count) {
    ASSERT_TRUE(writer_->BeginSegment(thread, number, count, 0, ToWords(At(count))).ok());
    ImportPage(thread, count, kCode, code_);
  }
  void ImportPage(int32_t thread, uint64_t count, uint64_t page,
                  const std::array<uint8_t, kPageBytes>& bytes, uint64_t known_mask = 0) {
    const PageImport import{.address = page,
                            .first = true,
                            .line_mask = ~uint64_t{0},
                            .lines = bytes,
                            .known_mask = known_mask};
    ASSERT_TRUE(writer_->Append(thread, {count, import}).ok());
  }
  void EndSegment(int32_t thread, uint64_t count) {
    ASSERT_TRUE(writer_->Append(thread, {count, SegmentEnd{ToWords(At(count))}}).ok());
  }
  void Keyframe(std::vector<std::pair<int32_t, uint64_t>> threads, uint64_t segment,
                const std::map<uint64_t, uint8_t>& pages) {
    std::vector<TraceWriter::ThreadState> states;
    for (const auto& [thread, count] : threads) {
      states.push_back({thread, count, segment, ToWords(At(count))});
    }
    const std::vector<MapRegion> maps = {
        {.start = kCode, .end = 0x900000, .protection = 7, .name = "all"}};
    ASSERT_TRUE(writer_->BeginFullKeyframe(++keyframes_, 0, states, maps, {}).ok());
    for (const auto& [page, fill] : pages) {
      std::array<uint8_t, kPageBytes> bytes;
      bytes.fill(fill);
      ASSERT_TRUE(writer_->AddPage(page, bytes).ok());
    }
    ASSERT_TRUE(writer_->FinishFullKeyframe().ok());
  }
  void Event(const ProcessEvent& event) { ASSERT_TRUE(writer_->AppendEvent(event).ok()); }
  // `complete`: else as a recorder that died leaves it.
  void Open(bool complete = true) {
    if (complete) {
      manifest_.state = TraceState::kComplete;
      ASSERT_TRUE(writer_->Finish(manifest_).ok());
    } else {
      ASSERT_TRUE(writer_->Flush().ok());
    }
    writer_.reset();
    reader_ = *TraceReader::Open(trace_path_);
    auto timeline = Timeline::Open(reader_.get());
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    timeline_ = *std::move(timeline);
  }

  std::optional<uint64_t> Read(int32_t thread, uint64_t address) {
    uint64_t value = 0;
    auto size = timeline_->ReadMemory(
        thread, address, absl::MakeSpan(reinterpret_cast<uint8_t*>(&value), sizeof(value)));
    EXPECT_TRUE(size.ok() || absl::IsNotFound(size.status())) << size.status();
    if (!size.ok()) return std::nullopt;
    return value;
  }
  static std::array<uint8_t, kPageBytes> Filled(uint8_t fill) {
    std::array<uint8_t, kPageBytes> bytes;
    bytes.fill(fill);
    return bytes;
  }

  std::string directory_;
  std::string trace_path_;  // where Open() finds the trace
  Manifest manifest_;
  std::array<uint8_t, kPageBytes> code_;
  std::unique_ptr<TraceWriter> writer_;
  std::unique_ptr<TraceReader> reader_;
  std::unique_ptr<Timeline> timeline_;
  uint64_t keyframes_ = 0;
};

// The trace says that the process is its own parent: what it did not touch is not known.
TEST_F(TracesTest, AProcessThatIsItsOwnParentHasNoMemoryFromBefore) {
  const ToyThreads recording;
  manifest_.parent_pid = kThread;
  manifest_.parent_directory = "../77";
  manifest_.parent_thread = kThread;
  std::filesystem::create_directory(recording.trace()->directory() + "/processes");
  trace_path_ = recording.trace()->directory() + "/processes/77";
  Begin();
  Keyframe({{kThread, 0}}, 0, {});
  BeginSegment(kThread, 0, 0);
  EndSegment(kThread, 30);
  Open();
  EXPECT_TRUE(Read(kThread, kCode).has_value());
  EXPECT_FALSE(Read(kThread, kData).has_value());
}

TEST_F(TracesTest, MemoryAForkedProcessHasNotTouchedIsItsParents) {
  const ToyThreads parent;
  // Where the second thread forks; the parent has moved on since.
  const uint64_t fork = parent.end_moment() / 2;
  const ToyThreads::Moment& truth = parent.moments()[fork];
  manifest_.parent_pid = ToyThreads::kMain;
  manifest_.parent_directory = "../..";
  std::filesystem::create_directory(parent.trace()->directory() + "/processes");
  trace_path_ = parent.trace()->directory() + "/processes/77";
  manifest_.parent_thread = truth.thread;
  manifest_.parent_count = truth.count;
  Begin();
  Keyframe({{kThread, 0}}, 0, {});
  BeginSegment(kThread, 0, 0);
  ImportPage(kThread, 20, kData + 0x100000, Filled(7));
  EndSegment(kThread, 30);
  Open();
  for (size_t v = 0; v < ToyThreads::kVariables.size(); ++v) {
    if (ToyThreads::kVariables[v] == ToyThreads::kRarePage) continue;
    EXPECT_EQ(Read(kThread, ToyThreads::kVariables[v]), truth.values[v]) << v;
  }
  EXPECT_EQ(Read(kThread, ToyThreads::kRarePage), truth.values.back());
  ASSERT_TRUE(timeline_->SeekTo(uint64_t{25}).ok());
  // What it has touched is its own.
  EXPECT_EQ(Read(kThread, ToyThreads::kRarePage), 0x0707070707070707);
}

// Zeros that a thread has read are not the same as zeros of a page that no thread has read.
TEST_F(TracesTest, MemoryThatNobodyHasTouchedIsKnownAsSuch) {
  Begin();
  const std::vector<MapRegion> maps = {{.start = kCode, .end = 0x900000, .protection = 7}};
  ASSERT_TRUE(
      writer_->BeginFullKeyframe(++keyframes_, 0, {{kThread, 0, 0, ToWords(At(0))}}, maps, {})
          .ok());
  ASSERT_TRUE(writer_->AddPage(kData, Filled(0)).ok());
  ASSERT_TRUE(writer_->DeclareComplete({}).ok());
  ASSERT_TRUE(writer_->FinishFullKeyframe().ok());
  BeginSegment(kThread, 0, 0);
  ImportPage(kThread, 20, kData + kPageBytes, Filled(0));
  EndSegment(kThread, 30);
  Open();
  const auto untouched = [&](uint64_t page) {
    return *timeline_->IsUntouched(kThread, page + 100);
  };
  EXPECT_EQ(Read(kThread, kData), 0);
  EXPECT_FALSE(untouched(kData));
  EXPECT_FALSE(untouched(kCode));
  EXPECT_FALSE(untouched(0x1000));  // not mapped
  EXPECT_EQ(Read(kThread, kData + kPageBytes), 0);
  EXPECT_TRUE(untouched(kData + kPageBytes));
  ASSERT_TRUE(timeline_->SeekTo(uint64_t{25}).ok());
  EXPECT_EQ(Read(kThread, kData + kPageBytes), 0);
  EXPECT_FALSE(untouched(kData + kPageBytes));
  EXPECT_TRUE(untouched(kData + 2 * kPageBytes));
}

TEST_F(TracesTest, OfAMissingParentNothingIsKnown) {
  manifest_.parent_pid = 1;
  manifest_.parent_directory = "../nowhere";
  Begin();
  Keyframe({{kThread, 0}}, 0, {});
  BeginSegment(kThread, 0, 0);
  EndSegment(kThread, 30);
  Open();
  EXPECT_EQ(Read(kThread, kData), std::nullopt);
  EXPECT_EQ(Read(kThread, kCode), 0x9090909090909090);
}

TEST_F(TracesTest, BehindAGapNothingFromBeforeItIsShown) {
  Begin();
  Keyframe({{kThread, 0}}, 0, {{kData, 1}});
  BeginSegment(kThread, 0, 0);
  ImportPage(kThread, 0, kData + kPageBytes, Filled(2));
  Event({.kind = EventKind::kGap, .thread = kThread, .count = 10, .text = "let go"});
  ASSERT_TRUE(writer_->Append(kThread, {10, Gap{"let go"}}).ok());
  Keyframe({{kThread, 10}}, 1, {{kData, 3}});
  BeginSegment(kThread, 1, 10);
  EndSegment(kThread, 30);
  Open();
  EXPECT_EQ(Read(kThread, kData), 0x0101010101010101);
  EXPECT_EQ(Read(kThread, kData + kPageBytes), 0x0202020202020202);
  ASSERT_TRUE(timeline_->SeekTo(uint64_t{20}).ok());
  EXPECT_EQ(Read(kThread, kData), 0x0303030303030303);
  EXPECT_EQ(Read(kThread, kData + kPageBytes), std::nullopt);
  ASSERT_EQ(timeline_->process().gaps().size(), 1);
  EXPECT_EQ(timeline_->process().gaps()[0].moment, 10);
  // Runs go over it.
  RunRequest request;
  request.breakpoints = {{.address = kCode + 25}};
  auto stop = timeline_->Run(request);
  ASSERT_TRUE(stop.ok()) << stop.status();
  EXPECT_EQ(timeline_->moment(), 25);
  request.direction = Direction::kBackward;
  request.breakpoints = {{.address = kCode + 5}};
  ASSERT_TRUE(timeline_->Run(request).ok());
  EXPECT_EQ(timeline_->moment(), 5);
}

TEST_F(TracesTest, AnUnfinishedTraceIsShownUpToWhereItCanBeReplayed) {
  Begin();
  BeginSegment(kThread, 0, 0);
  ASSERT_TRUE(writer_->Append(kThread, {40, RegisterHash{Hash(At(40))}}).ok());
  Event({.kind = EventKind::kThreadStart, .sequence = 1, .thread = kOther, .number = kThread});
  BeginSegment(kOther, 0, 0);
  ASSERT_TRUE(writer_->Append(kOther, {15, RegisterHash{Hash(At(15))}}).ok());
  Event({.kind = EventKind::kSlice, .sequence = 2, .thread = kOther, .count = 0});
  Event({.kind = EventKind::kSlice, .sequence = 3, .thread = kThread, .count = 30});
  Event({.kind = EventKind::kSlice, .sequence = 4, .thread = kOther, .count = 9000});
  Event({.kind = EventKind::kSyscall, .sequence = 5, .thread = kOther, .count = 9001});
  Open(/*complete=*/false);
  EXPECT_EQ(timeline_->end_moment(), 55);
  EXPECT_TRUE(timeline_->SeekTo(uint64_t{55}).ok());
  EXPECT_EQ(timeline_->count(kOther), 15);
  EXPECT_EQ(timeline_->count(kThread), 40);
  RunRequest request;
  request.direction = Direction::kBackward;
  request.breakpoints = {{.address = kCode + 12}};
  auto stop = timeline_->Run(request);
  ASSERT_TRUE(stop.ok()) << stop.status();
  EXPECT_EQ(stop->thread, kOther);
  EXPECT_EQ(timeline_->moment(), 42);
}

TEST_F(TracesTest, ADamagedThreadLeavesTheOthersUsable) {
  Begin();
  BeginSegment(kThread, 0, 0);
  EndSegment(kThread, 40);
  BeginSegment(kOther, 0, 0);
  ASSERT_TRUE(writer_->Append(kOther, {10, RegisterHash{Hash(At(11))}}).ok());  // not so
  EndSegment(kOther, 20);
  Event({.kind = EventKind::kSlice, .sequence = 2, .thread = kOther, .count = 0});
  Event({.kind = EventKind::kSlice, .sequence = 3, .thread = kThread, .count = 30});
  Open();
  ASSERT_TRUE(timeline_->SeekTo(uint64_t{35}).ok());
  EXPECT_TRUE(absl::IsDataLoss(timeline_->SeekTo(uint64_t{45})));
  EXPECT_EQ(timeline_->moment(), 35);
  EXPECT_EQ(timeline_->registers(kOther)->rip, kCode + 5);
  ASSERT_TRUE(timeline_->SeekTo(uint64_t{55}).ok());
  EXPECT_EQ(timeline_->registers(kThread)->rip, kCode + 35);
  EXPECT_TRUE(absl::IsDataLoss(timeline_->registers(kOther).status()));
}

TEST_F(TracesTest, OfWhatThreadsKnowDifferentlyTheNewestIsShown) {
  Begin();
  BeginSegment(kThread, 0, 0);
  ImportPage(kThread, 10, kData, Filled(1));
  EndSegment(kThread, 40);
  Event({.kind = EventKind::kThreadStart, .sequence = 1, .thread = kOther, .number = kThread});
  BeginSegment(kOther, 0, 0);
  ImportPage(kOther, 5, kData, Filled(2));
  EndSegment(kOther, 20);
  const int32_t third = kOther + 1;
  BeginSegment(third, 0, 0);
  EndSegment(third, 20);
  Event({.kind = EventKind::kSlice, .sequence = 2, .thread = kOther, .count = 0});
  Event({.kind = EventKind::kSlice, .sequence = 3, .thread = third, .count = 0});
  Event({.kind = EventKind::kSlice, .sequence = 4, .thread = kThread, .count = 20});
  Event({.kind = EventKind::kSlice, .sequence = 5, .thread = third, .count = 10});
  Open();
  // Before the second thread has seen the page: what the first knew last.
  ASSERT_TRUE(timeline_->SeekTo(uint64_t{22}).ok());
  EXPECT_EQ(timeline_->current_thread(), kOther);
  EXPECT_EQ(Read(kOther, kData), 0x0101010101010101);
  // The third, which never sees it: what the second knew, which learned it later.
  ASSERT_TRUE(timeline_->SeekTo(uint64_t{45}).ok());
  EXPECT_EQ(timeline_->current_thread(), third);
  EXPECT_EQ(Read(third, kData), 0x0202020202020202);
  // The first, which waits: the same, whatever it knew when it left off.
  EXPECT_EQ(Read(kThread, kData), 0x0202020202020202);
}

// The first one was in the same state when its second turn began.
TEST_F(TracesTest, WhatWasImportedInALaterTurnOfAStateIsNewer) {
  manifest_.engine = "translate";
  Begin();
  BeginSegment(kThread, 0, 0);
  ImportPage(kThread, 0, kData, Filled(1));
  const std::array<uint8_t, kPageBytes> seen = Filled(4);
  const PageImport line{.address = kData,
                        .line_mask = 1,
                        .lines = absl::MakeConstSpan(seen).first(kLineBytes),
                        .known_mask = 1,
                        .turn = 2};
  ASSERT_TRUE(writer_->Append(kThread, {10, line}).ok());
  EndSegment(kThread, 30);
  Event({.kind = EventKind::kThreadStart, .sequence = 1, .thread = kOther, .number = kThread});
  BeginSegment(kOther, 0, 0);
  ImportPage(kOther, 5, kData, Filled(3));
  EndSegment(kOther, 20);
  const int32_t third = kOther + 1;
  BeginSegment(third, 0, 0);
  EndSegment(third, 20);
  Event({.kind = EventKind::kSlice, .sequence = 2, .thread = kThread, .count = 10});
  Event({.kind = EventKind::kSlice, .sequence = 3, .thread = kOther, .count = 0});
  Event({.kind = EventKind::kSlice, .sequence = 4, .thread = kThread, .count = 10});
  Event({.kind = EventKind::kSlice, .sequence = 5, .thread = third, .count = 0});
  Open();
  ASSERT_TRUE(timeline_->SeekTo(uint64_t{55}).ok());
  EXPECT_EQ(timeline_->current_thread(), third);
  EXPECT_EQ(Read(third, kData), 0x0404040404040404);
  // Before that turn.
  ASSERT_TRUE(timeline_->SeekTo(uint64_t{20}).ok());
  EXPECT_EQ(timeline_->current_thread(), kOther);
  EXPECT_EQ(Read(kThread, kData), 0x0303030303030303);
}

// Where others of a page's lines are old news, a thread's writes of long ago are looked at, too:
// what it has learned since of a line that it wrote then counts.
TEST_F(TracesTest, WhatAThreadLearnedSinceItWroteIsNewerThanWhatItWrote) {
  code_[10] = 0x50;  // push, into the first line of kData
  code_[11] = 0x58;  // pop
  Begin();
  BeginSegment(kThread, 0, 0);
  ImportPage(kThread, 0, kData, Filled(1));
  const std::array<uint8_t, kPageBytes> seen = Filled(4);
  const PageImport first_line{
      .address = kData, .line_mask = 1, .lines = absl::MakeConstSpan(seen).first(kLineBytes)};
  ASSERT_TRUE(writer_->Append(kThread, {17, first_line}).ok());
  EndSegment(kThread, 30);
  Event({.kind = EventKind::kThreadStart, .sequence = 1, .thread = kOther, .number = kThread});
  BeginSegment(kOther, 0, 0);
  ImportPage(kOther, 5, kData, Filled(3));
  EndSegment(kOther, 9);
  Event({.kind = EventKind::kSlice, .sequence = 2, .thread = kOther, .count = 0});
  Event({.kind = EventKind::kSlice, .sequence = 3, .thread = kThread, .count = 15});
  Event({.kind = EventKind::kSlice, .sequence = 4, .thread = kOther, .count = 8});
  Open();
  ASSERT_TRUE(timeline_->SeekTo(uint64_t{25}).ok());
  EXPECT_EQ(timeline_->current_thread(), kThread);
  EXPECT_EQ(timeline_->count(kThread), 17);
  EXPECT_EQ(Read(kThread, kData), 0x0404040404040404);
  for (const uint64_t moment : {25, 26, 30, 37}) {
    ASSERT_TRUE(timeline_->SeekTo(moment).ok());
    EXPECT_EQ(Read(kOther, kData), 0x0404040404040404) << moment;
    EXPECT_EQ(Read(kOther, kData + kLineBytes), 0x0303030303030303) << moment;
  }
}

}  // namespace
}  // namespace hindsight

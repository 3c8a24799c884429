#include "cli/states/refine_recording.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "keyframes/inspect/snapshot_view.h"
#include "keyframes/inspect/timeline_view.h"
#include "keyframes/timeline/timeline.h"
#include "keyframes/toys/toy_recording.h"
#include "keyframes/toys/toy_threads.h"
#include "keyframes/verify/verify_snapshots.h"

namespace hindsight {
namespace {

// The new trace, removed at the end.
class Refined {
 public:
  Refined(const TraceReader& source, RecordingRefinement wanted) {
    const char* const temporary = std::getenv("TEST_TMPDIR");
    directory_ = std::string(temporary == nullptr ? "/tmp" : temporary) + "/refinedXXXXXX";
    if (mkdtemp(directory_.data()) == nullptr) std::abort();
    wanted.directory = directory_;
    wanted.quiet = true;
    status_ = RefineRecording(source, wanted);
    if (status_ != 0) return;
    trace_ = *TraceReader::Open(directory_);
    view_ = std::make_unique<SnapshotView>(trace_.get(), ListSnapshots(*trace_));
    const auto verified = VerifySnapshots(*trace_);
    EXPECT_TRUE(verified.ok() && verified->whole()) << verified->difference;
    EXPECT_EQ(verified->no_totals, "");
  }
  ~Refined() { std::filesystem::remove_all(directory_); }

  int status() const { return status_; }
  SnapshotView& view() { return *view_; }
  size_t size() const { return view_->snapshots().size(); }

 private:
  std::string directory_;
  int status_ = 0;
  std::unique_ptr<TraceReader> trace_;
  std::unique_ptr<SnapshotView> view_;
};

uint64_t Word(ProcessView& view, int32_t thread, uint64_t address, bool* known) {
  uint64_t word = 0;
  const auto read = view.ReadMemory(
      thread, address, absl::MakeSpan(reinterpret_cast<uint8_t*>(&word), sizeof(word)));
  *known = read.ok() && *read == sizeof(word);
  return word;
}

// The moment of the recording that each snapshot is of.
std::vector<uint64_t> MomentsOf(const SnapshotView& view, const ProcessState& process) {
  std::vector<uint64_t> moments;
  for (const SnapshotInfo& snapshot : view.snapshots()) {
    for (const auto& [key, value] : snapshot.attributes) {
      if (key == "position") moments.push_back(*process.MomentAt(*ParsePosition(value)));
    }
  }
  return moments;
}

TEST(RefineRecordingTest, EachSnapshotIsTheStateOfThatMoment) {
  const ToyThreads toy;
  const auto timeline = *Timeline::Open(toy.trace());
  TimelineView recorded(toy.trace(), timeline.get());
  Refined refined(*toy.trace(), {.every_moments = 97});
  ASSERT_EQ(refined.status(), 0);
  SnapshotView& view = refined.view();
  const std::vector<uint64_t> moments = MomentsOf(view, timeline->process());
  ASSERT_EQ(moments.size(), refined.size());
  ASSERT_GT(moments.size(), 20u);
  EXPECT_EQ(moments.front(), 0u);
  EXPECT_EQ(moments.back(), toy.end_moment());
  size_t words = 0, threads = 0;
  for (size_t i = 0; i < moments.size(); ++i) {
    view.GoTo(i);
    ASSERT_TRUE(timeline->SeekTo(moments[i]).ok());
    ASSERT_EQ(view.threads(), recorded.threads());
    threads += view.threads().size();
    for (const int32_t thread : view.threads()) {
      EXPECT_EQ(*view.Registers(thread), toy.registers(thread, toy.CountAt(thread, moments[i])))
          << i;
    }
    for (size_t v = 0; v < ToyThreads::kVariables.size(); ++v) {
      bool known = false, was_known = false;
      const int32_t thread = timeline->current_thread();
      const uint64_t word = Word(view, thread, ToyThreads::kVariables[v], &known);
      const uint64_t was = Word(recorded, thread, ToyThreads::kVariables[v], &was_known);
      // What the recording does not know stays unknown.
      EXPECT_EQ(known, was_known) << i;
      if (!known) continue;
      EXPECT_EQ(word, was) << i;
      EXPECT_EQ(word, toy.moments()[moments[i]].values[v]) << i << " " << v;
      ++words;
    }
  }
  EXPECT_GT(words, moments.size());
  EXPECT_GT(threads, moments.size());
}

TEST(RefineRecordingTest, EvenlySpacedWithBothEnds) {
  const ToyRecording toy({.full_keyframes = true});
  const auto timeline = *Timeline::Open(toy.trace());
  Refined refined(*toy.trace(), {.from = "25%", .to = "75%", .count = 5});
  ASSERT_EQ(refined.status(), 0);
  const std::vector<uint64_t> moments = MomentsOf(refined.view(), timeline->process());
  const ProcessState& process = timeline->process();
  ASSERT_EQ(moments.size(), 5u);
  EXPECT_EQ(moments.front(), process.MomentAtPercent(25));
  EXPECT_EQ(moments.back(), process.MomentAtPercent(75));
  for (size_t i = 1; i < moments.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(moments[i] - moments[i - 1]),
                static_cast<double>(moments.back() - moments.front()) / 4, 1);
  }
}

TEST(RefineRecordingTest, WhereAnAddressIsReachedAndAfterEachChange) {
  const ToyRecording toy({.iterations = 100, .full_keyframes = true});
  const auto timeline = *Timeline::Open(toy.trace());
  std::vector<uint64_t> calls = {0}, changes = {0};
  for (size_t i = 0; i < toy.states().size(); ++i) {
    const bool calls_now = toy.states()[i].registers.rip == ToyRecording::Callee();
    if (calls_now && !toy.states()[i].signal_next) calls.push_back(i);
    if (i > 0 && toy.states()[i].rare != toy.states()[i - 1].rare) changes.push_back(i);
  }
  for (std::vector<uint64_t>* moments : {&calls, &changes}) {
    ASSERT_GT(moments->size(), 2u);
    if (moments->back() != toy.states().size() - 1) moments->push_back(toy.states().size() - 1);
  }
  Refined at(*toy.trace(), {.at = {absl::StrFormat("0x%x", ToyRecording::Callee())}});
  ASSERT_EQ(at.status(), 0);
  EXPECT_EQ(MomentsOf(at.view(), timeline->process()), calls);
  Refined watch(*toy.trace(), {.watch = {absl::StrFormat("0x%x,8", ToyRecording::kRare)}});
  ASSERT_EQ(watch.status(), 0);
  EXPECT_EQ(MomentsOf(watch.view(), timeline->process()), changes);
}

TEST(RefineRecordingTest, WhatCannotBeDoneIsRefused) {
  const ToyRecording toy({.iterations = 20, .full_keyframes = true});
  const std::vector<RecordingRefinement> impossible = {
      {.from = "75%", .to = "25%"}, {.from = "nowhere"},      {.every_moments = 1, .max = 10},
      {.at = {"no_such_function"}}, {.at = {"0xzz"}},         {.watch = {"no_such_variable"}},
      {.watch = {"0x600000,0"}},    {.watch = {"0x600000,x"}}};
  for (const RecordingRefinement& wanted : impossible) {
    EXPECT_NE(Refined(*toy.trace(), wanted).status(), 0);
  }
}

}  // namespace
}  // namespace hindsight

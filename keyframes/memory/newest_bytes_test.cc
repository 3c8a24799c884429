#include "keyframes/memory/newest_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/status_macros.h"
#include "keyframes/toys/toy_threads.h"

namespace hindsight {
namespace {

constexpr int32_t kFirst = ToyThreads::kMain, kSecond = ToyThreads::kSecond,
                  kThird = ToyThreads::kThird;

// What a thread has imported that others had; or nothing, in a segment that begins in a state.
class ImportedLine final : public Segment {
 public:
  explicit ImportedLine(uint64_t first_count) : info_{.first_count = first_count} {}
  // `shown_by`: who had it; 0: that is not known.
  ImportedLine(uint64_t count, int32_t shown_by)
      : records_{{count, PageImport{.address = ToyThreads::kShared,
                                    .line_mask = 1,
                                    .lines = line_,
                                    .known_mask = 1,
                                    .shown = Shown(shown_by)}}} {}
  const SegmentInfo& info() const override { return info_; }
  const RegisterWords& registers() const override { return registers_; }
  const std::vector<Record>& records() const override { return records_; }
  uint64_t end_count() const override { return ~uint64_t{0}; }
  const RegisterWords* end_registers() const override { return nullptr; }
  const absl::Status& damage() const override { return damage_; }
  uint64_t memory_bytes() const override { return 0; }

 private:
  static std::vector<PageImport::Shown> Shown(int32_t by) {
    if (by == 0) return {};
    return {{by, 1}};
  }

  const std::vector<uint8_t> line_ = std::vector<uint8_t>(kLineBytes, 9);
  const SegmentInfo info_;
  const RegisterWords registers_;
  const std::vector<Record> records_;
  const absl::Status damage_;
};

// Two threads know a page whose first byte is 1 to one and 2 to the other.
class NewestBytesTest : public testing::Test, private ThreadViews {
 protected:
  NewestBytesTest() : process_(*ProcessState::Create(toy_.trace())), newest_(&process_, this) {}

  const Schedule& schedule() const { return process_.schedule(); }
  // Four slices one after the other, of the first thread, the second, the first, the second; long
  // enough for orderable events, and any others in between.
  std::vector<size_t> FindSlices() const {
    std::vector<size_t> found;
    for (size_t i = 0; i < schedule().slices().size() && found.size() < 4; ++i) {
      const Slice& slice = schedule().slices()[i];
      const bool turn = slice.thread == (found.size() % 2 == 0 ? kFirst : kSecond);
      if (found.empty() && process_.threads().StartOf(kSecond) > slice.moment) continue;
      if (turn && slice.length > 60) found.push_back(i);
      if (!turn && !found.empty() && (slice.thread == kFirst || slice.thread == kSecond)) {
        found.clear();  // the thread whose turn it is not must not run in between
      }
    }
    return found;
  }
  // One of the second thread, then one of the first thread and right after it the second's next.
  std::vector<size_t> FindAdjoining() const {
    const std::vector<uint32_t>& turns = schedule().slices_of(kSecond);
    for (size_t i = 1; i < turns.size(); ++i) {
      const Slice& before = schedule().slices()[turns[i] - 1];
      if (before.thread == kFirst && before.length > 30 && turns[i - 1] < turns[i] - 1) {
        return {turns[i - 1], turns[i] - 1, turns[i]};
      }
    }
    return {};
  }
  // The last one of the third thread before `slice`, if no event follows what it writes last.
  std::optional<size_t> FindThirdsBefore(size_t slice) {
    const std::vector<uint32_t>& all = schedule().slices_of(kThird);
    const auto after = std::upper_bound(all.begin(), all.end(), slice);
    if (after == all.begin() || after == all.end()) return std::nullopt;
    const Slice& last = schedule().slices()[*std::prev(after)];
    const uint64_t end = last.count + last.length;
    const uint64_t limit = schedule().slices()[*after].sequence;
    if (process_.thread(kThird).PositionAt(end, limit).steps == 0) return std::nullopt;
    return *std::prev(after);
  }
  // Written by the first transition in the slice, or by the last one: no event follows there.
  void WritesFirst(size_t slice) { Learn(slice, schedule().slices()[slice].count + 1, false); }
  void WritesLast(size_t slice) {
    const Slice& at = schedule().slices()[slice];
    Learn(slice, at.count + at.length, false);
  }
  // By the last event in it, as a locked instruction does.
  void WritesAsEvent(size_t slice) {
    const Slice& at = schedule().slices()[slice];
    uint64_t next = slice + 1;
    while (schedule().slices()[next].thread != at.thread) ++next;
    const uint64_t end = at.count + at.length;
    const Position last =
        process_.thread(at.thread).PositionAt(end, schedule().slices()[next].sequence);
    ASSERT_GT(last.steps, 0u);
    ASSERT_LT(last.steps, at.length);
    Learn(slice, end - last.steps, false);
  }
  void Imports(size_t slice) { Learn(slice, schedule().slices()[slice].count, true); }

  // The first thread has imported in the slice a line that the second one's store to the state
  // `count` made so.
  void Sees(size_t slice, uint64_t count, int32_t shown_by = 0) {
    imported_ = std::make_shared<ImportedLine>(schedule().slices()[slice].count, shown_by);
    stored_ = count;
  }

  // The first thread's next segment begins where that slice ends.
  void EndsSegment(size_t slice) {
    const Slice& at = schedule().slices()[slice];
    next_ = std::make_shared<ImportedLine>(at.count + at.length);
    next_begins_ = at.moment + at.length;
  }

  // Who has the newest byte, looked at in the middle of a slice. `wanted`: only that is asked for,
  // and others differ as well.
  int Newest(size_t slice, bool at_once, int32_t running,
             std::optional<size_t> wanted = std::nullopt) {
    std::vector<ThreadPage> pages(2);
    for (size_t i = 0; i < 2; ++i) {
      pages[i].thread = i == 0 ? kFirst : kSecond;
      pages[i].bytes.fill(0);
      pages[i].bytes[0] = static_cast<uint8_t>(i + 1);
      if (wanted.has_value()) pages[i].bytes[100] = static_cast<uint8_t>(i + 1);
      pages[i].latest = schedule().end_moment();
    }
    std::array<uint8_t, kPageBytes> out;
    const uint64_t moment = schedule().slices()[slice].moment + 30;
    PageBits bits;
    bits.set(wanted.value_or(0));
    const NewestBytes::Question question = {.moment = moment,
                                            .at_once = at_once,
                                            .running = running,
                                            .wanted = wanted.has_value() ? &bits : nullptr};
    EXPECT_TRUE(newest_.Merge(pages, question, absl::MakeSpan(out)).ok());
    return out[wanted.value_or(0)];
  }

  ToyThreads toy_;
  ProcessState process_;
  NewestBytes newest_;
  int asked_ = 0;  // how often a thread was, when it learned or wrote a byte

 private:
  void Learn(size_t slice, uint64_t count, bool imported) {
    const Slice& at = schedule().slices()[slice];
    learned_[at.thread] = {at.moment + (count - at.count), count, imported};
  }
  absl::StatusOr<const SegmentReplay*> ReplayAt(int32_t thread, uint64_t,
                                                const std::atomic<bool>*) override {
    if (thread != kThird) return absl::NotFoundError("it has seen nothing");
    if (third_ != nullptr) return third_.get();
    const uint64_t last = toy_.trace()->segments(kThird).back().number;
    ASSIGN_OR_RETURN(const auto segment, toy_.trace()->LoadSegment(kThird, last));
    ASSIGN_OR_RETURN(third_, SegmentReplay::Create(toy_.trace()));
    RETURN_IF_ERROR(third_->Load(segment));
    RETURN_IF_ERROR(third_->AdvanceTo(segment->end_count()));
    return third_.get();
  }
  absl::StatusOr<std::vector<Learned>> LastKnown(int32_t thread, std::optional<uint64_t>, uint64_t,
                                                 uint64_t, const PageBits& bytes, uint64_t since,
                                                 const std::atomic<bool>*) override {
    EXPECT_EQ(bytes.count(), 1u) << "only one differs, or is asked for";
    ++asked_;
    Learned learned = {.imported = true};
    if (learned_.contains(thread) && learned_[thread].moment >= since) learned = learned_[thread];
    return std::vector<Learned>(kPageBytes, learned);
  }
  absl::StatusOr<std::shared_ptr<const Segment>> SegmentAt(int32_t thread,
                                                           uint64_t moment) override {
    if (thread != kFirst || imported_ == nullptr) {
      return absl::NotFoundError("nobody has seen anything");
    }
    if (next_ != nullptr && moment >= next_begins_) return next_;
    return imported_;
  }
  absl::Status FindStores(int32_t, uint64_t from, uint64_t, absl::Span<StoredLine> lines,
                          const std::atomic<bool>*) override {
    for (StoredLine& line : lines) {
      line.since = from;
      line.stored[7] = stored_;
    }
    return absl::OkStatus();
  }
  absl::Status ReadBirth(uint64_t, absl::Span<uint8_t>) override {
    return absl::NotFoundError("born with nothing");
  }
  absl::StatusOr<bool> WasUntouchedAtBirth(uint64_t) override { return false; }

  std::map<int32_t, Learned> learned_;
  std::unique_ptr<SegmentReplay> third_;
  std::shared_ptr<const Segment> imported_, next_;
  uint64_t next_begins_ = 0;
  uint64_t stored_ = 0;
};

TEST_F(NewestBytesTest, WhereThreadsTookTurnsTheLastOneHasIt) {
  const std::vector<size_t> slices = FindSlices();
  ASSERT_EQ(slices.size(), 4u);
  WritesLast(slices[0]);
  Imports(slices[1]);
  EXPECT_EQ(Newest(slices[2], /*at_once=*/false, /*running=*/0), 2);
  WritesFirst(slices[2]);
  EXPECT_EQ(Newest(slices[2], /*at_once=*/false, /*running=*/0), 1);
}

TEST_F(NewestBytesTest, OfBytesThatAreNotWantedNoThreadIsAsked) {
  const std::vector<size_t> slices = FindSlices();
  ASSERT_EQ(slices.size(), 4u);
  WritesFirst(slices[0]);
  Imports(slices[1]);
  EXPECT_EQ(Newest(slices[3], /*at_once=*/true, /*running=*/0, /*wanted=*/100), 2);
  EXPECT_EQ(asked_, 2);
  // Both have the same.
  EXPECT_EQ(Newest(slices[3], /*at_once=*/true, /*running=*/0, /*wanted=*/7), 0);
  EXPECT_EQ(asked_, 2);
}

TEST_F(NewestBytesTest, AnImportIsNewerThanAWriteThatWasOver) {
  const std::vector<size_t> slices = FindSlices();
  ASSERT_EQ(slices.size(), 4u);
  WritesFirst(slices[0]);
  Imports(slices[1]);
  EXPECT_EQ(Newest(slices[3], /*at_once=*/true, /*running=*/0), 2);
}

TEST_F(NewestBytesTest, AWriteThatAnImportDoesNotShowCameAfterIt) {
  const std::vector<size_t> slices = FindSlices();
  ASSERT_EQ(slices.size(), 4u);
  WritesLast(slices[0]);
  Imports(slices[1]);
  EXPECT_EQ(Newest(slices[3], /*at_once=*/true, /*running=*/0), 1);
}

TEST_F(NewestBytesTest, WhoRunsIsShownWhatWasCertainlyWrittenSinceItLooked) {
  const std::vector<size_t> slices = FindSlices();
  ASSERT_EQ(slices.size(), 4u);
  Imports(slices[0]);
  WritesFirst(slices[1]);
  EXPECT_EQ(Newest(slices[2], /*at_once=*/true, /*running=*/kFirst), 2);
}

TEST_F(NewestBytesTest, WhoRunsKeepsItsOwnWhereTheOtherMayWriteLater) {
  const std::vector<size_t> slices = FindSlices();
  ASSERT_EQ(slices.size(), 4u);
  Imports(slices[0]);
  WritesLast(slices[1]);
  EXPECT_EQ(Newest(slices[2], /*at_once=*/true, /*running=*/kFirst), 1);
}

TEST_F(NewestBytesTest, WhoRunsIsShownWhatWasWrittenBeforeAStoreThatItHasSeen) {
  const std::vector<size_t> slices = FindSlices();
  ASSERT_EQ(slices.size(), 4u);
  Imports(slices[0]);
  WritesLast(slices[1]);
  const Slice& writer = schedule().slices()[slices[1]];
  const uint64_t write = writer.count + writer.length;
  Sees(slices[2], write);
  EXPECT_EQ(Newest(slices[2], /*at_once=*/true, /*running=*/kFirst), 2);
  Sees(slices[2], write - 1);
  EXPECT_EQ(Newest(slices[2], /*at_once=*/true, /*running=*/kFirst), 1);
  Sees(slices[0], write);  // before that: it cannot be that one's
  EXPECT_EQ(Newest(slices[2], /*at_once=*/true, /*running=*/kFirst), 1);
}

TEST_F(NewestBytesTest, WhatAThirdThreadMayHaveStoredAtThatTimeSaysNothing) {
  const std::vector<size_t> slices = FindSlices();
  ASSERT_EQ(slices.size(), 4u);
  const std::optional<size_t> thirds = FindThirdsBefore(slices[1]);
  ASSERT_TRUE(thirds.has_value());
  Imports(slices[0]);
  WritesLast(slices[1]);
  const Slice& writer = schedule().slices()[slices[1]];
  Sees(slices[2], writer.count + writer.length);
  WritesFirst(*thirds);
  EXPECT_EQ(Newest(slices[2], /*at_once=*/true, /*running=*/kFirst), 2) << "it was over";
  WritesLast(*thirds);
  EXPECT_EQ(Newest(slices[2], /*at_once=*/true, /*running=*/kFirst), 1);
}

TEST_F(NewestBytesTest, WhatTheTraceSaysThatSomebodyElseShowedSaysNothing) {
  const std::vector<size_t> slices = FindSlices();
  ASSERT_EQ(slices.size(), 4u);
  Imports(slices[0]);
  WritesLast(slices[1]);
  const Slice& writer = schedule().slices()[slices[1]];
  const uint64_t write = writer.count + writer.length;
  Sees(slices[2], write, kSecond);
  EXPECT_EQ(Newest(slices[2], /*at_once=*/true, /*running=*/kFirst), 2);
  Sees(slices[2], write, kFirst);
  EXPECT_EQ(Newest(slices[2], /*at_once=*/true, /*running=*/kFirst), 1);
}

// The second thread's own write is as old as what the first one has seen says.
TEST_F(NewestBytesTest, WhoRunsIsShownWhatWasWrittenAfterItsOwnWriteWasSeen) {
  const std::vector<size_t> slices = FindSlices();
  ASSERT_EQ(slices.size(), 4u);
  WritesLast(slices[1]);
  WritesFirst(slices[2]);
  EXPECT_EQ(Newest(slices[3], /*at_once=*/true, /*running=*/kSecond), 2);
  const Slice& writer = schedule().slices()[slices[1]];
  Sees(slices[2], writer.count + writer.length, kSecond);
  EXPECT_EQ(Newest(slices[3], /*at_once=*/true, /*running=*/kSecond), 1);
}

TEST_F(NewestBytesTest, WhatWasSeenInASegmentThatEndsThereCounts) {
  const std::vector<size_t> slices = FindAdjoining();
  ASSERT_EQ(slices.size(), 3u);
  WritesLast(slices[0]);
  WritesFirst(slices[1]);
  const Slice& writer = schedule().slices()[slices[0]];
  Sees(slices[1], writer.count + writer.length, kSecond);
  EndsSegment(slices[1]);
  EXPECT_EQ(Newest(slices[2], /*at_once=*/true, /*running=*/kSecond), 1);
}

TEST_F(NewestBytesTest, WhatAnEventHasWrittenWasOverThen) {
  const std::vector<size_t> slices = FindSlices();
  ASSERT_EQ(slices.size(), 4u);
  WritesFirst(slices[0]);
  WritesAsEvent(slices[1]);
  EXPECT_EQ(Newest(slices[2], /*at_once=*/true, /*running=*/kFirst), 2);
}

TEST_F(NewestBytesTest, WhoRunsKeepsItsOwnWriteInARace) {
  const std::vector<size_t> slices = FindSlices();
  ASSERT_EQ(slices.size(), 4u);
  WritesLast(slices[0]);
  WritesFirst(slices[1]);
  EXPECT_EQ(Newest(slices[2], /*at_once=*/true, /*running=*/kFirst), 1);
}

}  // namespace
}  // namespace hindsight

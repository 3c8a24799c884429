#include "keyframes/replay/record_applier.h"

#include <memory>
#include <optional>
#include <variant>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "keyframes/toys/toy_recording.h"

namespace hindsight {
namespace {

const ToyRecording& Toy() {
  static const auto* const kToy = new ToyRecording();
  return *kToy;
}

// The view holds what the records bring, and nothing else.
class NoPager final : public Pager {
 public:
  bool OnMissing(uint64_t, Access) override { return false; }
  bool OnFirstWrite(uint64_t) override { return true; }
};

// At the first count of a segment, with none of its records applied.
class RecordApplierTest : public testing::Test {
 protected:
  void SetUp() override {
    segment_ = *Toy().trace()->LoadSegment(ToyRecording::kThread, 1);
    RegisterFile registers;
    ASSERT_TRUE(FromWords(segment_->registers(), &registers));
    cpu_->SetRegisters(registers);
    cpu_->set_count(first());
    records_.Begin(segment_.get());
  }

  uint64_t first() const { return segment_->info().first_count; }
  const Record* FirstTransition() const {
    for (const Record& record : segment_->records()) {
      if (std::holds_alternative<SideEffect>(record.body)) return &record;
    }
    return nullptr;
  }
  // Instructions are not executed: the registers are set to the true ones.
  void StandAt(uint64_t count) {
    cpu_->SetRegisters(Toy().at(count).registers);
    cpu_->set_count(count);
  }

  NoPager pager_;
  std::unique_ptr<Cpu> cpu_ = *Cpu::Create(&pager_);
  Checkpoints checkpoints_{cpu_.get()};
  WatchedMemory watched_;
  RecordApplier records_{Toy().trace(), cpu_.get(), &checkpoints_, &watched_};
  std::shared_ptr<const Segment> segment_;
};

// One page import at the first state, and one at the state after, which begins a turn.
class TurnSegment final : public Segment {
 public:
  static constexpr uint64_t kPage = 0x600000, kFirst = 1000;

  explicit TurnSegment(const PageImport& turn) : TurnSegment(std::vector<PageImport>{turn}) {}
  explicit TurnSegment(const std::vector<PageImport>& turn) {
    info_.first_count = kFirst;
    before_.assign(2 * kLineBytes, 1);
    PageImport page = {.address = kPage, .first = true, .line_mask = 0b11, .lines = before_};
    records_.push_back({kFirst, page});
    for (const PageImport& import : turn) records_.push_back({kFirst + 1, import});
  }

  const SegmentInfo& info() const override { return info_; }
  const RegisterWords& registers() const override { return registers_; }
  const std::vector<Record>& records() const override { return records_; }
  // The next page, once the first record has been applied.
  std::optional<PageImport> ImportOfUnlisted(size_t applied, uint64_t page) const override {
    if (applied == 0 || page != kPage + kPageBytes) return std::nullopt;
    return PageImport{.address = page, .first = true};
  }
  uint64_t end_count() const override { return kFirst + 1; }
  const RegisterWords* end_registers() const override { return nullptr; }
  const absl::Status& damage() const override { return damage_; }
  uint64_t memory_bytes() const override { return 0; }

 private:
  SegmentInfo info_;
  const RegisterWords registers_;
  std::vector<uint8_t> before_;
  std::vector<Record> records_;
  const absl::Status damage_;
};

class TurnImportsTest : public RecordApplierTest {
 protected:
  // Settles the first state of `segment`, and with `imports` the one after.
  void SettleTurn(const TurnSegment& segment, TurnImports imports) {
    records_.Begin(&segment);
    cpu_->set_count(TurnSegment::kFirst);
    ASSERT_TRUE(records_.Settle(TurnImports::kApply).ok());
    cpu_->set_count(TurnSegment::kFirst + 1);
    ASSERT_TRUE(records_.Settle(imports).ok());
  }
  int Byte(uint64_t address) {
    uint8_t byte = 0;
    return cpu_->ReadHeld(address, absl::MakeSpan(&byte, 1)) ? byte : -1;
  }
};

TEST_F(TurnImportsTest, HeldBackAreTheLinesThatAnotherThreadHadBefore) {
  const std::vector<uint8_t> lines(2 * kLineBytes, 2);
  const TurnSegment segment(
      {.address = TurnSegment::kPage, .line_mask = 0b11, .lines = lines, .known_mask = 0b01});
  SettleTurn(segment, TurnImports::kHoldBack);
  EXPECT_EQ(Byte(TurnSegment::kPage), 1);
  EXPECT_EQ(Byte(TurnSegment::kPage + kLineBytes), 2);
  EXPECT_EQ(records_.cursor(), 2u);
}

TEST_F(TurnImportsTest, AppliedAreAllLines) {
  const std::vector<uint8_t> lines(2 * kLineBytes, 2);
  const TurnSegment segment(
      {.address = TurnSegment::kPage, .line_mask = 0b11, .lines = lines, .known_mask = 0b01});
  SettleTurn(segment, TurnImports::kApply);
  EXPECT_EQ(Byte(TurnSegment::kPage), 2);
  EXPECT_EQ(Byte(TurnSegment::kPage + kLineBytes), 2);
}

TEST_F(TurnImportsTest, APageThatOthersHadAndTheViewHasNotStaysOut) {
  constexpr uint64_t kOther = TurnSegment::kPage + kPageBytes;
  const std::vector<uint8_t> line(kLineBytes, 2);
  PageImport known = {.address = kOther, .first = true, .line_mask = 1, .lines = line};
  known.known_mask = 1;
  SettleTurn(TurnSegment(known), TurnImports::kHoldBack);
  EXPECT_EQ(Byte(kOther), -1);
  known.known_mask = 0;
  SettleTurn(TurnSegment(known), TurnImports::kHoldBack);
  EXPECT_EQ(Byte(kOther), 2) << "no other thread had it";
}

TEST_F(TurnImportsTest, WhereThreadsRanAtOnceWhatEntersStaysOut) {
  static const ToyRecording* const at_once = new ToyRecording({.threads_at_once = true});
  RecordApplier records(at_once->trace(), cpu_.get(), &checkpoints_, &watched_);
  constexpr uint64_t kOther = TurnSegment::kPage + kPageBytes;
  const std::vector<uint8_t> line(kLineBytes, 2);
  const TurnSegment segment({{.address = kOther, .first = true, .line_mask = 1, .lines = line},
                             {.address = kOther, .line_mask = 1, .lines = line}});
  records.Begin(&segment);
  cpu_->set_count(TurnSegment::kFirst);
  ASSERT_TRUE(records.Settle(TurnImports::kApply).ok());
  cpu_->set_count(TurnSegment::kFirst + 1);
  ASSERT_TRUE(records.Settle(TurnImports::kHoldBack).ok());
  EXPECT_EQ(Byte(kOther), -1);
}

TEST_F(TurnImportsTest, WhatTheSegmentHasAllTheSameIsBroughtIn) {
  constexpr uint64_t kOther = TurnSegment::kPage + kPageBytes;
  const TurnSegment segment(std::vector<PageImport>{});
  records_.Begin(&segment);
  cpu_->set_count(TurnSegment::kFirst);
  EXPECT_FALSE(records_.ImportUnlisted(kOther)) << "none of the records has been applied";
  ASSERT_TRUE(records_.Settle(TurnImports::kApply).ok());
  EXPECT_EQ(Byte(kOther), -1);
  EXPECT_TRUE(records_.ImportUnlisted(kOther));
  EXPECT_EQ(Byte(kOther), 0);
  EXPECT_FALSE(records_.ImportUnlisted(kOther + kPageBytes));
}

TEST_F(RecordApplierTest, SettlingBringsTheImportsOfTheState) {
  ASSERT_TRUE(records_.Settle(TurnImports::kApply).ok());
  EXPECT_FALSE(checkpoints_.held_pages().empty());
  EXPECT_GT(records_.cursor(), 0u);
  EXPECT_GT(records_.NextCount(), first());
}

TEST_F(RecordApplierTest, WatchedPagesThatComeInAreNoted) {
  watched_.SetWatchpoints({{.address = ToyRecording::kCode, .length = 8}});
  ASSERT_TRUE(records_.Settle(TurnImports::kApply).ok());
  ASSERT_FALSE(watched_.imports().empty());
  EXPECT_EQ(watched_.imports()[0].page, ToyRecording::kCode);
  EXPECT_EQ(watched_.imports()[0].count, first());
}

TEST_F(RecordApplierTest, ATransitionLeadsToTheNextState) {
  const Record* const transition = FirstTransition();
  ASSERT_NE(transition, nullptr);
  while (records_.NextCount() < transition->count) {
    StandAt(records_.NextCount());
    ASSERT_TRUE(records_.Settle(TurnImports::kApply).ok());
  }
  StandAt(transition->count);
  ASSERT_TRUE(records_.Settle(TurnImports::kApply).ok());
  ASSERT_TRUE(records_.TransitionIsNext());
  ASSERT_TRUE(records_.ApplyTransition(TurnImports::kApply).ok());
  EXPECT_EQ(cpu_->count(), transition->count + 1);
  EXPECT_EQ(cpu_->registers(), Toy().at(transition->count + 1).registers);
}

TEST_F(RecordApplierTest, OtherRegistersThanRecordedAreADivergence) {
  const Record* const transition = FirstTransition();
  while (records_.NextCount() < transition->count) {
    StandAt(records_.NextCount());
    ASSERT_TRUE(records_.Settle(TurnImports::kApply).ok());
  }
  StandAt(transition->count);
  RegisterFile wrong = Toy().at(transition->count).registers;
  wrong.rip += 1;
  cpu_->SetRegisters(wrong);
  absl::Status status = records_.Settle(TurnImports::kApply);
  status.Update(records_.ApplyTransition(TurnImports::kApply));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST_F(RecordApplierTest, ARecordThatWasPassedIsADivergence) {
  StandAt(first() + 1);
  EXPECT_TRUE(absl::IsDataLoss(records_.Settle(TurnImports::kApply)));
}

}  // namespace
}  // namespace hindsight

#include "keyframes/replay/record_applier.h"

#include <memory>
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

// Stands at the first count of a segment, with none of its records applied.
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

#include "recorder/emulate/sync/sync_point.h"

#include <gtest/gtest.h>

#include <optional>

#include "emulator/cpu/register_patch.h"
#include "recorder/emulate/pager/process_pager_fixture.h"

namespace hindsight {
namespace {

// Some of the first instructions of the dynamic linker: stores to the stack and its data, a loop.
class SyncPointTest : public ProcessPagerTest {
 protected:
  static constexpr uint64_t kRdtscBytes = 2;

  void SetUp() override {
    ProcessPagerTest::SetUp();
    RegisterFile registers;
    ASSERT_TRUE(tracee_->GetRegisters(true, &registers));
    cpu_->SetRegisters(registers);
    // It soon reads the time-stamp counter, which is not for the Cpu.
    while (cpu_->Step().stop == Stop::kLimit) {
    }
    registers = cpu_->registers();
    registers.rip += kRdtscBytes;
    cpu_->SetRegisters(registers);
    cpu_->set_count(0);
    ASSERT_TRUE(pager_->WriteBack());
    sync_.emplace(pager_.get(), log_.get(), registers);
    sync_->Start(cpu_.get(), MemoryModel::kLoad);
  }

  void RunTo(uint64_t count) {
    while (cpu_->count() < count) ASSERT_EQ(cpu_->Step().stop, Stop::kLimit);
  }
  uint8_t InView(uint64_t address) {
    uint8_t byte = 0;
    EXPECT_TRUE(cpu_->ReadHeld(address, absl::MakeSpan(&byte, 1)));
    return byte;
  }
  // A byte that the view has and the process has not; 0: there is none.
  uint64_t ChangedAddress() {
    for (const uint64_t page : pager_->DirtyPages()) {
      for (uint64_t address = page; address < page + kPageBytes; ++address) {
        if (InView(address) != InProcess(address)) return address;
      }
    }
    return 0;
  }
  template <typename T>
  std::vector<T> Records() const {
    std::vector<T> found;
    for (const Record& record : writer_.records) {
      if (const T* body = std::get_if<T>(&record.body)) found.push_back(*body);
    }
    return found;
  }

  std::optional<SyncPoint> sync_;
};

TEST_F(SyncPointTest, GoingBackUndoesRegistersCountAndMemory) {
  const RegisterFile before = cpu_->registers();
  RunTo(30);
  ASSERT_TRUE(pager_->has_changes());
  ASSERT_TRUE(sync_->GoBack());
  EXPECT_EQ(cpu_->count(), 0u);
  EXPECT_EQ(Hash(cpu_->registers()), Hash(before));
  EXPECT_FALSE(pager_->has_changes());
}

TEST_F(SyncPointTest, StatesAreMetAgain) {
  RunTo(20);
  const uint64_t twentieth = Hash(cpu_->registers());
  RunTo(40);
  const absl::StatusOr<bool> met = sync_->RunBackTo(20);
  ASSERT_TRUE(met.ok());
  EXPECT_TRUE(*met);
  EXPECT_EQ(cpu_->count(), 20u);
  EXPECT_EQ(Hash(cpu_->registers()), twentieth);
}

TEST_F(SyncPointTest, AdvancingBringsMemoryToTheProcess) {
  RunTo(10);
  const uint64_t changed = ChangedAddress();
  ASSERT_NE(changed, 0u);
  ASSERT_TRUE(sync_->Advance(/*others_store=*/true));
  EXPECT_EQ(InProcess(changed), InView(changed));
  EXPECT_EQ(sync_->count(), 10u);
  EXPECT_EQ(Hash(sync_->registers()), Hash(cpu_->registers()));
}

TEST_F(SyncPointTest, OrderableInstructionsAreNumberedOnce) {
  RunTo(30);
  const uint64_t orderable = sync_->OrderableSince(0).size();
  ASSERT_GT(orderable, 0u);
  EXPECT_EQ(sequence_.last, 0u);
  sync_->Reach(30);
  EXPECT_EQ(sequence_.last, orderable);
  ASSERT_EQ(*sync_->RunBackTo(25), true);
  EXPECT_TRUE(sync_->OrderableSince(0).empty());
  sync_->Reach(25);
  EXPECT_EQ(sequence_.last, orderable);
}

TEST_F(SyncPointTest, StatesThatWereTakenBackAreNotNumbered) {
  RunTo(30);
  ASSERT_TRUE(sync_->GoBack());
  EXPECT_TRUE(sync_->OrderableSince(0).empty());
  sync_->Reach(0);
  EXPECT_EQ(sequence_.last, 0u);
}

TEST_F(SyncPointTest, TransitionIsLoggedWithWhatItChangesAndIsTheSyncPoint) {
  RunTo(5);
  ASSERT_TRUE(sync_->Advance(true));
  const RegisterFile before = cpu_->registers();
  RegisterFile after = before;
  after.rip += 2;
  after.gpr[kRax] = 77;
  sync_->Transition(after, SideEffect{.kind = SideEffectKind::kSyscall, .sequence = 9});
  const auto logged = Records<SideEffect>();
  ASSERT_EQ(logged.size(), 1u);
  EXPECT_EQ(logged[0].sequence, 9u);
  EXPECT_EQ(logged[0].register_hash, Hash(before));
  EXPECT_EQ(writer_.records.back().count, 5u);
  EXPECT_EQ(cpu_->count(), 6u);
  EXPECT_EQ(cpu_->registers().gpr[kRax], 77u);
  EXPECT_EQ(sync_->count(), 6u);
  EXPECT_EQ(sync_->registers().gpr[kRax], 77u);
}

TEST_F(SyncPointTest, AfterTheProcessIsGoneTheLastLoggedStateRemains) {
  RunTo(10);
  sync_->LogHash();
  sync_->LogHash();
  EXPECT_EQ(Records<RegisterHash>().size(), 1u);
  const uint64_t tenth = Hash(cpu_->registers());
  RunTo(20);
  sync_->GoToLastLogged();
  EXPECT_EQ(cpu_->count(), 10u);
  EXPECT_EQ(Hash(cpu_->registers()), tenth);
}

TEST_F(SyncPointTest, WithoutAHashThatIsTheSyncPoint) {
  RunTo(10);
  ASSERT_TRUE(sync_->Advance(true));
  RunTo(20);
  sync_->GoToLastLogged();
  EXPECT_EQ(cpu_->count(), 10u);
}

TEST_F(SyncPointTest, AfterAGapItStartsAgain) {
  RunTo(10);
  ASSERT_TRUE(sync_->Advance(true));
  cpu_->set_count(50);
  sync_->StartAgain();
  EXPECT_EQ(sync_->count(), 50u);
  ASSERT_TRUE(sync_->GoBack());
  EXPECT_EQ(cpu_->count(), 50u);
}

}  // namespace
}  // namespace hindsight

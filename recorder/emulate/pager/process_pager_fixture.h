// For tests of ProcessPager.

#ifndef HINDSIGHT_RECORDER_EMULATE_PAGER_PROCESS_PAGER_FIXTURE_H_
#define HINDSIGHT_RECORDER_EMULATE_PAGER_PROCESS_PAGER_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/emulate/pager/process_pager.h"
#include "recorder/log/fake_trace_writer.h"
#include "recorder/ptrace/true_process.h"

namespace hindsight {

// A stopped process, and a Cpu whose view is paged by hand, as generated code would.
class ProcessPagerTest : public testing::Test {
 protected:
  void SetUp() override {
    tracee_ = LaunchTrue();
    ASSERT_NE(tracee_, nullptr);
    modules_ = std::make_unique<ModuleTable>(&writer_, "", 1 << 28);
    log_ = std::make_unique<ThreadLog>(&writer_, tracee_->process(), &sequence_);
    pager_ = std::make_unique<ProcessPager>(tracee_.get(), modules_.get(), log_.get(), &witnesses_);
    auto cpu = Cpu::Create(pager_.get());
    ASSERT_TRUE(cpu.ok()) << cpu.status();
    cpu_ = *std::move(cpu);
    pager_->set_cpu(cpu_.get());
    MemoryMap map = MemoryMap::OfProcess(tracee_->ProcPath("maps"));
    ASSERT_TRUE(modules_->Register(absl::MakeSpan(map.mutable_regions())).ok());
    SetMap(map);
    RegisterFile registers;
    ASSERT_TRUE(tracee_->GetRegisters(true, &registers));
    code_ = registers.rip & ~(kPageBytes - 1);
    stack_ = registers.gpr[kRsp] & ~(kPageBytes - 1);
  }

  void SetMap(MemoryMap map) {
    pager_->SetSpace(
        std::make_shared<AddressSpace>(std::move(map), [](const MapRegion&) { return false; }));
  }

  // What generated code's store does.
  void Store(uint64_t address, uint8_t value) {
    const uint64_t page = address & ~(kPageBytes - 1);
    if (cpu_->rights(page) == PageRights::kNone) {
      ASSERT_TRUE(pager_->OnMissing(page, Access::kWrite));
    }
    if (cpu_->rights(page) == PageRights::kRead) {
      ASSERT_TRUE(pager_->OnFirstWrite(page));
      cpu_->SetRights(page, PageRights::kReadWrite);
    }
    cpu_->HostPage(page)[address % kPageBytes] = value;
  }
  uint8_t InProcess(uint64_t address) {
    uint8_t byte = 0;
    EXPECT_TRUE(tracee_->memory().Read(address, absl::MakeSpan(&byte, 1)));
    return byte;
  }
  void PokeProcess(uint64_t address, uint8_t byte) {
    EXPECT_TRUE(tracee_->memory().Write(address, absl::MakeConstSpan(&byte, 1)));
  }

  // Longer than any page is looked at without being used.
  void Idle() {
    for (int i = 0; i < 70; ++i) pager_->Resync({});
    ASSERT_EQ(cpu_->rights(stack_), PageRights::kNone);
  }
  // Pages logged as left, in order.
  std::vector<uint64_t> LeftPages() const {
    std::vector<uint64_t> pages;
    for (const Record& record : writer_.records) {
      if (const auto* left = std::get_if<PageLeft>(&record.body)) pages.push_back(left->address);
    }
    return pages;
  }

  FakeTraceWriter writer_;
  Sequence sequence_;
  PageWitnesses witnesses_;
  std::unique_ptr<Tracee> tracee_;
  std::unique_ptr<ModuleTable> modules_;
  std::unique_ptr<ThreadLog> log_;
  std::unique_ptr<ProcessPager> pager_;
  std::unique_ptr<Cpu> cpu_;
  uint64_t code_ = 0, stack_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_PAGER_PROCESS_PAGER_FIXTURE_H_

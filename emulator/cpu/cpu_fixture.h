// A process made of three pages, for tests of the Cpu. Pages are handed out when asked for; others
// do not exist.

#ifndef HINDSIGHT_EMULATOR_CPU_CPU_FIXTURE_H_
#define HINDSIGHT_EMULATOR_CPU_CPU_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "emulator/cpu/cpu.h"

namespace hindsight {

inline constexpr uint64_t kCode = 0x555555554000;
inline constexpr uint64_t kData = 0x7ffff7000000;
inline constexpr uint64_t kStack = 0x7ffffffde000;

class CpuTest : public testing::Test, public Pager {
 protected:
  void SetUp() override {
    auto cpu = Cpu::Create(this);
    ASSERT_TRUE(cpu.ok()) << cpu.status();
    cpu_ = *std::move(cpu);
    pages_[kCode].resize(kPageBytes);
    pages_[kData].resize(kPageBytes);
    pages_[kStack].resize(kPageBytes);
    registers_.rip = kCode;
    registers_.rflags = 0x202;
    registers_.gpr[kRsp] = kStack + 0x800;
    registers_.gpr[kRdi] = kData;
    registers_.mxcsr = 0x1f80;
    registers_.fcw = 0x37f;
  }

  void Code(std::initializer_list<int> bytes, uint64_t offset = 0, uint64_t page = kCode) {
    for (int byte : bytes) pages_[page][offset++] = static_cast<uint8_t>(byte);
  }
  void Start() { cpu_->SetRegisters(registers_); }
  RunResult RunTo(uint64_t limit) { return cpu_->Run({.limit = limit}); }
  // Back to the very start, whatever happened to pages.
  void Restart() {
    for (const auto& [page, bytes] : pages_) {
      if (cpu_->rights(page) == PageRights::kNone) continue;
      std::memcpy(cpu_->HostPage(page), bytes.data(), kPageBytes);
      cpu_->ContentsChanged(page);
    }
    Start();
    cpu_->set_count(0);
  }
  // Runs until something else than kFault stops it, doing after kFault what cpu.h asks. False if an
  // instruction faults.
  bool RunThroughFaults() {
    for (;;) {
      RunResult result = RunTo(~uint64_t{0});
      if (result.stop != Stop::kFault) return true;
      while (result.stop == Stop::kFault) {
        ++faults_;
        Restart();
        result = RunTo(result.block_count);
      }
      for (int i = 0; i < 100; ++i) {
        const Stop stop = cpu_->Step().stop;
        if (stop == Stop::kFault) return false;
        if (stop != Stop::kLimit) return true;
      }
    }
  }
  uint64_t Reg(Gpr gpr) { return cpu_->registers().gpr[gpr]; }
  uint64_t Data(uint64_t offset) {
    uint64_t value = 0;
    cpu_->ReadHeld(kData + offset, absl::MakeSpan(reinterpret_cast<uint8_t*>(&value), 8));
    return value;
  }

  bool OnMissing(uint64_t page, Access access) override {
    ++missing_;
    auto found = pages_.find(page);
    if (found == pages_.end()) return false;
    std::memcpy(cpu_->HostPage(page), found->second.data(), kPageBytes);
    cpu_->ContentsChanged(page);
    cpu_->SetRights(page, PageRights::kRead);
    return true;
  }
  bool OnFirstWrite(uint64_t page) override {
    ++first_writes_;
    return !read_only_.contains(page);
  }

  std::unique_ptr<Cpu> cpu_;
  RegisterFile registers_;
  absl::flat_hash_map<uint64_t, std::vector<uint8_t>> pages_;
  absl::flat_hash_set<uint64_t> read_only_;
  int faults_ = 0;
  int missing_ = 0;
  int first_writes_ = 0;
};

// L: inc qword [rdi]; dec rcx; jnz L; nop; syscall
inline void CountingLoop(std::vector<uint8_t>& page) {
  const uint8_t code[] = {0x48, 0xff, 0x07, 0x48, 0xff, 0xc9, 0x75, 0xf8, 0x90, 0x0f, 0x05};
  std::memcpy(page.data(), code, sizeof(code));
}

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPU_CPU_FIXTURE_H_

#include "emulator/calls/pure_call.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "emulator/code/instruction.h"
#include "emulator/cpu/cpu.h"
#include "isa/cpuid.h"
#include "isa/registers.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

// Linux maps nothing below 64 KiB (vm.mmap_min_addr): memory for the call alone.
constexpr uint64_t kOwnBegin = 0x2000, kOwnEnd = 0x10000;
constexpr uint64_t kReturnTo = kOwnBegin;  // never executed
constexpr uint64_t kStackTop = 0xc000;
constexpr uint64_t kThreadLocal = 0xe000;
constexpr uint64_t kMostInstructions = 100'000;

class Call final : private Pager {
 public:
  explicit Call(GuestPages pages) : pages_(pages) {}

  absl::StatusOr<uint64_t> Run(uint64_t address) {
    ASSIGN_OR_RETURN(cpu_, Cpu::Create(this));
    RegisterFile registers;
    registers.rip = address;
    registers.rflags = 0x202;  // interrupts are enabled
    registers.mxcsr = 0x1f80;
    registers.fcw = 0x37f;
    registers.fs_base = kThreadLocal;
    registers.gpr[kRsp] = kStackTop - sizeof(kReturnTo);
    Load(PageOf(registers.gpr[kRsp]));
    std::memcpy(cpu_->HostPage(PageOf(registers.gpr[kRsp])) + kPageBytes - sizeof(kReturnTo),
                &kReturnTo, sizeof(kReturnTo));
    cpu_->SetRegisters(registers);
    for (uint64_t i = 0; i < kMostInstructions; ++i) {
      if (cpu_->pc() == kReturnTo) return cpu_->registers().gpr[kRax];
      const Stop stop = cpu_->Step().stop;
      if (stop == Stop::kSpecial && Compute()) continue;
      if (stop == Stop::kSpecial || stop == Stop::kFault) break;
    }
    return absl::FailedPreconditionError(absl::StrCat("the function at 0x", absl::Hex(address),
                                                      " does not only compute (at 0x",
                                                      absl::Hex(cpu_->pc()), ")"));
  }

 private:
  // The instruction at pc, which the emulator leaves to its caller.
  bool Compute() {
    const std::optional<Instruction> instruction = cpu_->next();
    if (!instruction.has_value() || instruction->policy != Policy::kCpuid) return false;
    RegisterFile registers = cpu_->registers();
    uint64_t* const gpr = registers.gpr;
    const CpuidResult answer = AnswerCpuid(CpuModel::kHost, static_cast<uint32_t>(gpr[kRax]),
                                           static_cast<uint32_t>(gpr[kRcx]));
    gpr[kRax] = answer.eax;
    gpr[kRbx] = answer.ebx;
    gpr[kRcx] = answer.ecx;
    gpr[kRdx] = answer.edx;
    registers.rip += instruction->length;
    cpu_->SetRegisters(registers);
    return true;
  }

  bool Load(uint64_t page) {
    uint8_t* const bytes = cpu_->HostPage(page);
    if (page >= kOwnBegin && page < kOwnEnd) {
      std::fill(bytes, bytes + kPageBytes, 0);
    } else if (!pages_(page, {bytes, kPageBytes})) {
      return false;
    }
    cpu_->ContentsChanged(page);
    cpu_->SetRights(page, PageRights::kReadWrite);
    return true;
  }

  bool OnMissing(uint64_t page, Access) override { return Load(page); }
  bool OnFirstWrite(uint64_t) override { return true; }

  const GuestPages pages_;
  std::unique_ptr<Cpu> cpu_;
};

}  // namespace

absl::StatusOr<uint64_t> CallPure(GuestPages pages, uint64_t address) {
  return Call(pages).Run(address);
}

}  // namespace hindsight

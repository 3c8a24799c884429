#include "emulator/checks/lockstep.h"

#include <Zydis/Zydis.h>

#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "isa/cpuid.h"

namespace hindsight {
namespace {

constexpr uint64_t kCompareMemoryEvery = 4096;
constexpr uint8_t kTrapFlagByte1 = 1;  // TF, bit 8, in the second byte of rflags

absl::string_view AsText(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Lockstep>> Lockstep::Create(SteppedProcess* process,
                                                           CpuModel model) {
  auto lockstep = std::unique_ptr<Lockstep>(new Lockstep(process, model));
  ASSIGN_OR_RETURN(lockstep->cpu_, Cpu::Create(lockstep.get()));
  lockstep->cpu_->SetRegisters(process->registers());
  return lockstep;
}

bool Lockstep::OnMissing(uint64_t page, Access access) {
  uint8_t contents[kPageBytes];
  uint8_t* held = cpu_->HostPage(page);
  if (held == nullptr || !process_->Read(page, absl::MakeSpan(contents))) {
    page_refused_ = page;
    return false;
  }
  if (std::memcmp(held, contents, kPageBytes) != 0) {
    // The page's rights may be none: make it writable for us first.
    cpu_->SetRights(page, PageRights::kReadWrite);
    std::memcpy(held, contents, kPageBytes);
    cpu_->ContentsChanged(page);
  }
  held_.push_back(page);
  cpu_->SetRights(page, PageRights::kRead);
  return true;
}

bool Lockstep::OnFirstWrite(uint64_t page) {
  dirty_.push_back(page);
  return true;
}

const LockstepReport& Lockstep::Run(uint64_t limit) {
  while (report_.instructions < limit) {
    if (!AdvanceOne()) {
      report_.exited = true;
      report_.wait_status = process_->wait_status();
      return report_;
    }
    ++report_.instructions;
    if (report_.instructions % kCompareMemoryEvery == 0) CompareMemory();
  }
  CompareMemory();
  return report_;
}

bool Lockstep::AdvanceOne() {
  if (process_->pending_signal() != 0) return TakeFromProcess(true);
  const uint64_t pc = cpu_->pc();
  const std::optional<Instruction> instruction = cpu_->next();
  if (!instruction.has_value()) return TakeFromProcess(true);
  if (instruction->policy == Policy::kCpuid) {
    AnswerCpuidForBoth();
    return true;
  }
  // The image of fxsave shows the host's own MXCSR_MASK; assist_test has it.
  const bool shows_host = instruction->mnemonic == ZYDIS_MNEMONIC_FXSAVE ||
                          instruction->mnemonic == ZYDIS_MNEMONIC_FXSAVE64;
  const bool computed =
      instruction->policy == Policy::kEmulate || instruction->policy == Policy::kAssist;
  if (!computed || shows_host) {
    ++report_.taken_from_process[MnemonicName(instruction->mnemonic)];
    return TakeFromProcess(instruction->policy == Policy::kSyscall || instruction->writes_memory ||
                           instruction->control_flow);
  }
  uint8_t bytes[15];
  const auto code = absl::MakeSpan(bytes).first(instruction->length);
  if (!cpu_->ReadHeld(pc, code)) return TakeFromProcess(true);
  page_refused_ = 0;
  if (cpu_->Step().stop != Stop::kLimit) {
    if (page_refused_ != 0) {
      ++report_.refused;
      return TakeFromProcess(true);
    }
    // The process must fault as well.
    const bool lives = TakeFromProcess(true);
    if (lives && process_->pending_signal() == 0) {
      Note(MnemonicName(instruction->mnemonic),
           absl::StrCat(absl::Hex(pc), " ", absl::BytesToHexString(AsText(code)), ": faults"));
    }
    return lives;
  }
  return Compare(*instruction, code, pc);
}

bool Lockstep::StepProcess(uint64_t pc, bool rep) {
  do {
    if (!process_->Step()) return false;
  } while (rep && process_->pending_signal() == 0 && process_->registers().rip == pc);
  return true;
}

bool Lockstep::Compare(const Instruction& instruction, absl::Span<const uint8_t> bytes,
                       uint64_t pc) {
  if (!StepProcess(pc, instruction.rep)) return false;
  const RegisterFile native = process_->registers();
  if (instruction.pushes_flags) {
    // The process's copy shows the flag it was stepped with.
    uint8_t flags = 0;
    const uint64_t at = native.gpr[kRsp] + 1;
    if (process_->Read(at, absl::MakeSpan(&flags, 1))) {
      process_->WriteByte(at, flags & ~kTrapFlagByte1);
    }
  }
  ++report_.compared;
  report_.mnemonics.insert(instruction.mnemonic);
  const RegisterFile& emulated = cpu_->registers();
  const Agreement& agreement = AgreementOf(bytes);
  if (!Agree(agreement, native, emulated)) {
    Note(MnemonicName(instruction.mnemonic),
         absl::StrCat(absl::Hex(pc), " ", absl::BytesToHexString(AsText(bytes)), ": ",
                      DescribeDifference(agreement, native, emulated)));
  }
  if (!(native == emulated)) cpu_->SetRegisters(native);
  return true;
}

bool Lockstep::TakeFromProcess(bool memory_changed) {
  if (memory_changed) CompareMemory();
  if (!process_->Step()) return false;
  if (memory_changed) ForgetMemory();
  cpu_->SetRegisters(process_->registers());
  return true;
}

void Lockstep::AnswerCpuidForBoth() {
  RegisterFile registers = cpu_->registers();
  const CpuidResult answer = AnswerCpuid(cpu_model_, static_cast<uint32_t>(registers.gpr[kRax]),
                                         static_cast<uint32_t>(registers.gpr[kRcx]));
  registers.gpr[kRax] = answer.eax;
  registers.gpr[kRbx] = answer.ebx;
  registers.gpr[kRcx] = answer.ecx;
  registers.gpr[kRdx] = answer.edx;
  registers.rip += 2;
  process_->SetRegisters(registers);
  cpu_->SetRegisters(registers);
}

// Between instructions both sides have written the same.
void Lockstep::CompareMemory() {
  for (uint64_t page : dirty_) {
    uint8_t contents[kPageBytes];
    if (!process_->Read(page, absl::MakeSpan(contents))) continue;
    const uint8_t* held = cpu_->HostPage(page);
    for (uint64_t i = 0; i < kPageBytes; ++i) {
      if (held[i] == contents[i]) continue;
      Note("memory", absl::StrCat(absl::Hex(page + i), " before ", absl::Hex(cpu_->pc()), ": ",
                                  held[i], " (native ", contents[i], ")"));
      break;
    }
  }
  cpu_->ProtectWrites(dirty_);
  dirty_.clear();
}

void Lockstep::ForgetMemory() {
  cpu_->DropRights(held_);
  held_.clear();
  dirty_.clear();
}

void Lockstep::Note(const std::string& mnemonic, std::string what) {
  LockstepReport::Finding& finding = report_.differences[mnemonic];
  if (finding.times++ == 0) finding.first = std::move(what);
}

const Agreement& Lockstep::AgreementOf(absl::Span<const uint8_t> bytes) {
  std::unique_ptr<Agreement>& slot = agreements_[AsText(bytes)];
  if (slot == nullptr) slot = std::make_unique<Agreement>(AgreementFor(bytes));
  return *slot;
}

}  // namespace hindsight

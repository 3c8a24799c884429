#include "emulator/checks/prefix_bench.h"

#include <Zydis/Zydis.h>
#include <signal.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "emulator/code/instruction.h"
#include "emulator/view/view.h"

namespace hindsight {
namespace {

// Bytes of code, a syscall to end the block, and room: no instruction lies on two pages.
constexpr uint64_t kStrideBytes = 64;
// Where registers point to. Each is far enough from the others that a wrong one shows.
constexpr uint64_t kPlaces[] = {
    BareProcess::kMemory + 1 * kPageBytes + 0x400, BareProcess::kMemory + 2 * kPageBytes + 0x800,
    BareProcess::kMemory + 3 * kPageBytes + 0x200, BareProcess::kMemory + 5 * kPageBytes + 0xc00,
    BareProcess::kMemory + 6 * kPageBytes + 0x100};
constexpr uint64_t kFsBase = 0x140, kGsBase = 0x2c0;

bool IsForCpu(const Instruction& instruction) {
  return instruction.policy == Policy::kEmulate || instruction.policy == Policy::kAssist;
}

// Images that show what is the host's own, or ours: assist_test has these.
bool ShowsHost(uint16_t mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXSAVE64:
    case ZYDIS_MNEMONIC_FNSTENV:
    case ZYDIS_MNEMONIC_FNSAVE:
      return true;
    default:
      return false;
  }
}

bool IsBeyondAddresses(uint64_t address) { return address >= View::kAddressLimit; }

// fld st(7): the register that Operands leaves free to be pushed into.
bool ReadsFreeX87(absl::Span<const uint8_t> code) {
  return code.size() > 1 && code[code.size() - 2] == 0xd9 && code.back() == 0xc7;
}

}  // namespace

class PrefixBench::CodePager final : public Pager {
 public:
  bool OnMissing(uint64_t page, Access access) override {
    const bool memory =
        page >= BareProcess::kMemory && page < BareProcess::kMemory + BareProcess::kMemoryBytes;
    const bool code =
        page >= BareProcess::kCode && page < BareProcess::kCode + BareProcess::kCodeBytes;
    if (!memory && !code) return false;
    // Code is data to an instruction whose operand lies there.
    if (code)
      std::memcpy(cpu->HostPage(page), process->code().data() + (page - BareProcess::kCode),
                  kPageBytes);
    cpu->SetRights(page, memory ? PageRights::kReadWrite : PageRights::kRead);
    return true;
  }
  bool OnFirstWrite(uint64_t page) override { return page < BareProcess::kCode; }
  bool MayExecute(uint64_t page) override { return page >= BareProcess::kCode; }

  Cpu* cpu = nullptr;
  BareProcess* process = nullptr;
};

PrefixBench::PrefixBench(uint64_t seed) : state_(seed), memory_(BareProcess::kMemoryBytes) {}
PrefixBench::~PrefixBench() = default;

absl::StatusOr<std::unique_ptr<PrefixBench>> PrefixBench::Create(uint64_t seed) {
  auto bench = std::unique_ptr<PrefixBench>(new PrefixBench(seed));
  ASSIGN_OR_RETURN(bench->process_, BareProcess::Launch());
  RETURN_IF_ERROR(bench->RenewCpu());
  return bench;
}

absl::Status PrefixBench::RenewCpu() {
  auto pager = std::make_unique<CodePager>();
  ASSIGN_OR_RETURN(cpu_, Cpu::Create(pager.get()));
  pager_ = std::move(pager);
  pager_->cpu = cpu_.get();
  pager_->process = process_.get();
  cpu_->CheckAlignment();
  next_code_ = BareProcess::kCode;
  FillMemory();
  return absl::OkStatus();
}

// New code each time, so that none is retranslated.
void PrefixBench::PlaceCode(absl::Span<const uint8_t> bytes) {
  code_ = next_code_;
  next_code_ += kStrideBytes;
  uint8_t block[kStrideBytes];
  std::memset(block, 0xcc, sizeof(block));
  std::copy(bytes.begin(), bytes.end(), block);
  const uint64_t page = PageOf(code_);
  std::memcpy(cpu_->HostPage(page) + code_ % kPageBytes, block, sizeof(block));
  std::memcpy(process_->code().data() + (code_ - BareProcess::kCode), block, sizeof(block));
}

void PrefixBench::FillMemory() {
  for (size_t at = 0; at < memory_.size(); at += 8) {
    const uint64_t value = state_.Below(2) != 0 ? state_.Float() : state_.Integer();
    std::memcpy(memory_.data() + at, &value, sizeof(value));
  }
}

void PrefixBench::CopyMemoryToCpu() {
  for (uint64_t at = 0; at < BareProcess::kMemoryBytes; at += kPageBytes) {
    std::memcpy(cpu_->HostPage(BareProcess::kMemory + at), memory_.data() + at, kPageBytes);
  }
}

RegisterFile PrefixBench::Operands(const Instruction& instruction) {
  RegisterFile registers = state_.Registers();
  const RegisterFile& initial = process_->initial();
  registers.cs = initial.cs, registers.ss = initial.ss;
  registers.ds = initial.ds, registers.es = initial.es;
  registers.fs = initial.fs, registers.gs = initial.gs;
  registers.fs_base = kFsBase, registers.gs_base = kGsBase;
  registers.rip = code_;
  registers.gpr[kRdi] = kPlaces[0];
  registers.gpr[kRsi] = kPlaces[1];
  registers.gpr[kRbx] = kPlaces[2];
  registers.gpr[kRsp] = kPlaces[3];
  registers.gpr[kR15] = kPlaces[4];  // what a REX makes of rdi
  if (instruction.rep || state_.Below(2) != 0) registers.gpr[kRcx] = state_.Below(32);
  // Only with 32-bit addresses do they still lie in memory.
  if (state_.Below(8) == 0) registers.gpr[kRdi] |= uint64_t{1} << (32 + state_.Below(31));
  MakeRoomFor(instruction.mnemonic, &registers);
  return registers;
}

void PrefixBench::Start(const RegisterFile& registers) {
  CopyMemoryToCpu();
  cpu_->SetRegisters(registers);
  cpu_->set_count(0);
}

std::string PrefixBench::Compare(const Agreement& agreement, const RegisterFile& host) {
  if (!Agree(agreement, host, cpu_->registers())) {
    return DescribeDifference(agreement, host, cpu_->registers());
  }
  for (uint64_t at = 0; at < BareProcess::kMemoryBytes; at += kPageBytes) {
    if (std::memcmp(cpu_->HostPage(BareProcess::kMemory + at), process_->memory().data() + at,
                    kPageBytes) != 0) {
      return "memory";
    }
  }
  return "";
}

std::string PrefixBench::RunInBlock(const Agreement& agreement, const RegisterFile& before,
                                    const RegisterFile& host) {
  Start(before);
  const RunResult run = cpu_->Run({});
  if (run.stop != Stop::kSpecial || cpu_->count() != 1) {
    return absl::StrCat("does not end with its block, but after ", cpu_->count());
  }
  return Compare(agreement, host);
}

absl::StatusOr<PrefixBench::Result> PrefixBench::Run(absl::Span<const uint8_t> bytes) {
  CHECK(bytes.size() <= kMaxBytes);
  if (next_code_ + kStrideBytes > BareProcess::kCode + BareProcess::kCodeBytes) {
    RETURN_IF_ERROR(RenewCpu());
  }
  const Instruction instruction = Classify(bytes);
  if (!IsForCpu(instruction) || ShowsHost(instruction.mnemonic)) return Result{};
  // Behind the instruction a syscall ends the block.
  std::vector<uint8_t> code(bytes.begin(), bytes.begin() + instruction.length);
  code.insert(code.end(), {0x0f, 0x05});
  if (ReadsFreeX87(absl::MakeConstSpan(code).first(instruction.length))) return Result{};
  PlaceCode(code);
  const RegisterFile before = Operands(instruction);
  std::memcpy(process_->memory().data(), memory_.data(), memory_.size());
  RegisterFile host = before;
  ASSIGN_OR_RETURN(const int signal, process_->Execute(instruction.rep, &host));
  if (signal == 0 && instruction.pushes_flags) {
    // The kernel's trap flag.
    process_->memory()[host.gpr[kRsp] + 1 - BareProcess::kMemory] &= 0xfe;
  }
  Start(before);
  const Stop stop = cpu_->Step().stop;
  Result result{.run = true};
  if (stop == Stop::kSpecial) return Result{};  // goes to the process after all
  // On the hardware this instruction faults, in the Cpu the next one.
  if (signal != 0 && stop == Stop::kLimit && IsBeyondAddresses(cpu_->pc())) return result;
  if (signal != 0 || stop != Stop::kLimit) {
    if (signal == 0) result.wrong = "only the emulator faults";
    if (stop == Stop::kLimit) result.wrong = absl::StrCat("only the host faults: ", signal);
    return result;
  }
  result.completed = true;
  const Agreement agreement = AgreementFor(bytes);
  result.wrong = Compare(agreement, host);
  if (!result.wrong.empty() || instruction.control_flow) return result;
  if (host.rip != before.rip + instruction.length) {
    result.wrong = absl::StrCat("takes ", host.rip - before.rip, " bytes");
    return result;
  }
  result.wrong = RunInBlock(agreement, before, host);
  if (!result.wrong.empty()) result.wrong = absl::StrCat("in its block: ", result.wrong);
  return result;
}

}  // namespace hindsight

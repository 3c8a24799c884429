#include "emulator/checks/stress.h"

#include <Zydis/Zydis.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "emulator/assist/host_plan.h"
#include "isa/decoder.h"
#include "isa/float_control.h"
#include "isa/vector_bytes.h"

namespace hindsight {
namespace {

// Memory at the same address on both sides: a page each for the destination (rdi), the source
// (rsi, rbx, rbp) and the stack, with pages around them that are never written on purpose.
constexpr uint64_t kMemory = 0x1000'0000;
constexpr uint64_t kMemoryBytes = 8 * kPageBytes;
constexpr uint64_t kDestination = kMemory + 1 * kPageBytes + 0x800;
constexpr uint64_t kSource = kMemory + 3 * kPageBytes + 0x800;
constexpr uint64_t kStack = kMemory + 5 * kPageBytes + 0x800;
// Operands reach no farther from those addresses than this.
constexpr uint64_t kReachBytes = 256;
// Code of the emulated side: each encoding has an address of its own, so none is retranslated.
constexpr uint64_t kCode = 0x2000'0000;
constexpr uint64_t kCodeStrideBytes = 16;

// Segment bases are the host's own here.
bool MovesBase(uint16_t mnemonic) {
  return mnemonic == ZYDIS_MNEMONIC_RDFSBASE || mnemonic == ZYDIS_MNEMONIC_RDGSBASE ||
         mnemonic == ZYDIS_MNEMONIC_WRFSBASE || mnemonic == ZYDIS_MNEMONIC_WRGSBASE;
}

// Opcodes a0 to a3 carry a 64-bit address where a ModRM byte would begin.
bool HasAbsoluteAddress(const Encoding& encoding, int* at) {
  int i = 0;
  while (encoding.bytes[i] == 0x66 || (encoding.bytes[i] & 0xfe) == 0xf2 ||
         encoding.bytes[i] == 0x48) {
    ++i;
  }
  *at = i + 1;
  return encoding.bytes[i] >= 0xa0 && encoding.bytes[i] <= 0xa3;
}

}  // namespace

class StressBench::ZeroPager final : public Pager {
 public:
  bool OnMissing(uint64_t page, Access access) override {
    const bool known = (page >= kMemory && page < kMemory + kMemoryBytes) || page >= kCode;
    if (!known || page >= kCode + (uint64_t{1} << 28)) return false;
    cpu->SetRights(page, PageRights::kReadWrite);
    return true;
  }
  bool OnFirstWrite(uint64_t page) override { return true; }

  Cpu* cpu = nullptr;
};

// Indices must be small for elements to lie where memory is.
void StressBench::FindIndexRegister() {
  index_register_ = -1;
  ZydisDecodedInstruction decoded;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  const absl::Span<const uint8_t> code(encoding_.bytes.data(), encoding_.length);
  if (!Decode(code, &decoded, operands)) return;
  for (int i = 0; i < decoded.operand_count; ++i) {
    if (operands[i].type != ZYDIS_OPERAND_TYPE_MEMORY ||
        operands[i].mem.type != ZYDIS_MEMOP_TYPE_VSIB) {
      continue;
    }
    index_register_ = ZydisRegisterGetId(operands[i].mem.index);
    const std::string name = ZydisMnemonicGetString(decoded.mnemonic);
    wide_index_ =
        name.find("gatherq") != std::string::npos || name.find("scatterq") != std::string::npos;
  }
}

// Anywhere within a page, across two, or at the end of memory, where a part of the operand is not
// there.
uint64_t StressBench::Destination() {
  if (misaligned_) return kDestination + 1 + state_.Below(15);
  if (!on_host_) return kDestination;
  switch (state_.Below(8)) {
    case 0:
      return kMemory + kMemoryBytes - state_.Below(80);
    case 1:
      return kMemory + 2 * kPageBytes - state_.Below(64);
    case 2:
    case 3:
      return kDestination + state_.Below(64);
    default:
      return kDestination + 64;  // aligned
  }
}

// Such that generated code is not used.
void StressBench::UnusualControl(RegisterFile* registers) {
  if (state_.Below(2) != 0) registers->fcw &= ~(uint64_t{1} << state_.Below(6));
  if (!HasUnusualFloatControl(*registers)) registers->mxcsr &= ~uint64_t{0x100};
  // What has occurred and is not masked would be pending.
  registers->fsw &= ~uint64_t{0x3f} | registers->fcw;
}

void StressBench::AssistedOperands(RegisterFile* registers) {
  registers->mxcsr = state_.Mxcsr();
  if (instruction_.floating) UnusualControl(registers);
  if (index_register_ < 0) return;
  VectorBytes index = ReadVector(*registers, index_register_);
  // The host has no more of it without AVX-512.
  const bool whole = HostFeatures::OfThisHost().Has(HostFeature::kAvx512F);
  for (size_t i = 0; i < sizeof(index) / (whole ? 1 : 2); i += wide_index_ ? 8 : 4) {
    const int64_t offset = static_cast<int64_t>(state_.Below(48)) - 24;
    std::memcpy(index.at + i, &offset, wide_index_ ? 8 : 4);
  }
  WriteVector(index_register_, index, registers);
}

StressBench::StressBench(uint64_t seed) : state_(seed) {}

StressBench::~StressBench() {
  if (host_memory_ != nullptr) munmap(host_memory_, kMemoryBytes);
}

absl::StatusOr<StressBench::Machine> StressBench::MakeMachine() {
  Machine machine;
  machine.pager = std::make_unique<ZeroPager>();
  ASSIGN_OR_RETURN(machine.cpu, Cpu::Create(machine.pager.get()));
  machine.pager->cpu = machine.cpu.get();
  return machine;
}

absl::StatusOr<std::unique_ptr<StressBench>> StressBench::Create(uint64_t seed) {
  auto bench = std::unique_ptr<StressBench>(new StressBench(seed));
  void* memory = mmap(reinterpret_cast<void*>(kMemory), kMemoryBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (memory == MAP_FAILED) return absl::UnavailableError("the bench's addresses are taken");
  bench->host_memory_ = static_cast<uint8_t*>(memory);
  ASSIGN_OR_RETURN(bench->machine_, MakeMachine());
  bench->cpu_ = bench->machine_.cpu.get();
  ASSIGN_OR_RETURN(bench->unicorn_, MakeMachine());
  bench->unicorn_.cpu->LeaveBridgesToUnicorn();
  bench->next_code_ = kCode;
  return bench;
}

bool StressBench::Load(const Encoding& encoding) {
  encoding_ = encoding;
  int address_at = 0;
  if (HasAbsoluteAddress(encoding, &address_at)) {
    std::memcpy(&encoding_.bytes[address_at], &kDestination, sizeof(kDestination));
  }
  instruction_ = Classify(encoding_.bytes);
  const bool computed =
      instruction_.policy == Policy::kEmulate || instruction_.policy == Policy::kAssist;
  if (!computed || instruction_.control_flow) return false;
  // The image shows the host's own MXCSR_MASK, and of x87 pointers what the vendor likes:
  // assist_test has it.
  if (instruction_.mnemonic == ZYDIS_MNEMONIC_FXSAVE ||
      instruction_.mnemonic == ZYDIS_MNEMONIC_FXSAVE64 || MovesBase(instruction_.mnemonic)) {
    return false;
  }
  encoding_.length = instruction_.length;
  FindIndexRegister();
  agreement_ = AgreementFor(encoding_.bytes);
  code_ = next_code_;
  next_code_ += kCodeStrideBytes;
  PutCode(cpu_);
  return true;
}

void StressBench::PutCode(Cpu* cpu) const {
  const uint64_t page = PageOf(code_);
  std::memset(cpu->HostPage(page) + code_ % kPageBytes, 0x90, kCodeStrideBytes);
  std::memcpy(cpu->HostPage(page) + code_ % kPageBytes, encoding_.bytes.data(), encoding_.length);
}

bool StressBench::LoadBridge(const Encoding& encoding) {
  encoding_ = encoding;
  instruction_ = Classify(encoding_.bytes);
  if (!instruction_.bridge) return false;
  encoding_.length = instruction_.length;
  index_register_ = -1;
  code_ = next_code_;
  next_code_ += kCodeStrideBytes;
  PutCode(cpu_);
  PutCode(unicorn_.cpu.get());
  return true;
}

RegisterFile StressBench::Operands() {
  RegisterFile registers = state_.Registers();
  if (IsBitTest(static_cast<ZydisMnemonic>(instruction_.mnemonic))) {
    for (uint64_t& gpr : registers.gpr) gpr = state_.Below(kReachBytes * 8);
  }
  if (state_.Below(4) != 0) MakeRoomFor(instruction_.mnemonic, &registers);
  if (instruction_.rep) registers.gpr[kRcx] = state_.Below(kReachBytes / 8);
  registers.gpr[kRsp] = kStack;
  registers.gpr[kRdi] = destination_;
  registers.gpr[kRsi] = kSource;
  if (instruction_.mnemonic == ZYDIS_MNEMONIC_XLAT) registers.gpr[kRbx] = kSource;
  if (instruction_.mnemonic == ZYDIS_MNEMONIC_LEAVE) registers.gpr[kRbp] = kSource;
  // Random dividends overflow nearly always.
  const bool divides =
      instruction_.mnemonic == ZYDIS_MNEMONIC_DIV || instruction_.mnemonic == ZYDIS_MNEMONIC_IDIV;
  if (divides && state_.Below(4) != 0) {
    registers.gpr[kRdx] = 0;
    registers.gpr[kRax] >>= state_.Below(64);
  }
  if (on_host_) AssistedOperands(&registers);
  registers.rip = code_;
  return registers;
}

void StressBench::FillMemory() {
  for (uint64_t center : {destination_ & ~uint64_t{7}, kSource, kStack}) {
    const bool floating = state_.Below(2) != 0;
    const uint64_t end = std::min(center + kReachBytes, kMemory + kMemoryBytes);
    for (uint64_t at = center - kReachBytes; at < end; at += 8) {
      uint64_t value = floating ? state_.Float() : state_.Integer();
      if (state_.Below(8) == 0) value = 0;
      std::memcpy(host_memory_ + (at - kMemory), &value, sizeof(value));
    }
  }
}

// Of what is loaded into MXCSR: a bit that only AMD's processors have, and the emulated one has
// not.
void StressBench::ClearMisalignedMask() {
  constexpr size_t kByte = 2;
  constexpr uint8_t kBit = 1 << 1;  // 17
  if (destination_ + kByte < kMemory + kMemoryBytes) {
    host_memory_[destination_ - kMemory + kByte] &= static_cast<uint8_t>(~kBit);
  }
}

void StressBench::Misalign() {
  misaligned_ = true;
  cpu_->CheckAlignment();
  unicorn_.cpu->CheckAlignment();
}

bool StressBench::GoesToHost() {
  if (instruction_.policy == Policy::kAssist) return true;
  return instruction_.floating && !misaligned_ && state_.Below(2) != 0;
}

StressResult StressBench::Run() {
  on_host_ = GoesToHost();
  destination_ = Destination();
  FillMemory();
  RegisterFile host = Operands();
  // An 80-bit memory operand is rarely a number by chance.
  auto put = [&](const void* bytes, size_t size) {
    if (destination_ + size > kMemory + kMemoryBytes) return;
    std::memcpy(host_memory_ + (destination_ - kMemory), bytes, size);
  };
  if (state_.Below(2) != 0) put(host.st[3], 10);
  if (instruction_.mnemonic == ZYDIS_MNEMONIC_FLDCW) put(&host.fcw, 2);
  if (instruction_.mnemonic == ZYDIS_MNEMONIC_LDMXCSR) ClearMisalignedMask();
  CopyMemory(cpu_);
  cpu_->SetRegisters(host);
  const RunResult emulated = cpu_->Step();
  const int signal =
      stub_.Run(absl::MakeConstSpan(encoding_.bytes.data(), encoding_.length), &host);
  return Compare(signal, host, emulated);
}

void StressBench::CopyMemory(Cpu* cpu) const {
  for (uint64_t page = 0; page < kMemoryBytes; page += kPageBytes) {
    std::memcpy(cpu->HostPage(kMemory + page), host_memory_ + page, kPageBytes);
  }
}

StressResult StressBench::RunBridge() {
  on_host_ = false;
  destination_ = kDestination;
  FillMemory();
  const RegisterFile before = Operands();
  RunResult results[2];
  int i = 0;
  for (Cpu* cpu : {cpu_, unicorn_.cpu.get()}) {
    CopyMemory(cpu);
    cpu->SetRegisters(before);
    results[i++] = cpu->Step();
  }
  return CompareMachines(results[0], results[1]);
}

StressResult StressBench::RunInBlock() {
  static const std::vector<uint8_t> kBefore[] = {
      {0x4d, 0x01, 0xf7},              // add r15,r14
      {0x4d, 0x11, 0xf7},              // adc r15,r14
      {0x4d, 0x29, 0xf7},              // sub r15,r14
      {0x4d, 0x09, 0xf7},              // or r15,r14
      {0x49, 0xff, 0xc7},              // inc r15
      {0x49, 0xc1, 0xe7, 0x03},        // shl r15,3
      {0x49, 0xd3, 0xff},              // sar r15,cl
      {0x49, 0xd1, 0xc7},              // rol r15,1
      {0x4d, 0x0f, 0xaf, 0xfe},        // imul r15,r14
      {0x4d, 0x0f, 0xbc, 0xfe},        // bsf r15,r14
      {0x49, 0x0f, 0xba, 0xe7, 0x05},  // bt r15,5
      {0xf9},                          // stc
  };
  constexpr uint64_t kBlockStrideBytes = 48;
  const std::vector<uint8_t>& first = kBefore[state_.Below(std::size(kBefore))];
  std::vector<uint8_t> code = first;
  code.insert(code.end(), encoding_.bytes.begin(), encoding_.bytes.begin() + encoding_.length);
  code.insert(code.end(), {0xeb, 0x00, 0x0f, 0x05});  // jmp to a syscall
  // New code each time, so that none is retranslated; not over the end of a page.
  next_code_ = (next_code_ + kBlockStrideBytes - 1) / kBlockStrideBytes * kBlockStrideBytes;
  if (next_code_ % kPageBytes + kBlockStrideBytes > kPageBytes) {
    next_code_ = (next_code_ | (kPageBytes - 1)) + 1;
  }
  code_ = next_code_;
  next_code_ += kBlockStrideBytes;

  on_host_ = false;
  destination_ = misaligned_ ? Destination() : kDestination;
  FillMemory();
  const RegisterFile before = Operands();
  Cpu* const stepped = unicorn_.cpu.get();
  for (Cpu* cpu : {cpu_, stepped}) {
    const uint64_t page = PageOf(code_);
    std::memcpy(cpu->HostPage(page) + code_ % kPageBytes, code.data(), code.size());
    CopyMemory(cpu);
    cpu->SetRegisters(before);
    cpu->set_count(0);
  }
  const RunResult run = cpu_->Run({});
  RunResult step;
  for (int i = 0; i < 3 && step.stop == Stop::kLimit; ++i) step = stepped->Step();
  // The syscall is where the run ends.
  if (run.stop == Stop::kSpecial && cpu_->count() == 3 && step.stop == Stop::kLimit) {
    return CompareMachines({}, {});
  }
  return CompareMachines(run, step);
}

StressResult StressBench::CompareMachines(const RunResult& here, const RunResult& other) {
  if (here.stop != other.stop) return {.verdict = Verdict::kDiffers, .what = "faults"};
  if (here.stop != Stop::kLimit) return {.verdict = Verdict::kAgrees, .faulted = true};
  Cpu* const cpu = unicorn_.cpu.get();
  if (!(cpu_->registers() == cpu->registers())) {
    Agreement all;
    CHECK(FromWords(RegisterWords(kRegisterWords, ~uint64_t{0}), &all.care));
    return {.verdict = Verdict::kDiffers,
            .what = DescribeDifference(all, cpu->registers(), cpu_->registers())};
  }
  for (uint64_t page = kMemory; page < kMemory + kMemoryBytes; page += kPageBytes) {
    if (std::memcmp(cpu_->HostPage(page), cpu->HostPage(page), kPageBytes) != 0) {
      return {.verdict = Verdict::kDiffers, .what = "memory"};
    }
  }
  return {.verdict = Verdict::kAgrees};
}

StressResult StressBench::Compare(int host_signal, const RegisterFile& host,
                                  const RunResult& emulated) {
  const bool emulator_faults = emulated.stop != Stop::kLimit;
  if (host_signal != 0 && emulator_faults) return {.verdict = Verdict::kAgrees, .faulted = true};
  if (host_signal != 0) return {.verdict = Verdict::kOnlyHostFaults};
  if (emulator_faults) return {.verdict = Verdict::kOnlyEmulatorFaults};
  if (!Agree(agreement_, host, cpu_->registers())) {
    return {.verdict = Verdict::kDiffers,
            .what = DescribeDifference(agreement_, host, cpu_->registers())};
  }
  // Whether an instruction is followed by one that Unicorn executes must make no difference.
  const RegisterFile after = cpu_->registers();
  cpu_->SetRegisters(after);
  if (!(cpu_->registers() == after)) {
    return {.verdict = Verdict::kDiffers, .what = "not kept by the engine"};
  }
  for (uint64_t page = 0; page < kMemoryBytes; page += kPageBytes) {
    if (std::memcmp(cpu_->HostPage(kMemory + page), host_memory_ + page, kPageBytes) != 0) {
      return {.verdict = Verdict::kDiffers, .what = "memory"};
    }
  }
  return {.verdict = Verdict::kAgrees};
}

}  // namespace hindsight

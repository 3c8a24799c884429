#include "translator/checks/emulated_run.h"

#include <signal.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "emulator/code/instruction.h"
#include "isa/comparison.h"
#include "translator/checks/host_choices.h"
#include "translator/flags.h"

namespace hindsight {
namespace {

constexpr uint64_t kStickyMxcsr = 0x3f;
// All but the top of the stack: some of the rest is sticky, some undefined.
constexpr uint64_t kStickyX87 = 0xffff & ~0x3800;

// What may differ where it has not been told.
Agreement AllThatIsDefined() {
  Agreement all;
  CHECK(FromWords(std::vector<uint64_t>(kRegisterWords, ~uint64_t{0}), &all.care));
  RegisterFile& care = all.care;
  care.fip = care.fdp = care.fop = 0;
  care.fs_base = care.gs_base = 0;
  care.cs = care.ss = care.ds = care.es = care.fs = care.gs = 0;
  care.rflags = ~uint64_t{kStatusFlags} & ~uint64_t{1 << 16};
  care.mxcsr = ~kStickyMxcsr;
  care.fsw = ~kStickyX87;
  return all;
}

}  // namespace

bool EmulatedRun::NeedsSideEffect(absl::Span<const uint8_t> instruction) {
  switch (Classify(instruction).policy) {
    case Policy::kNative:
    case Policy::kNondeterministic:
      return true;
    case Policy::kAssist:
      return !executor_.CanExecute(instruction);
    default:
      return false;
  }
}

EmulatedRun::EmulatedRun(Region memory, Region code) : memory_(memory), code_(code) {
  absl::StatusOr<std::unique_ptr<Cpu>> cpu = Cpu::Create(this);
  CHECK(cpu.ok());
  cpu_ = *std::move(cpu);
}

EmulatedRun::~EmulatedRun() = default;

bool EmulatedRun::OnMissing(uint64_t page, Access access) {
  if (page - memory_.begin >= memory_.bytes && page - code_.begin >= code_.bytes) {
    left_memory_ = true;
    return false;
  }
  cpu_->SetRights(page, PageRights::kReadWrite);
  return true;
}

void EmulatedRun::Fill(Region region, absl::Span<const uint8_t> bytes) {
  for (uint64_t at = 0; at < region.bytes; at += kPageBytes) {
    uint8_t* page = cpu_->HostPage(region.begin + at);
    cpu_->SetRights(region.begin + at, PageRights::kReadWrite);
    if (std::memcmp(page, bytes.data() + at, kPageBytes) == 0) continue;
    std::memcpy(page, bytes.data() + at, kPageBytes);
    cpu_->ContentsChanged(region.begin + at);
  }
}

bool EmulatedRun::DecodeNext(GuestInstruction* instruction) const {
  uint8_t bytes[ZYDIS_MAX_INSTRUCTION_LENGTH] = {};
  const uint64_t room = std::min<uint64_t>(code_.begin + code_.bytes - cpu_->pc(), sizeof(bytes));
  const auto code = absl::MakeSpan(bytes).first(room);
  return cpu_->ReadHeld(cpu_->pc(), code) && DecodeGuest(cpu_->pc(), code, instruction);
}

// What the instruction that faults has stored of its operand: a recorder tells that.
void EmulatedRun::TakeSplitStore(absl::Span<const uint8_t> memory_after) {
  GuestInstruction instruction;
  if (!DecodeNext(&instruction)) return;
  const uint64_t at = SplitStoreAt(instruction, cpu_->registers()) - memory_.begin;
  for (uint64_t i = at; i < at + kSplitStoreBytes && i < memory_.bytes; ++i) {
    cpu_->HostPage(memory_.begin + i / kPageBytes * kPageBytes)[i % kPageBytes] = memory_after[i];
  }
}

// What the next instruction does to undefined_. AF nothing reads but what is told.
void EmulatedRun::PassFlags() {
  GuestInstruction instruction;
  if (!DecodeNext(&instruction)) return;
  const ZydisAccessedFlags* flags = instruction.decoded.cpu_flags;
  if (flags == nullptr) return;
  const FlagUse use = FlagsOf(instruction);
  if ((use.read & undefined_) != 0) read_undefined_ = true;
  undefined_ = (undefined_ & ~use.overwritten) | (flags->undefined & kStatusFlags & ~0x10u);
}

std::string EmulatedRun::RunTo(uint64_t count) {
  while (cpu_->count() < count) {
    const uint64_t pc = cpu_->pc();
    PassFlags();
    if (read_undefined_) return "";
    const Stop stop = cpu_->Step().stop;
    if (stop == Stop::kLimit) continue;
    return absl::StrCat("emulated: stop ", static_cast<int>(stop), " at ", absl::Hex(pc), " count ",
                        cpu_->count(), " of ", count);
  }
  return "";
}

std::string EmulatedRun::Compare(const RegisterFile& registers, absl::Span<const uint8_t> memory,
                                 absl::Span<const uint8_t> code, absl::Span<const ToldState> told,
                                 const GuestStop& translated,
                                 absl::Span<const uint8_t> memory_after) {
  Fill(memory_, memory);
  Fill(code_, code);
  cpu_->SetRegisters(registers);
  cpu_->set_count(0);
  undefined_ = 0;
  read_undefined_ = left_memory_ = false;
  auto differs = [&](const RegisterFile& wanted) -> std::string {
    const Agreement agreement = AllThatIsDefined();
    if (Agree(agreement, wanted, cpu_->registers())) return "";
    return absl::StrCat("emulated, at ", absl::Hex(cpu_->pc()), " count ", cpu_->count(), ": ",
                        DescribeDifference(agreement, wanted, cpu_->registers()));
  };
  for (const ToldState& state : told) {
    std::string difference = RunTo(state.count);
    if (read_undefined_) break;
    undefined_ = 0;
    if (difference.empty()) difference = differs(state.registers);
    if (!difference.empty()) return difference;
    RegisterFile now = cpu_->registers();
    now.rflags = (now.rflags & ~uint64_t{state.flags_exact}) |
                 (state.registers.rflags & uint64_t{state.flags_exact});
    now.mxcsr = state.registers.mxcsr;
    now.fsw = state.registers.fsw;
    now.fip = state.registers.fip;
    now.fdp = state.registers.fdp;
    now.fop = state.registers.fop;
    cpu_->SetRegisters(now);
  }
  std::string difference = RunTo(translated.count);
  instructions_ += cpu_->count();
  if (read_undefined_) {
    ++untold_;
    return "";
  }
  if (difference.empty()) difference = differs(translated.registers);
  if (!difference.empty()) return difference;
  if (translated.signal == SIGSEGV) TakeSplitStore(memory_after);
  for (uint64_t at = 0; at < memory_.bytes; at += kPageBytes) {
    const uint8_t* page = cpu_->HostPage(memory_.begin + at);
    const uint8_t* other = memory_after.data() + at;
    if (std::memcmp(page, other, kPageBytes) == 0) continue;
    const auto where = std::mismatch(page, page + kPageBytes, other);
    return absl::StrCat("emulated: memory at ",
                        absl::Hex(memory_.begin + at + (where.first - page)), " is ", *where.first,
                        ", translated ", *where.second, ", rip ",
                        absl::Hex(translated.registers.rip), " count ", translated.count);
  }
  return "";
}

}  // namespace hindsight

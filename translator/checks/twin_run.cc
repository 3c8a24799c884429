#include "translator/checks/twin_run.h"

#include <asm/prctl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "isa/comparison.h"

namespace hindsight {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMemoryBytes = 4 * kPage;
constexpr uint64_t kCodeBytes = 16 * kPage;
constexpr uint64_t kDistance = (uint64_t{16} << 40) + (16 << 20);
constexpr uint8_t kInt3 = 0xcc;

void MapFixed(uint64_t address, uint64_t bytes) {
  void* const wanted = reinterpret_cast<void*>(address);
  CHECK(mmap(wanted, bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == wanted);
}

std::string Text(const GuestInstruction& instruction) {
  ZydisFormatter formatter;
  ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL);
  char text[200];
  ZydisFormatterFormatInstruction(&formatter, &instruction.decoded, instruction.operands,
                                  instruction.decoded.operand_count_visible, text, sizeof(text),
                                  instruction.pc, ZYAN_NULL);
  std::string result = absl::StrCat(text, "  [");
  for (uint8_t byte : instruction.Bytes()) {
    absl::StrAppend(&result, absl::Hex(byte, absl::kZeroPad2), " ");
  }
  return absl::StrCat(result, "]");
}

std::string DescribeRegisters(const RegisterFile& registers) {
  std::string result;
  for (int i = 0; i < 16; ++i) {
    absl::StrAppend(&result, RegisterWordName(i), "=", absl::Hex(registers.gpr[i]), " ");
  }
  return absl::StrCat(result, "rflags=", absl::Hex(registers.rflags));
}

}  // namespace

std::vector<TwinPlace> TwinPlaces() {
  return {{"near", 0x1000'0000, 0x2000'0000, 0x4000'0000},
          {"low", 0x1000'0000, 0x2000'0000, 0x3000'0000'0000},
          {"far", 0x2222'1000'0000, 0x2222'2000'0000, 0x3000'0000'0000}};
}

TwinRun::TwinRun(const TwinPlace& place, Flavour flavour, uint64_t seed)
    : place_(place), state_(seed) {
  MapFixed(place_.memory, kMemoryBytes);
  MapFixed(place_.code, kCodeBytes);
  CHECK(syscall(SYS_arch_prctl, ARCH_GET_FS, &fs_base_) == 0);
  translated_ = std::make_unique<TranslatedRun>(
      &machine_, TranslatedRun::Options{.arena = place_.arena,
                                        .distance = kDistance,
                                        .flavour = flavour,
                                        .code_at = [this](uint64_t pc) {
                                          absl::Span<const uint8_t> all = code();
                                          const uint64_t at = pc - place_.code;
                                          return at < all.size() ? all.subspan(at)
                                                                 : all.subspan(0, 0);
                                        }});
}

TwinRun::~TwinRun() {
  translated_.reset();
  munmap(reinterpret_cast<void*>(place_.memory), kMemoryBytes);
  munmap(reinterpret_cast<void*>(place_.code), kCodeBytes);
}

absl::Span<uint8_t> TwinRun::code() {
  return {reinterpret_cast<uint8_t*>(place_.code), kCodeBytes};
}

OperandMemory TwinRun::memory() const {
  return {.begin = place_.memory,
          .end = place_.memory + kMemoryBytes,
          .fs_base = fs_base_,
          .gs_base = place_.memory + kPage};
}

void TwinRun::FillMemory() {
  for (uint64_t at = place_.memory; at < place_.memory + kMemoryBytes; at += 8) {
    const uint64_t value = state_.Below(3) == 0 ? state_.Float() : state_.Integer();
    std::memcpy(reinterpret_cast<void*>(at), &value, sizeof(value));
  }
}

std::vector<uint8_t> TwinRun::CopyMemory() const {
  const auto* bytes = reinterpret_cast<const uint8_t*>(place_.memory);
  return {bytes, bytes + kMemoryBytes};
}

void TwinRun::SetMemory(const std::vector<uint8_t>& bytes) {
  std::memcpy(reinterpret_cast<void*>(place_.memory), bytes.data(), bytes.size());
}

RegisterFile TwinRun::Registers() {
  RegisterFile registers = state_.Registers();
  registers.gpr[kRsp] = place_.memory + kMemoryBytes / 2 + 8 * state_.Below(64);
  registers.rip = place_.code;
  registers.fs_base = fs_base_;
  registers.gs_base = memory().gs_base;
  return registers;
}

TwinRun::Outcome TwinRun::RunNatively(const RegisterFile& registers) {
  const MachineStop stop = machine_.Run(registers);
  Outcome outcome = {.signal = stop.signal,
                     .fault_address = stop.fault_address,
                     .registers = stop.registers,
                     .memory = CopyMemory()};
  if (stop.signal == SIGTRAP) --outcome.registers.rip;  // of the int3
  return outcome;
}

TwinResult TwinRun::RunForm(FormKind kind) {
  const uint64_t pc = place_.code + state_.Below(64);
  const GuestInstruction form = RandomForm(kind, pc, memory(), random());
  std::fill_n(code().begin(), 128, kInt3);
  std::copy_n(form.bytes, form.decoded.length, code().begin() + (pc - place_.code));
  RegisterFile registers = Registers();
  AimOperands(form, memory(), random(), &registers);
  registers.rip = pc;
  FillMemory();
  if (form.decoded.meta.category == ZYDIS_CATEGORY_POP) KeepFlagsHarmless(registers.gpr[kRsp]);
  TwinResult result = Run(registers, 1000);
  if (!result.difference.empty()) {
    result.description = absl::StrCat(place_.name, ": ", Text(form), "\n", result.description);
  }
  return result;
}

// Flags that are popped: none that makes this process trap.
void TwinRun::KeepFlagsHarmless(uint64_t stack) {
  constexpr uint64_t kHarmful = 0x100 | 0x4000 | 0x40000;  // TF, NT, AC
  if (stack < place_.memory || stack + 8 > place_.memory + kMemoryBytes) return;
  uint64_t word;
  std::memcpy(&word, reinterpret_cast<void*>(stack), sizeof(word));
  word &= ~kHarmful;
  std::memcpy(reinterpret_cast<void*>(stack), &word, sizeof(word));
}

TwinResult TwinRun::Run(const RegisterFile& registers, uint64_t limit) {
  const std::vector<uint8_t> before = CopyMemory();
  const Outcome native = RunNatively(registers);
  SetMemory(before);
  translated_->Flush();
  const GuestStop translated = translated_->Run(registers, limit);
  TwinResult result;
  result.difference = Compare(native, translated);
  if (native.signal == SIGTRAP) {
    ++completed_;
  } else {
    ++faulted_;
  }
  if (!result.difference.empty()) result.description = DescribeRegisters(registers);
  return result;
}

std::string TwinRun::Compare(const Outcome& native, const GuestStop& translated) const {
  const bool stopped = translated.kind == GuestStop::kInstruction;
  if (!stopped && translated.kind != GuestStop::kSignal) {
    return absl::StrCat("translated code: ", translated.what, " kind ", translated.kind);
  }
  if (stopped != (native.signal == SIGTRAP)) {
    return absl::StrCat("natively signal ", native.signal, " at ", absl::Hex(native.fault_address),
                        ", translated ", translated.signal, " at ",
                        absl::Hex(translated.fault_address));
  }
  if (!stopped && native.signal != translated.signal) return "another signal";
  RegisterFile wanted = native.registers, got = translated.registers;
  // Where x87 instructions lie is visible.
  wanted.fip = got.fip = 0;
  if (translated.flags_dead) got.rflags = wanted.rflags;
  if (!(wanted == got)) {
    Agreement all;
    CHECK(FromWords(std::vector<uint64_t>(kRegisterWords, ~uint64_t{0}), &all.care));
    return DescribeDifference(all, wanted, got);
  }
  const bool has_address = native.signal == SIGSEGV || native.signal == SIGBUS;
  if (has_address && native.fault_address != translated.fault_address)
    return "the address of a fault";
  if (CopyMemory() != native.memory) return "memory";
  return "";
}

}  // namespace hindsight

#include "emulator/checks/assist_probe.h"

#include <Zydis/Zydis.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "emulator/assist/host_plan.h"
#include "isa/decoder.h"
#include "isa/host_features.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr size_t kForbiddenBytes = 16 * kPageBytes;
constexpr uint8_t kOperandByte = 0x3c;
// So many instructions fit into some megabytes; then the code is made anew.
constexpr int kManyPrepared = 1 << 14;

uint64_t HostFsBase() {
  uint64_t base = 0;
  asm("mov %%fs:0, %0" : "=r"(base));  // where the thread's own pointer to itself lies
  return base;
}

// What a stub must leave as it is.
struct HostState {
  uint64_t flags = 0;
  uint32_t mxcsr = 0;
  uint16_t control = 0;
  bool operator==(const HostState&) const = default;

  static HostState Now() {
    HostState state;
    asm volatile("pushfq; pop %0" : "=r"(state.flags));
    asm volatile("stmxcsr %0" : "=m"(state.mxcsr));
    asm volatile("fnstcw %0" : "=m"(state.control));
    constexpr uint64_t kDirection = 0x400, kAlignmentCheck = 0x40000, kTrap = 0x100;
    state.flags &= kDirection | kAlignmentCheck | kTrap;
    return state;
  }
};

// A prefix that only the guest's own bytes could have brought in.
bool HasForeignPrefix(const std::vector<uint8_t>& code) {
  static constexpr uint8_t kForeign[] = {0x67, 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65};
  for (uint8_t byte : code) {
    if (std::find(std::begin(kForeign), std::end(kForeign), byte) != std::end(kForeign)) {
      return true;
    }
    const bool other = byte == 0x66 || byte == 0xf0 || byte == 0xf2 || byte == 0xf3;
    if (!other && (byte & 0xf0) != 0x40) return false;
  }
  return false;
}

}  // namespace

// Answers for the only operand, wherever the instruction thinks it is: at the end of a page, or in
// the middle, at an address with the same alignment.
class AssistProbe::Operand final : public GuestMemory {
 public:
  Operand(uint8_t* page, bool at_end) : page_(page), at_end_(at_end) {
    std::memset(page, kOperandByte, kPageBytes);
  }

  bool Read(uint64_t address, absl::Span<uint8_t> out) override { return false; }
  bool Write(uint64_t address, absl::Span<const uint8_t> bytes) override { return false; }
  bool MayWrite(uint64_t address, absl::Span<uint8_t> old) override { return false; }
  uint8_t* Pointer(uint64_t address, size_t size, bool write) override {
    begin_ = page_ + kPageBytes - size - (at_end_ ? 0 : kPageBytes / 2);
    size_ = size;
    return begin_;
  }

  std::vector<uint8_t> bytes() const { return {begin_, begin_ + size_}; }
  // Whether all around it is as it was.
  bool SurroundingsUntouched() const {
    return std::all_of(page_, page_ + kPageBytes, [this](const uint8_t& byte) {
      return byte == kOperandByte || (&byte >= begin_ && &byte < begin_ + size_);
    });
  }

 private:
  uint8_t* const page_;
  const bool at_end_;
  uint8_t* begin_ = page_;
  size_t size_ = 0;
};

absl::StatusOr<std::unique_ptr<AssistProbe>> AssistProbe::Create(uint64_t seed) {
  auto probe = std::unique_ptr<AssistProbe>(new AssistProbe(seed));
  probe->assist_ = std::make_unique<HostAssist>();
  void* forbidden = mmap(nullptr, kForbiddenBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  void* pages =
      mmap(nullptr, 2 * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (forbidden == MAP_FAILED || pages == MAP_FAILED) {
    return absl::ResourceExhaustedError("no memory to probe with");
  }
  probe->forbidden_ = static_cast<uint8_t*>(forbidden);
  probe->pages_ = static_cast<uint8_t*>(pages);
  if (mprotect(probe->pages_ + kPageBytes, kPageBytes, PROT_NONE) != 0) {
    return absl::InternalError("mprotect");
  }
  return probe;
}

AssistProbe::~AssistProbe() {
  if (forbidden_ != nullptr) munmap(forbidden_, kForbiddenBytes);
  if (pages_ != nullptr) munmap(pages_, 2 * kPageBytes);
}

// All general registers point into forbidden memory: as they are, by their lower halves, or
// relative to the host's fs.
RegisterFile AssistProbe::Registers() {
  RegisterFile registers = state_.Registers();
  const uint64_t way = state_.Below(3);
  for (uint64_t& gpr : registers.gpr) {
    gpr = reinterpret_cast<uint64_t>(forbidden_) + kForbiddenBytes / 2 + 8 * state_.Below(64);
    if (way == 1) gpr |= state_.Below(1 << 15) << 32;
    if (way == 2) gpr -= HostFsBase();
  }
  registers.rflags &= 0x8d7;
  return registers;
}

AssistProbe::Outcome AssistProbe::Run(const HostInstruction& instruction,
                                      const RegisterFile& before, uint8_t fill, bool at_end) {
  std::memset(forbidden_, fill, kForbiddenBytes);
  Operand operand(pages_, at_end);
  Outcome outcome{.registers = before};
  const HostState host = HostState::Now();
  outcome.done = assist_->Run(instruction, &outcome.registers, &operand);
  if (!(HostState::Now() == host)) touched_ = "the host's flags or floating-point control";
  outcome.operand = operand.bytes();
  if (!operand.SurroundingsUntouched()) touched_ = "memory around the operand";
  if (std::any_of(forbidden_, forbidden_ + kForbiddenBytes,
                  [fill](uint8_t byte) { return byte != fill; })) {
    touched_ = "memory that it must not write";
  }
  return outcome;
}

AssistProbe::Result AssistProbe::Try(absl::Span<const uint8_t> code) {
  Result result;
  ZydisDecodedInstruction decoded;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT] = {};
  if (!Decode(code, &decoded, operands)) return result;
  std::optional<HostPlan> plan = MakeHostPlan(decoded, operands);
  if (!plan.has_value() || plan->is_gather || plan->is_scatter ||
      !HostFeatures::OfThisHost().Has(plan->needs)) {
    return result;
  }
  if (HasForeignPrefix(plan->code)) return {.assisted = true, .wrong = "a prefix of the guest's"};
  if (++prepared_ % kManyPrepared == 0) assist_ = std::make_unique<HostAssist>();
  absl::StatusOr<HostInstruction> ready = assist_->Prepare(*std::move(plan));
  if (!ready.ok()) return result;
  result.assisted = true;
  touched_.clear();
  const RegisterFile before = Registers();
  const Outcome first = Run(*ready, before, 0x11, /*at_end=*/true);
  const Outcome second = Run(*ready, before, 0xee, /*at_end=*/true);
  const Outcome free = Run(*ready, before, 0xee, /*at_end=*/false);
  result.completed = first.done;
  result.wrong = touched_;
  if (!(first == second)) result.wrong = "its result depends on memory that it must not read";
  if (!(second == free)) result.wrong = "it reaches beyond its operand";
  return result;
}

}  // namespace hindsight

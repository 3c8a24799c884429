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
#include "isa/operand_address.h"
#include "translator/checks/compared_strings.h"
#include "translator/checks/host_choices.h"
#include "translator/record_class.h"

namespace hindsight {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMemoryBytes = 4 * kPage;
constexpr uint64_t kCodeBytes = 16 * kPage;
constexpr uint64_t kDistance = (uint64_t{16} << 40) + (16 << 20);
constexpr uint8_t kInt3 = 0xcc;
constexpr uint64_t kStatusFlags = 0x8d5;

void MapFixed(uint64_t address, uint64_t bytes, int protection) {
  void* const wanted = reinterpret_cast<void*>(address);
  CHECK(mmap(wanted, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
        wanted);
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

std::string Listing(const RandomFlow& flow) {
  std::string result;
  absl::Span<const uint8_t> rest = flow.code();
  uint64_t pc = flow.begin();
  while (!rest.empty()) {
    GuestInstruction instruction;
    size_t length = 1;
    if (DecodeGuest(pc, rest, &instruction)) {
      length = instruction.decoded.length;
      if (instruction.decoded.mnemonic != ZYDIS_MNEMONIC_NOP) {
        absl::StrAppend(&result, absl::Hex(pc), "  ", Text(instruction), "\n");
      }
    }
    pc += length;
    rest.remove_prefix(length);
  }
  return result;
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
  return {{"near", 0x1000'0000, 0x2000'0000, 0x4321'0000},
          {"low", 0x1000'0000, 0x2000'0000, 0x3000'0000'0000},
          {"far", 0x2222'1000'0000, 0x2222'2000'0000, 0x3000'0000'0000}};
}

TwinRun::TwinRun(const TwinPlace& place, Flavour flavour, uint64_t seed, TwinOptions options)
    : place_(place),
      state_(seed),
      flavour_(flavour),
      exclusive_(options.exclusive),
      order_(options.order, place.code + kCodeBytes) {
  MapFixed(place_.memory, kMemoryBytes, PROT_READ | PROT_WRITE);
  MapFixed(place_.code, kCodeBytes, PROT_READ | PROT_WRITE | PROT_EXEC);
  CHECK(syscall(SYS_arch_prctl, ARCH_GET_FS, &fs_base_) == 0);
  LeftToAgent left_to_agent;
  if (options.replayed) {
    emulated_ = std::make_unique<EmulatedRun>(EmulatedRun::Region{place_.memory, kMemoryBytes},
                                              EmulatedRun::Region{place_.code, kCodeBytes});
    left_to_agent = [this](auto instruction) { return emulated_->NeedsSideEffect(instruction); };
  }
  translated_ = std::make_unique<TranslatedRun>(
      &machine_, TranslatedRun::Options{
                     .arena = place_.arena,
                     .distance = kDistance,
                     .flavour = flavour,
                     .max_instructions = options.max_instructions,
                     .code_at =
                         [this](uint64_t pc) {
                           absl::Span<const uint8_t> all = code();
                           const uint64_t at = pc - place_.code;
                           return at < all.size() ? all.subspan(at) : all.subspan(0, 0);
                         },
                     .operations = options.operations,
                     .order = options.order,
                     .left_to_agent = left_to_agent,
                     .by_any_store = options.by_any_store,
                     .exclusive = options.exclusive,
                     .watches_loads = options.watches_loads,
                     .failing_checks = options.failing_checks,
                     .flush_every = options.flush_every,
                 });
  if (flavour != Flavour::kRecord || (options.exclusive && !options.watches_loads)) return;
  const auto* memory = reinterpret_cast<const uint8_t*>(place_.memory);
  view_ = std::make_unique<TwinView>(absl::MakeConstSpan(memory, kMemoryBytes), kDistance);
  TwinView* view = view_.get();
  translated_->set_on_miss(
      [view](uint64_t address, uint64_t bytes) { return view->Import(address, bytes); });
  if (options.trust_view) {
    translated_->TrustView([this](uint64_t address, uint64_t bytes) { Spoil(address, bytes); },
                           [this] { Unspoil(); });
  }
  Machine::SetRepair([view](uint64_t address) { return view->Repair(address); });
}

TwinRun::~TwinRun() {
  Machine::SetRepair(nullptr);
  view_.reset();
  translated_.reset();
  munmap(reinterpret_cast<void*>(place_.memory), kMemoryBytes);
  munmap(reinterpret_cast<void*>(place_.code), kCodeBytes);
}

// What another thread could do.
void TwinRun::Spoil(uint64_t address, uint64_t bytes) {
  const uint64_t end = std::min(address + bytes, place_.memory + kMemoryBytes);
  spoilt_ = {reinterpret_cast<uint8_t*>(address), end - address};
  for (uint8_t& byte : spoilt_) byte = static_cast<uint8_t>((*random())());
}

// Stores went to both: the view has what memory would have.
void TwinRun::Unspoil() {
  if (spoilt_.empty()) return;
  std::memcpy(spoilt_.data(), spoilt_.data() + kDistance, spoilt_.size());
  spoilt_ = {};
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
  const bool saves = form.decoded.mnemonic == ZYDIS_MNEMONIC_FXSAVE ||
                     form.decoded.mnemonic == ZYDIS_MNEMONIC_FXSAVE64;
  fxsave_at_ = saves ? OperandAddress(form.decoded, form.operands[0]).Compute(registers) : 0;
  split_store_at_ = SplitStoreAt(form, registers);
  open_flags_ = LeavesOverflowOpen(form) ? uint64_t{ZYDIS_CPUFLAG_OF} : 0;
  // This process's own memory, if it is there: it changes between the runs.
  elsewhere_ = !ViewIsWhole() && AimsElsewhere(form, memory(), registers);
  FillMemory();
  const uint64_t completed = completed_;
  if (form.decoded.meta.category == ZYDIS_CATEGORY_POP) KeepFlagsHarmless(registers.gpr[kRsp]);
  TwinResult result = Run(registers, 1000);
  if (ViewIsWhole() && result.difference.empty() && completed_ != completed) {
    result.difference = DescribeUnseen(form, registers);
    if (!result.difference.empty()) result.description = DescribeRegisters(registers);
  }
  if (!result.difference.empty()) {
    result.description = absl::StrCat(place_.name, ": ", Text(form), "\n", result.description);
  }
  return result;
}

// Whether an operand that was read, or written, is not in the view.
std::string TwinRun::DescribeUnseen(const GuestInstruction& form,
                                    const RegisterFile& before) const {
  for (const ZydisDecodedOperand& operand : form.Operands()) {
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY || operand.mem.type != ZYDIS_MEMOP_TYPE_MEM ||
        operand.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN || IsBitTest(form) ||
        RecordClassOf(form) == RecordClass::kNoMemory || StoresPartly(form) ||
        form.decoded.avx.mask.reg > ZYDIS_REGISTER_K0) {
      continue;
    }
    RegisterFile at = before;
    const bool pops = form.decoded.mnemonic == ZYDIS_MNEMONIC_POP;
    if (pops) at.gpr[kRsp] += form.decoded.operand_width == 16 ? 2 : 8;
    const uint64_t address = OperandAddress(form.decoded, operand).Compute(at);
    if (!view_->Shows(address, operand.size / 8)) {
      return absl::StrCat("the view does not show ", absl::Hex(address));
    }
  }
  return "";
}

// Flags that are popped: none that makes this process trap.
void TwinRun::KeepFlagsHarmless(uint64_t stack) {
  constexpr uint64_t kHarmful = 0x100 | 0x4000 | 0x40000 | 0x200000;  // TF, NT, AC, ID
  if (stack < place_.memory || stack + 8 > place_.memory + kMemoryBytes) return;
  uint64_t word;
  std::memcpy(&word, reinterpret_cast<void*>(stack), sizeof(word));
  word &= ~kHarmful;
  std::memcpy(reinterpret_cast<void*>(stack), &word, sizeof(word));
}

GuestStop TwinRun::RunTranslated(const RegisterFile& registers, uint64_t limit) {
  translated_->Flush();
  if (view_ == nullptr) return translated_->Run(registers, limit);
  view_->Begin(random());
  return translated_->Run(registers, limit);
}

TwinResult TwinRun::Run(const RegisterFile& registers, uint64_t limit) {
  const std::vector<uint8_t> before = CopyMemory();
  const Outcome native = RunNatively(registers);
  SetMemory(before);
  const GuestStop translated = RunTranslated(registers, limit);
  if (translated.kind == GuestStop::kInstruction &&
      *reinterpret_cast<const uint8_t*>(translated.registers.rip) != kInt3) {
    ++refused_;
    return {.refused = true};
  }
  ++(native.signal == SIGTRAP ? completed_ : faulted_);
  if (native.signal == SIGTRAP && elsewhere_) return {};
  TwinResult result = {.difference = Compare(native, translated)};
  if (result.difference.empty() && native.signal == SIGTRAP) {
    result.difference = CompareOrder({registers.rip}, translated.count);
  }
  if (result.difference.empty() && ViewIsWhole() && native.signal == SIGTRAP) {
    result.difference = view_->Verify();
  }
  if (result.difference.empty() && emulated_ != nullptr && native.signal == SIGTRAP) {
    result.difference = CompareReplay(registers, before, translated);
  }
  if (!result.difference.empty()) result.description = DescribeRegisters(registers);
  return result;
}

// Whether an access went to this process's own memory, which the view does not have.
bool TwinRun::LeftTheView(const GuestStop& translated) const {
  if (view_ == nullptr || translated.kind != GuestStop::kSignal) return false;
  const uint64_t address = translated.fault_address - kDistance;
  return translated.fault_address == 0 || address < place_.memory ||
         address >= place_.memory + kMemoryBytes;
}

std::string TwinRun::Compare(const Outcome& native, const GuestStop& translated) const {
  const bool stopped = translated.kind == GuestStop::kInstruction;
  if (native.signal == SIGTRAP && LeftTheView(translated)) return "";
  if (!stopped && translated.kind != GuestStop::kSignal) {
    return absl::StrCat("translated code: ", translated.what, " kind ", translated.kind);
  }
  if (stopped != (native.signal == SIGTRAP)) {
    return absl::StrCat("natively signal ", native.signal, " at ", absl::Hex(native.fault_address),
                        ", translated ", translated.signal, " at ",
                        absl::Hex(translated.fault_address));
  }
  // Where an address is not canonical, one relative to rsp or rbp says so by another signal, if the
  // first access has no GS, or is relative to another register.
  const bool not_canonical = translated.fault_address == 0;
  // What this processor does not have faults only after its operand was looked at.
  const bool unknown = view_ != nullptr && native.signal == SIGILL;
  if (unknown) return "";
  if (!stopped && native.signal != translated.signal && !not_canonical) return "another signal";
  return CompareState(native, translated);
}

// What FXSAVE says of the processor; a recording has what all processors have.
void TwinRun::HideMxcsrMask(const Outcome& native, std::vector<uint8_t>* memory) const {
  constexpr uint64_t kMaskAt = 28;
  if (flavour_ != Flavour::kRecord || fxsave_at_ == 0) return;
  const uint64_t at = fxsave_at_ + kMaskAt - place_.memory;
  if (at + 4 > memory->size()) return;
  std::copy_n(native.memory.begin() + at, 4, memory->begin() + at);
}

std::string TwinRun::CompareState(const Outcome& native, const GuestStop& translated) const {
  RegisterFile wanted = native.registers, got = translated.registers;
  // Where x87 instructions lie is visible.
  wanted.fip = got.fip = 0;
  uint64_t ignored = (kStatusFlags & ~translated.flags_exact) | open_flags_;
  if (GuestInstruction at; translated.kind == GuestStop::kSignal && InstructionAt(got.rip, &at)) {
    ClearUpperHalves(at, &wanted);
    ClearUpperHalves(at, &got);
    if (RestoresFlagsAtFault(at)) ignored |= kStatusFlags;
  }
  got.rflags = (got.rflags & ~ignored) | (wanted.rflags & ignored);
  if (!(wanted == got)) {
    Agreement all;
    CHECK(FromWords(std::vector<uint64_t>(kRegisterWords, ~uint64_t{0}), &all.care));
    return absl::StrCat("at ", absl::Hex(got.rip), " signal ", translated.signal, " count ",
                        translated.count, ": ", DescribeDifference(all, wanted, got));
  }
  const bool has_address = native.signal == SIGSEGV || native.signal == SIGBUS;
  // A store that is not possible faults in the view. One that is neither aligned nor possible
  // natively says the former.
  const bool in_view =
      view_ != nullptr && (translated.fault_address == 0 || native.fault_address == 0 ||
                           translated.fault_address - kDistance == native.fault_address);
  // Of a wide operand that ends in a missing page, any byte.
  const uint64_t page = native.fault_address / kPage;
  const bool same_page = page == translated.fault_address / kPage ||
                         page == (translated.fault_address - kDistance) / kPage;
  // Which of two strings faults first differs between processors.
  const bool either = got.rip - place_.code < kCodeBytes &&
                      IsComparedString(native.fault_address, wanted) &&
                      IsComparedString(translated.fault_address, got);
  if (has_address && !in_view && native.fault_address != translated.fault_address &&
      !(view_ != nullptr && same_page) && !either) {
    return absl::StrCat("a fault at ", absl::Hex(native.fault_address), ", translated at ",
                        absl::Hex(translated.fault_address), ", rip ", absl::Hex(got.rip));
  }
  std::vector<uint8_t> memory = CopyMemory();
  HideMxcsrMask(native, &memory);
  const uint64_t split = split_store_at_ - place_.memory;
  if (has_address && split + kSplitStoreBytes <= memory.size()) {
    std::copy_n(native.memory.begin() + split, kSplitStoreBytes, memory.begin() + split);
  }
  if (translated.pushed) {
    const uint64_t at = got.gpr[kRsp] - 8 - place_.memory;
    std::copy_n(native.memory.begin() + at, 8, memory.begin() + at);
  }
  for (size_t i = 0; i < memory.size(); ++i) {
    if (memory[i] == native.memory[i]) continue;
    return absl::StrCat("memory at ", absl::Hex(place_.memory + i), " is ", memory[i],
                        ", natively ", native.memory[i], "; signal ", translated.signal, " at ",
                        absl::Hex(got.rip), " count ", translated.count);
  }
  return "";
}

TwinRun::Outcome TwinRun::StepNatively(const RegisterFile& registers, uint64_t count) {
  Outcome outcome = {.registers = registers};
  while (outcome.signal == 0 && outcome.count < count) {
    const MachineStop stop = machine_.Run(outcome.registers, true);
    if (stop.signal == SIGTRAP) {
      // Each iteration is a step.
      const bool again =
          stop.registers.rip == outcome.registers.rip && IsRepeatedAt(stop.registers.rip);
      if (!again) outcome.pcs.push_back(outcome.registers.rip);
      outcome.registers = stop.registers;
      if (!again) ++outcome.count;
    } else {
      outcome.signal = stop.signal;
      outcome.fault_address = stop.fault_address;
    }
  }
  outcome.memory = CopyMemory();
  return outcome;
}

TwinResult TwinRun::RunProgram(FlowUse use, uint64_t limit) {
  open_flags_ = split_store_at_ = 0;
  elsewhere_ = false;
  const RandomFlow flow(use, place_.code, code().size() / 2, memory(), random());
  std::fill(code().begin(), code().end(), kInt3);
  std::copy(flow.code().begin(), flow.code().end(), code().begin());
  RegisterFile registers = Registers();
  RandomFlow::Aim(memory(), random(), &registers);
  FillMemory();
  // Much of what is popped and jumped to are blocks.
  for (uint64_t at = place_.memory; at < place_.memory + kMemoryBytes; at += 8) {
    if (state_.Below(4) == 0) continue;
    const uint64_t block = flow.blocks()[state_.Below(flow.blocks().size())];
    std::memcpy(reinterpret_cast<void*>(at), &block, sizeof(block));
  }
  registers.rip = flow.blocks()[0];
  const std::vector<uint8_t> before = CopyMemory();
  const GuestStop translated = RunTranslated(registers, limit);
  TwinResult result;
  if (translated.kind == GuestStop::kBroken) {
    result.difference = translated.what;
  } else if (std::equal(flow.code().begin(), flow.code().end(), code().begin())) {
    // What has stored to its own code is not the same program natively.
    if (use == FlowUse::kStepped) result.difference = CompareFlow(registers, before, translated);
    if (result.difference.empty() && emulated_ != nullptr) {
      result.difference = CompareReplay(registers, before, translated);
    }
    ++(translated.kind == GuestStop::kSignal ? faulted_ : completed_);
    steps_ += translated.count;
  }
  if (!result.difference.empty()) {
    result.description =
        absl::StrCat(place_.name, ": ", Listing(flow), DescribeRegisters(registers));
  }
  return result;
}

std::string TwinRun::CompareFlow(const RegisterFile& registers, const std::vector<uint8_t>& before,
                                 const GuestStop& translated) {
  const std::vector<uint8_t> after = CopyMemory();
  SetMemory(before);
  const bool faulted = translated.kind == GuestStop::kSignal;
  const Outcome native = StepNatively(registers, translated.count + (faulted ? 1 : 0));
  SetMemory(after);
  // As in Compare.
  const bool unknown = view_ != nullptr && native.signal == SIGILL;
  const bool elsewhere = native.signal == 0 && LeftTheView(translated);
  if (unknown || elsewhere) return "";
  if (native.signal != translated.signal || native.count != translated.count) {
    return absl::StrCat("natively signal ", native.signal, " after ", native.count, " at ",
                        absl::Hex(native.registers.rip), ", translated ", translated.signal,
                        " after ", translated.count, " at ", absl::Hex(translated.registers.rip),
                        " to ", absl::Hex(translated.fault_address));
  }
  std::string difference = CompareState(native, translated);
  if (difference.empty()) difference = CompareOrder(native.pcs, translated.count);
  if (difference.empty() && ViewIsWhole() && !faulted) difference = view_->Verify();
  return difference;
}

std::string TwinRun::CompareReplay(const RegisterFile& registers,
                                   const std::vector<uint8_t>& before,
                                   const GuestStop& translated) {
  // A fault in the middle of it is a state of its own.
  const bool in_repeated =
      translated.kind == GuestStop::kSignal && IsRepeatedAt(translated.registers.rip);
  if (in_repeated || translated.pushed || LeftTheView(translated)) return "";
  const std::string difference =
      emulated_->Compare(registers, before, code(), translated_->told(), translated, CopyMemory());
  // As LeftTheView.
  return !ViewIsWhole() && emulated_->left_memory() ? "" : difference;
}

std::string TwinRun::CompareOrder(const std::vector<uint64_t>& pcs, uint64_t executed) {
  return order_.Compare(translated_->LockedCounts(), pcs, executed);
}

bool TwinRun::InstructionAt(uint64_t pc, GuestInstruction* at) const {
  if (pc - place_.code >= kCodeBytes) return false;
  const auto* bytes = reinterpret_cast<const uint8_t*>(pc);
  return DecodeGuest(pc, absl::MakeConstSpan(bytes, place_.code + kCodeBytes - pc), at);
}

bool TwinRun::IsRepeatedAt(uint64_t pc) const {
  GuestInstruction at;
  return InstructionAt(pc, &at) && at.decoded.meta.category == ZYDIS_CATEGORY_STRINGOP;
}

}  // namespace hindsight

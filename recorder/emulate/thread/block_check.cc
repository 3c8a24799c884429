#include "recorder/emulate/thread/block_check.h"

#include <Zydis/Zydis.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "isa/decoder.h"
#include "isa/host_registers.h"
#include "recorder/process/rseq.h"

namespace hindsight {
namespace {

// More are not stepped, for each takes some microseconds.
constexpr uint64_t kMaxInstructions = 500;
constexpr int kMaxIterations = 2000;
constexpr size_t kLongest = 15;
// In struct rseq: where the program puts the address of the sequence that it is in.
constexpr uint64_t kRseqSequence = 8, kRseqSequenceEnd = 16;

// They store what the emulator does not keep, the x87's pointers, or what is the host's own.
bool StoresMoreThanIsKept(uint16_t mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXSAVE64:
    case ZYDIS_MNEMONIC_FNSAVE:
    case ZYDIS_MNEMONIC_FNSTENV:
      return true;
    default:
      return false;
  }
}

bool IsComputed(const Instruction& instruction) {
  return instruction.policy == Policy::kEmulate || instruction.policy == Policy::kAssist;
}

// Whether the instruction raised the signal, rather than another thread or process.
bool IsFault(const TraceeStop& stop) {
  siginfo_t info = {};
  if (stop.kind != TraceeStopKind::kSignal || stop.siginfo.size() < sizeof(info)) return false;
  std::memcpy(&info, stop.siginfo.data(), sizeof(info));
  switch (stop.signal) {
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
      return info.si_code > 0;
    default:
      return false;
  }
}

// What is left out anywhere in a piece is left out at its end.
void LeaveOut(const Agreement& agreement, RegisterFile* care) {
  uint64_t to[kRegisterWords], from[kRegisterWords];
  std::memcpy(to, care, sizeof(to));
  std::memcpy(from, &agreement.care, sizeof(from));
  for (size_t i = 0; i < kRegisterWords; ++i) to[i] &= from[i];
  std::memcpy(static_cast<void*>(care), to, sizeof(to));
}

}  // namespace

BlockCheck::Outcome BlockCheck::Run(uint64_t instructions) {
  start_ = cpu_->registers();
  Outcome outcome = RunAndCompare(instructions);
  // The Cpu's pages are read from the process: first those of the start, then what the kernel did.
  hooks_.back_to_start();
  RestoreRseqStores();
  return outcome;
}

BlockCheck::Outcome BlockCheck::RunAndCompare(uint64_t instructions) {
  const uint64_t count = cpu_->count();
  RunOptions options;
  options.limit = count + instructions;
  options.exact_limit = false;
  options.skip_first_breakpoint = true;
  if (cpu_->Run(options).stop == Stop::kFault) return {};
  const uint64_t executed = cpu_->count() - count;
  if (executed == 0 || executed > kMaxInstructions || !hooks_.may_step() || !SavePages()) return {};
  iterations_left_ = kMaxIterations;
  Outcome outcome = Compare(executed);
  if (!Restore() || outcome.verdict != Verdict::kDiffers) return outcome;
  const RegisterFile as_a_whole = cpu_->registers();
  outcome = FindInstruction(executed, as_a_whole);
  Restore();
  return outcome;
}

// The thread executes what the Cpu has executed.
BlockCheck::Outcome BlockCheck::Compare(uint64_t executed) {
  if (!tracee_->SetRegisters(start_)) return {};
  Agreement agreement;
  std::memset(static_cast<void*>(&agreement.care), 0xff, sizeof(agreement.care));
  RegisterFile native = start_;
  for (uint64_t i = 0; i < executed; ++i) {
    Instruction instruction;
    std::vector<uint8_t> code;
    // It may have gone another way than the Cpu.
    if (!Decode(native.rip, &instruction, &code) || !IsComputed(instruction)) {
      return {.verdict = Verdict::kDiffers};
    }
    LeaveOut(AgreementFor(code), &agreement.care);
    switch (StepNatively(instruction, native.rip)) {
      case Stepped::kDone:
        break;
      case Stepped::kNotComparable:
        return {};
      case Stepped::kStopped:
        return Stopped();
    }
    if (!tracee_->GetRegisters(/*vectors=*/i + 1 == executed, &native)) return {};
  }
  const bool same = Agree(agreement, native, cpu_->registers()) && DifferentMemory().empty();
  return {.verdict = same ? Verdict::kAgrees : Verdict::kDiffers};
}

BlockCheck::Outcome BlockCheck::Stopped() {
  if (IsFault(stop_)) return {.verdict = Verdict::kDiffers};
  return {.verdict = Verdict::kInterrupted, .stop = stop_};
}

// The pages are not the start's any more, so both begin anew.
BlockCheck::Outcome BlockCheck::FindInstruction(uint64_t executed, const RegisterFile& as_a_whole) {
  if (!hooks_.back_to_start() || !tracee_->SetRegisters(start_)) return {};
  iterations_left_ = kMaxIterations;
  return StepBoth(executed, as_a_whole);
}

BlockCheck::Outcome BlockCheck::StepBoth(uint64_t executed, const RegisterFile& as_a_whole) {
  bool same_so_far = true;
  for (uint64_t i = 0; i < executed; ++i) {
    const uint64_t pc = cpu_->pc();
    Instruction instruction;
    std::vector<uint8_t> code;
    if (!NextOfCpu(&instruction, &code)) return {};
    if (cpu_->Step().stop != Stop::kLimit || !SavePages()) return {};
    const Stepped stepped = StepNatively(instruction, pc);
    if (stepped == Stepped::kNotComparable) return {};
    if (stepped == Stepped::kStopped) {
      Outcome outcome = Stopped();
      outcome.difference =
          Describe(pc, code, absl::StrCat("raises ", strsignal(stop_.signal), " natively"));
      return outcome;
    }
    RegisterFile native;
    if (!tracee_->GetRegisters(/*vectors=*/true, &native)) return {};
    const Agreement agreement = AgreementFor(code);
    std::string what;
    if (!Agree(agreement, native, cpu_->registers())) {
      what = DescribeDifference(agreement, native, cpu_->registers());
    } else if (instruction.writes_memory) {
      what = DifferentMemory();
    }
    if (!what.empty()) {
      return {.verdict = Verdict::kDiffers, .difference = Describe(pc, code, what)};
    }
    // What is accepted here must not show in what follows.
    if (!(native == cpu_->registers())) {
      same_so_far = false;
      cpu_->SetRegisters(native);
    }
  }
  if (!same_so_far || cpu_->registers() == as_a_whole) return {.verdict = Verdict::kAgrees};
  Agreement all;
  std::memset(static_cast<void*>(&all.care), 0xff, sizeof(all.care));
  return {.verdict = Verdict::kDiffers,
          .difference =
              absl::StrCat("0x", absl::Hex(start_.rip), ": ", executed,
                           " instructions from here, executed as a whole instead of one by one: ",
                           DescribeDifference(all, cpu_->registers(), as_a_whole))};
}

// stop_ is set unless it is done.
BlockCheck::Stepped BlockCheck::StepNatively(const Instruction& instruction, uint64_t pc) {
  // Within a sequence the step itself makes the kernel send the thread elsewhere.
  if (StoresMoreThanIsKept(instruction.mnemonic) || InSequence(pc)) return Stepped::kNotComparable;
  RegisterFile now;
  do {
    if (iterations_left_-- == 0) return Stepped::kNotComparable;
    stop_ = hooks_.step();
    if (stop_.kind != TraceeStopKind::kStepped) return Stepped::kStopped;
    if (!tracee_->GetRegisters(/*vectors=*/false, &now)) return Stepped::kNotComparable;
  } while (instruction.rep && now.rip == pc);
  if (instruction.pushes_flags) ClearTrapFlagAt(now.gpr[kRsp], tracee_);
  return Stepped::kDone;
}

// As the thread sees it.
bool BlockCheck::Decode(uint64_t pc, Instruction* instruction, std::vector<uint8_t>* code) const {
  uint8_t bytes[kLongest];
  size_t length = kLongest;
  if (!tracee_->memory().Read(pc, absl::MakeSpan(bytes))) {
    length = std::min<size_t>(kLongest, kPageBytes - pc % kPageBytes);
    if (!tracee_->memory().Read(pc, absl::MakeSpan(bytes, length))) return false;
  }
  *instruction = Classify(absl::MakeConstSpan(bytes, length));
  code->assign(bytes, bytes + instruction->length);
  return instruction->length != 0;
}

bool BlockCheck::NextOfCpu(Instruction* instruction, std::vector<uint8_t>* code) const {
  const std::optional<Instruction> next = cpu_->next();
  if (!next.has_value() || !IsComputed(*next)) return false;
  *instruction = *next;
  code->resize(next->length);
  return cpu_->ReadHeld(cpu_->pc(), absl::MakeSpan(*code));
}

bool BlockCheck::InSequence(uint64_t pc) const {
  const auto read = [this](uint64_t address, absl::Span<uint8_t> out) {
    return tracee_->memory().Read(address, out);
  };
  return SequenceAt(rseq_, pc, read).has_value();
}

// Those written by the Cpu that are not yet saved. The process has not written them yet.
bool BlockCheck::SavePages() {
  for (const uint64_t address : hooks_.dirty_pages()) {
    const bool known = std::any_of(saved_.begin(), saved_.end(), [address](const SavedPage& page) {
      return page.address == address;
    });
    if (known) continue;
    saved_.push_back({.address = address});
    if (!tracee_->memory().Read(address, absl::MakeSpan(saved_.back().bytes))) {
      saved_.pop_back();
      return false;
    }
  }
  return true;
}

bool BlockCheck::Restore() {
  NoteRseqStores();
  for (const SavedPage& page : saved_) {
    if (!tracee_->memory().Write(page.address, page.bytes)) return false;
  }
  // What the thread's vectors have become is not known before they are looked at.
  RegisterFile now;
  return tracee_->GetRegisters(/*vectors=*/true, &now) && tracee_->SetRegisters(start_);
}

bool BlockCheck::IsInRseq(uint64_t address) const {
  return rseq_ != 0 && address >= rseq_ && address < rseq_ + kRseqBytes;
}

// Differences there are stores of the kernel, which the program may ask for: they stay. But the
// address of a sequence, which the kernel clears, is put back: it would be cleared again.
void BlockCheck::NoteRseqStores() {
  for (const SavedPage& page : saved_) {
    if (rseq_ == 0 || page.address != rseq_ / kPageBytes * kPageBytes) continue;
    const uint8_t* const emulated = cpu_->HostPage(page.address);
    uint8_t native[kRseqBytes];
    if (!tracee_->memory().Read(rseq_, absl::MakeSpan(native))) return;
    for (uint64_t i = 0; i < kRseqBytes; ++i) {
      const bool own = i >= kRseqSequence && i < kRseqSequenceEnd;
      if (!own && native[i] != emulated[rseq_ % kPageBytes + i]) rseq_stores_[i] = native[i];
    }
  }
}

void BlockCheck::RestoreRseqStores() {
  for (uint64_t i = 0; i < kRseqBytes; ++i) {
    if (rseq_stores_[i].has_value()) tracee_->memory().Write(rseq_ + i, {&*rseq_stores_[i], 1});
  }
}

// Empty: what the Cpu wrote, the process has as well.
std::string BlockCheck::DifferentMemory() const {
  for (const SavedPage& page : saved_) {
    uint8_t native[kPageBytes];
    if (!tracee_->memory().Read(page.address, absl::MakeSpan(native))) return "";
    const uint8_t* const emulated = cpu_->HostPage(page.address);
    for (uint64_t i = 0; i < kPageBytes; ++i) {
      const uint64_t address = page.address + i;
      if (emulated[i] == native[i] || IsInRseq(address)) continue;
      return absl::StrCat("memory at 0x", absl::Hex(address), " 0x", absl::Hex(emulated[i]),
                          " (native 0x", absl::Hex(native[i]), ")");
    }
  }
  return "";
}

std::string BlockCheck::Describe(uint64_t pc, const std::vector<uint8_t>& code,
                                 const std::string& what) const {
  const absl::string_view bytes(reinterpret_cast<const char*>(code.data()), code.size());
  return absl::StrCat("0x", absl::Hex(pc), " ", absl::BytesToHexString(bytes), " (",
                      Disassembly(pc, code), "): ", what);
}

}  // namespace hindsight

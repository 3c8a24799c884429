#include "recorder/ptrace/watch/step_over.h"

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <limits>

#include "isa/decoder.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/process_memory.h"
#include "recorder/ptrace/thread_stop.h"
#include "recorder/ptrace/wait_status.h"

namespace hindsight {
namespace {

constexpr size_t kLongestInstruction = 15;
constexpr int kMostRepetitions = 1 << 20;
constexpr uint64_t kTrapFlag = 0x100;

constexpr uint64_t Bit(int signal) { return uint64_t{1} << (signal - 1); }
// What an instruction can raise: blocked, the kernel would force it and take the program's handler
// away.
constexpr uint64_t kOfInstructions =
    Bit(SIGSEGV) | Bit(SIGBUS) | Bit(SIGILL) | Bit(SIGFPE) | Bit(SIGTRAP) | Bit(SIGSYS);

bool IsStepTrap(pid_t thread) {
  siginfo_t info = {};
  return ptrace(PTRACE_GETSIGINFO, thread, nullptr, &info) == 0 && info.si_signo == SIGTRAP &&
         info.si_code > 0 && info.si_code != SI_KERNEL;
}

// An instruction, and what it needs to be executed elsewhere.
struct Moved {
  std::vector<uint8_t> code;
  size_t length = 0;
  bool pushes_return = false;    // a call
  bool absolute_target = false;  // goes where no address of the instruction matters
  bool pushes_flags = false;
  std::optional<size_t> relative;  // the offset of a displacement relative to the next instruction
};

std::optional<Moved> Analyze(std::vector<uint8_t> code) {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!Decode(code, &instruction, operands)) return std::nullopt;
  Moved moved;
  moved.length = instruction.length;
  code.resize(instruction.length);
  moved.code = std::move(code);
  const auto category = instruction.meta.category;
  const bool is_branch = category == ZYDIS_CATEGORY_CALL || category == ZYDIS_CATEGORY_RET ||
                         category == ZYDIS_CATEGORY_UNCOND_BR || category == ZYDIS_CATEGORY_COND_BR;
  if (instruction.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR) return std::nullopt;
  moved.pushes_return = category == ZYDIS_CATEGORY_CALL;
  moved.absolute_target = is_branch && !instruction.raw.imm[0].is_relative;
  moved.pushes_flags =
      instruction.mnemonic == ZYDIS_MNEMONIC_PUSHFQ || instruction.mnemonic == ZYDIS_MNEMONIC_PUSHF;
  for (size_t i = 0; i < instruction.operand_count; ++i) {
    if (operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
        operands[i].mem.base == ZYDIS_REGISTER_RIP) {
      if (instruction.raw.disp.size != 32) return std::nullopt;
      moved.relative = instruction.raw.disp.offset;
    }
  }
  return moved;
}

// The code for `scratch`; nullopt: what it refers to is too far from there.
std::optional<std::vector<uint8_t>> CodeFor(const Moved& moved, uint64_t address,
                                            uint64_t scratch) {
  std::vector<uint8_t> code = moved.code;
  if (!moved.relative.has_value()) return code;
  int32_t displacement;
  memcpy(&displacement, code.data() + *moved.relative, sizeof(displacement));
  const int64_t wanted = displacement + static_cast<int64_t>(address - scratch);
  if (wanted < std::numeric_limits<int32_t>::min() ||
      wanted > std::numeric_limits<int32_t>::max()) {
    return std::nullopt;
  }
  displacement = static_cast<int32_t>(wanted);
  memcpy(code.data() + *moved.relative, &displacement, sizeof(displacement));
  return code;
}

// After the step: as if the instruction had been executed at `address`.
void SetRight(pid_t thread, const Moved& moved, uint64_t address, uint64_t scratch) {
  user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) return;
  const uint64_t distance = address - scratch;
  const bool executed = registers.rip != scratch;
  if (!executed || !moved.absolute_target) registers.rip += distance;
  if (executed && moved.pushes_return) {
    const uint64_t after = address + moved.length;
    ProcMemFile(thread).Write(registers.rsp,
                              {reinterpret_cast<const uint8_t*>(&after), sizeof(after)});
  }
  ptrace(PTRACE_SETREGS, thread, nullptr, &registers);
}

void ClearPushedTrapFlag(pid_t thread) {
  user_regs_struct registers;
  uint64_t flags = 0;
  ProcMemFile memory(thread);
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0 ||
      !memory.Read(registers.rsp, {reinterpret_cast<uint8_t*>(&flags), 2})) {
    return;
  }
  flags &= ~kTrapFlag;
  memory.Write(registers.rsp, {reinterpret_cast<const uint8_t*>(&flags), 2});
}

}  // namespace

StepEnd StepInstruction(pid_t thread) {
  user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) return {.alive = false};
  const uint64_t start = registers.rip;
  uint64_t mask = 0;
  const uint64_t open = ~kOfInstructions;
  ptrace(PTRACE_GETSIGMASK, thread, sizeof(mask), &mask);
  ptrace(PTRACE_SETSIGMASK, thread, sizeof(open), &open);
  StepEnd end;
  bool sigstop = false, stepped = false;
  for (int steps = 0; steps < kMostRepetitions && !stepped && !end.other.has_value(); ++steps) {
    std::optional<WaitStatus> status;
    end.alive = ptrace(PTRACE_SINGLESTEP, thread, nullptr, nullptr) == 0 &&
                (status = WaitForAnyStop(thread)).has_value() &&
                ptrace(PTRACE_GETREGS, thread, nullptr, &registers) == 0;
    if (!end.alive) return end;
    if (status->signal_to_deliver() == SIGSTOP) {  // no mask keeps this one out
      sigstop = true;
    } else if (status->kind == WaitStatus::Kind::kSignal && !IsStepTrap(thread)) {
      end.other = status->raw;
    } else {
      stepped = registers.rip != start;
    }
  }
  ptrace(PTRACE_SETSIGMASK, thread, sizeof(mask), &mask);
  if (!end.other.has_value()) end.other = LeaveStepTrap(thread);
  if (sigstop) syscall(SYS_tkill, thread, SIGSTOP);
  return end;
}

std::vector<uint64_t> ScratchPlaces(pid_t thread) {
  std::vector<uint64_t> places;
  const std::vector<uint64_t> auxv = AuxiliaryVector(thread);
  const ProcMemFile memory(thread);
  for (size_t i = 0; i + 1 < auxv.size(); i += 2) {
    if (auxv[i] == AT_ENTRY) places.push_back(auxv[i + 1]);
    if (auxv[i] != AT_BASE || auxv[i + 1] == 0) continue;
    Elf64_Ehdr header;
    if (memory.Read(auxv[i + 1], {reinterpret_cast<uint8_t*>(&header), sizeof(header)})) {
      places.push_back(auxv[i + 1] + header.e_entry);
    }
  }
  return places;
}

std::optional<StepEnd> StepElsewhere(pid_t thread, uint64_t address, const CodePlaces& places,
                                     const std::vector<uint64_t>& scratch) {
  const std::optional<Moved> moved = Analyze(places.ReadCode(thread, address, kLongestInstruction));
  if (!moved.has_value()) return std::nullopt;
  ProcMemFile memory(thread);
  for (const uint64_t place : scratch) {
    std::vector<uint8_t> saved(moved->length);
    const std::optional<std::vector<uint8_t>> code = CodeFor(*moved, address, place);
    if (!code.has_value() || places.AnyIn(place, place + moved->length) ||
        (address < place + moved->length && place < address + moved->length) ||
        !memory.Read(place, absl::MakeSpan(saved)) || !memory.Write(place, *code)) {
      continue;
    }
    user_regs_struct registers;
    StepEnd end = {.alive = ptrace(PTRACE_GETREGS, thread, nullptr, &registers) == 0};
    registers.rip = place;
    if (end.alive) end.alive = ptrace(PTRACE_SETREGS, thread, nullptr, &registers) == 0;
    if (end.alive) end = StepInstruction(thread);
    if (end.alive) SetRight(thread, *moved, address, place);
    if (end.alive && moved->pushes_flags) ClearPushedTrapFlag(thread);
    memory.Write(place, saved);
    return end;
  }
  return std::nullopt;
}

}  // namespace hindsight

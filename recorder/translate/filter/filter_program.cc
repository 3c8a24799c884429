#include "recorder/translate/filter/filter_program.h"

namespace hindsight {
namespace {

constexpr uint32_t kWordBits = 32;

// Of what a program loads.
using Word __attribute__((may_alias)) = uint32_t;

// A constant that the operation cannot have.
bool IsValidOperation(const sock_filter& instruction) {
  const bool constant = BPF_SRC(instruction.code) == BPF_K;
  switch (BPF_OP(instruction.code)) {
    case BPF_ADD:
    case BPF_SUB:
    case BPF_MUL:
    case BPF_AND:
    case BPF_OR:
    case BPF_XOR:
      return true;
    case BPF_DIV:
      return !constant || instruction.k != 0;
    case BPF_LSH:
    case BPF_RSH:
      return !constant || instruction.k < kWordBits;
    case BPF_NEG:
      return constant;
    default:
      return false;
  }
}

// `left`: instructions that follow.
bool IsValidJump(const sock_filter& instruction, uint32_t left) {
  switch (BPF_OP(instruction.code)) {
    case BPF_JA:
      return BPF_SRC(instruction.code) == BPF_K && instruction.k < left;
    case BPF_JEQ:
    case BPF_JGE:
    case BPF_JGT:
    case BPF_JSET:
      return instruction.jt < left && instruction.jf < left;
    default:
      return false;
  }
}

bool IsValidInstruction(const sock_filter& instruction, uint32_t left) {
  if (instruction.code > 0xff) return false;
  switch (instruction.code) {
    case BPF_LD | BPF_W | BPF_ABS:
      return instruction.k < sizeof(seccomp_data) && instruction.k % 4 == 0;
    case BPF_LD | BPF_W | BPF_LEN:
    case BPF_LDX | BPF_W | BPF_LEN:
    case BPF_LD | BPF_IMM:
    case BPF_LDX | BPF_IMM:
    case BPF_RET | BPF_K:
    case BPF_RET | BPF_A:
    case BPF_MISC | BPF_TAX:
    case BPF_MISC | BPF_TXA:
      return true;
    case BPF_LD | BPF_MEM:
    case BPF_LDX | BPF_MEM:
    case BPF_ST:
    case BPF_STX:
      return instruction.k < BPF_MEMWORDS;
    default:
      break;
  }
  // The bits above those of the operation and of its source are part of the operation.
  if (BPF_CLASS(instruction.code) == BPF_ALU) return IsValidOperation(instruction);
  return BPF_CLASS(instruction.code) == BPF_JMP && IsValidJump(instruction, left);
}

// Every word is stored before it is loaded, on all ways.
bool LoadsWhatWasStored(const sock_filter* program, uint32_t size) {
  uint16_t reaching[BPF_MAXINSNS];
  for (uint16_t& words : reaching) words = 0xffff;
  uint16_t stored = 0;
  for (uint32_t at = 0; at < size; ++at) {
    const sock_filter& instruction = program[at];
    stored &= reaching[at];
    const auto bit = static_cast<uint16_t>(1 << (instruction.k % BPF_MEMWORDS));
    if (instruction.code == BPF_ST || instruction.code == BPF_STX) {
      stored |= bit;
    } else if (instruction.code == (BPF_LD | BPF_MEM) || instruction.code == (BPF_LDX | BPF_MEM)) {
      if ((stored & bit) == 0) return false;
    } else if (BPF_CLASS(instruction.code) == BPF_JMP) {
      const bool always = BPF_OP(instruction.code) == BPF_JA;
      reaching[at + 1 + (always ? instruction.k : instruction.jt)] &= stored;
      if (!always) reaching[at + 1 + instruction.jf] &= stored;
      stored = 0xffff;
    }
  }
  return true;
}

struct Machine {
  uint32_t a, x;
  uint32_t memory[BPF_MEMWORDS];
};

// False: a division by zero, which ends the program.
bool Compute(const sock_filter& instruction, Machine* machine) {
  const uint32_t b = BPF_SRC(instruction.code) == BPF_X ? machine->x : instruction.k;
  uint32_t& a = machine->a;
  switch (BPF_OP(instruction.code)) {
    case BPF_ADD:
      a += b;
      return true;
    case BPF_SUB:
      a -= b;
      return true;
    case BPF_MUL:
      a *= b;
      return true;
    case BPF_DIV:
      if (b == 0) return false;
      a /= b;
      return true;
    case BPF_AND:
      a &= b;
      return true;
    case BPF_OR:
      a |= b;
      return true;
    case BPF_XOR:
      a ^= b;
      return true;
    case BPF_LSH:
      a <<= b % kWordBits;
      return true;
    case BPF_RSH:
      a >>= b % kWordBits;
      return true;
    default:  // BPF_NEG
      a = 0 - a;
      return true;
  }
}

// How many instructions are passed over.
uint32_t Jump(const sock_filter& instruction, const Machine& machine) {
  const uint32_t b = BPF_SRC(instruction.code) == BPF_X ? machine.x : instruction.k;
  bool taken = false;
  switch (BPF_OP(instruction.code)) {
    case BPF_JA:
      return instruction.k;
    case BPF_JEQ:
      taken = machine.a == b;
      break;
    case BPF_JGT:
      taken = machine.a > b;
      break;
    case BPF_JGE:
      taken = machine.a >= b;
      break;
    default:  // BPF_JSET
      taken = (machine.a & b) != 0;
      break;
  }
  return taken ? instruction.jt : instruction.jf;
}

void Load(const sock_filter& instruction, const seccomp_data& data, Machine* machine) {
  uint32_t value = instruction.k;
  switch (BPF_MODE(instruction.code)) {
    case BPF_ABS:
      value = reinterpret_cast<const Word*>(&data)[instruction.k / sizeof(Word)];
      break;
    case BPF_LEN:
      value = sizeof(seccomp_data);
      break;
    case BPF_MEM:
      value = machine->memory[instruction.k];
      break;
    default:  // BPF_IMM
      break;
  }
  (BPF_CLASS(instruction.code) == BPF_LD ? machine->a : machine->x) = value;
}

}  // namespace

bool IsValidFilter(const sock_filter* program, uint32_t size) {
  if (size == 0 || size > BPF_MAXINSNS) return false;
  for (uint32_t at = 0; at < size; ++at) {
    if (!IsValidInstruction(program[at], size - at - 1)) return false;
  }
  return BPF_CLASS(program[size - 1].code) == BPF_RET && LoadsWhatWasStored(program, size);
}

uint32_t RunFilter(const sock_filter* program, const seccomp_data& data) {
  Machine machine = {};
  for (const sock_filter* at = program;; ++at) {
    switch (BPF_CLASS(at->code)) {
      case BPF_LD:
      case BPF_LDX:
        Load(*at, data, &machine);
        break;
      case BPF_ST:
        machine.memory[at->k] = machine.a;
        break;
      case BPF_STX:
        machine.memory[at->k] = machine.x;
        break;
      case BPF_ALU:
        if (!Compute(*at, &machine)) return 0;
        break;
      case BPF_JMP:
        at += Jump(*at, machine);
        break;
      case BPF_RET:
        return BPF_RVAL(at->code) == BPF_A ? machine.a : at->k;
      default:  // BPF_MISC
        if (BPF_MISCOP(at->code) == BPF_TAX) {
          machine.x = machine.a;
        } else {
          machine.a = machine.x;
        }
        break;
    }
  }
}

}  // namespace hindsight

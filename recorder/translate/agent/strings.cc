#include "recorder/translate/agent/strings.h"

#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/system.h"

namespace hindsight::agent {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kDirection = 0x400, kZero = 0x40, kStatus = 0x8d5;

enum class Operation : uint8_t { kMove, kCompare, kStore, kLoad, kScan };

struct StringInstruction {
  Operation operation = Operation::kMove;
  uint64_t bytes = 1;  // of an element
  bool repeated = false;
  bool while_equal = false;
};

bool Decode(const uint8_t* code, uint64_t size, StringInstruction* out) {
  uint64_t i = 0;
  bool word = false, wide = false;
  for (; i + 1 < size; ++i) {
    if (code[i] == 0xf3 || code[i] == 0xf2) {
      out->repeated = true;
      out->while_equal = code[i] == 0xf3;
    } else if (code[i] == 0x66) {
      word = true;
    } else if ((code[i] & 0xf0) == 0x40) {
      wide = (code[i] & 8) != 0;
    } else {
      return false;
    }
  }
  const uint8_t opcode = code[i];
  if ((opcode & 1) != 0) out->bytes = wide ? 8 : word ? 2 : 4;
  switch (opcode & 0xfe) {
    case 0xa4:
      out->operation = Operation::kMove;
      return true;
    case 0xa6:
      out->operation = Operation::kCompare;
      return true;
    case 0xaa:
      out->operation = Operation::kStore;
      return true;
    case 0xac:
      out->operation = Operation::kLoad;
      return true;
    case 0xae:
      out->operation = Operation::kScan;
      return true;
    default:
      return false;
  }
}

uint64_t Get(uint64_t address, uint64_t bytes) {
  uint64_t value = 0;
  memcpy(&value, PointerTo<void>(address), bytes);
  return value;
}

void Put(uint64_t address, uint64_t value, uint64_t bytes) {
  memcpy(PointerTo<void>(address), &value, bytes);
}

// The status flags of comparing elements.
uint64_t Compare(uint64_t a, uint64_t b, uint64_t bytes) {
  const uint64_t shift = 64 - 8 * bytes;
  uint64_t flags;
  asm("cmpq %2, %1\n\tpushfq\n\tpopq %0" : "=r"(flags) : "r"(a << shift), "r"(b << shift) : "cc");
  // AF is of the lowest four bits of the element.
  const uint64_t low = ((a & 15) < (b & 15)) ? 0x10 : 0;
  const uint64_t parity_bits = (a - b) & 0xff;
  const uint64_t parity = (__builtin_parity(static_cast<unsigned>(parity_bits)) == 0) ? 4 : 0;
  return (flags & kStatus & ~uint64_t{0x14}) | low | parity;
}

uint64_t UpToPageEnd(uint64_t address, uint64_t bytes) {
  const uint64_t left = kPageBytes - address % kPageBytes;
  return left < bytes ? 1 : left / bytes;
}

uint64_t Less(uint64_t a, uint64_t b) { return a < b ? a : b; }

struct Uses {
  bool source, target, writes;
};

Uses UsesOf(Operation operation) {
  switch (operation) {
    case Operation::kMove:
      return {true, true, true};
    case Operation::kCompare:
      return {true, true, false};
    case Operation::kStore:
      return {false, true, true};
    case Operation::kLoad:
      return {true, false, false};
    default:
      return {false, true, false};
  }
}

// One run of elements within pages; how many were done. `stop`: the condition is met.
uint64_t Run(Thread* thread, const StringInstruction& instruction, uint64_t count, bool* stop) {
  uint64_t* r = thread->registers;
  const uint64_t distance = DistanceOf(thread->number), bytes = instruction.bytes;
  const Uses uses = UsesOf(instruction.operation);
  uint64_t source = r[kRsi] + distance, target = r[kRdi] + distance;
  uint64_t done = 0;
  while (done < count && !*stop) {
    switch (instruction.operation) {
      case Operation::kMove:
        Put(target, Get(source, bytes), bytes);
        break;
      case Operation::kStore:
        Put(target, r[kRax], bytes);
        break;
      case Operation::kLoad:
        memcpy(&r[kRax], PointerTo<void>(source), bytes);
        if (bytes == 4) r[kRax] &= 0xffffffff;
        break;
      case Operation::kCompare:
      case Operation::kScan: {
        const uint64_t a = instruction.operation == Operation::kScan ? r[kRax] : Get(source, bytes);
        const uint64_t flags = Compare(a, Get(target, bytes), bytes);
        thread->flags = (thread->flags & ~kStatus) | flags;
        *stop = instruction.repeated && ((flags & kZero) != 0) != instruction.while_equal;
        break;
      }
    }
    source += bytes;
    target += bytes;
    ++done;
  }
  if (uses.writes) {
    CopyGuest(PointerTo<void>(r[kRdi]), PointerTo<void>(r[kRdi] + distance), done * bytes);
  }
  if (uses.source) r[kRsi] += done * bytes;
  if (uses.target) r[kRdi] += done * bytes;
  return done;
}

}  // namespace

bool ExecuteString(Thread* thread, uint64_t size) {
  StringInstruction instruction;
  if (!Decode(PointerTo<const uint8_t>(thread->pc), size, &instruction)) return false;
  if ((thread->flags & kDirection) != 0) return false;
  uint64_t* r = thread->registers;
  const Uses uses = UsesOf(instruction.operation);
  bool stop = false;
  while (!stop) {
    uint64_t count = instruction.repeated ? r[kRcx] : 1;
    if (count == 0) break;
    if (uses.source) count = Less(count, UpToPageEnd(r[kRsi], instruction.bytes));
    if (uses.target) count = Less(count, UpToPageEnd(r[kRdi], instruction.bytes));
    const uint64_t bytes = count * instruction.bytes;
    if (uses.source && !TakeRead(thread, r[kRsi], bytes)) return false;
    if (uses.target && !TakeRead(thread, r[kRdi], bytes)) return false;
    const uint64_t done = Run(thread, instruction, count, &stop);
    if (!instruction.repeated) break;
    r[kRcx] -= done;
  }
  thread->pc += size;
  ++thread->count;
  return true;
}

bool ExecuteFloatState(Thread* thread, uint64_t size) {
  const auto* code = PointerTo<const uint8_t>(thread->pc);
  const bool wide = (code[0] & 0xf8) == 0x48;
  const uint8_t* opcode = (code[0] & 0xf0) == 0x40 ? code + 1 : code;
  if (opcode[0] != 0x0f || opcode[1] != 0xae || (opcode[2] & 0xc0) == 0xc0) return false;
  const int which = opcode[2] >> 3 & 7;
  const uint64_t address = thread->block->exit_address;
  constexpr uint64_t kBytes = 512;
  if (which > 1 || address % 16 != 0 || !TakeRead(thread, address, kBytes)) return false;
  auto* seen = PointerTo<uint8_t>(address + DistanceOf(thread->number));
  if (which == 0) {
    RecordCorrection(thread);
    if (wide) {
      asm volatile("fxsave64 (%0)" ::"r"(seen) : "memory");
    } else {
      asm volatile("fxsave (%0)" ::"r"(seen) : "memory");
    }
    if (!CopyGuest(PointerTo<void>(address), seen, kBytes)) return false;
  } else if (wide) {
    asm volatile("fxrstor64 (%0)" ::"r"(seen) : "memory");
  } else {
    asm volatile("fxrstor (%0)" ::"r"(seen) : "memory");
  }
  thread->pc += size;
  ++thread->count;
  return true;
}

}  // namespace hindsight::agent

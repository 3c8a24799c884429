#include "translator/runtime/operation.h"

#include <stdbool.h>

#include "translator/runtime/arithmetic.h"
#include "translator/runtime/guest_memory.h"
#include "translator/runtime/strings.h"

enum { kRaxNumber = 0, kRcxNumber = 1, kRdxNumber = 2, kRbxNumber = 3 };

// Two words; of operands up to 8 bytes the second is 0.
struct Value {
  uint64_t low, high;
};

static bool Same(struct Value a, struct Value b) { return a.low == b.low && a.high == b.high; }

static uint64_t ReadRegister(const struct HsOperationRegisters* registers, int source, int bytes) {
  if ((source & HS_SOURCE_HIGH) != 0) return registers->gpr[source & 3] >> 8 & 0xff;
  return HsLow(registers->gpr[source], bytes);
}

static void WriteRegister(struct HsOperationRegisters* registers, int source, uint64_t value,
                          int bytes) {
  if ((source & HS_SOURCE_HIGH) != 0) {
    uint64_t* word = &registers->gpr[source & 3];
    *word = (*word & ~UINT64_C(0xff00)) | (value & 0xff) << 8;
    return;
  }
  uint64_t* word = &registers->gpr[source];
  *word = bytes >= 4 ? HsLow(value, bytes)
                     : (*word & ~HsLow(~UINT64_C(0), bytes)) | HsLow(value, bytes);
}

static uint64_t SourceOf(const struct HsOperation* operation,
                         const struct HsOperationRegisters* registers) {
  if (operation->source == HS_SOURCE_IMMEDIATE) {
    return HsLow((uint64_t)operation->immediate, operation->bytes);
  }
  return ReadRegister(registers, operation->source, operation->bytes);
}

// bts and so on: the bit's number within the operand.
static uint64_t BitOf(const struct HsOperation* operation,
                      const struct HsOperationRegisters* registers) {
  return SourceOf(operation, registers) % (8 * (uint64_t)operation->bytes);
}

static uint64_t ChangeBit(int kind, uint64_t old, uint64_t bit, uint64_t* flags) {
  const uint64_t mask = UINT64_C(1) << bit;
  *flags = (*flags & ~(uint64_t)kHsCarry) | ((old & mask) != 0 ? kHsCarry : 0);
  return kind == kHsBts   ? old | mask
         : kind == kHsBtr ? old & ~mask
         : kind == kHsBtc ? old ^ mask
                          : old;
}

// What memory is to hold instead of `old`, and the flags.
static uint64_t Compute(const struct HsOperation* operation,
                        const struct HsOperationRegisters* registers, uint64_t old,
                        uint64_t* flags) {
  const int bytes = operation->bytes;
  const uint64_t source = operation->kind <= kHsCmpxchg ? SourceOf(operation, registers) : 0;
  const uint64_t carry = *flags & kHsCarry;
  uint64_t result;
  switch (operation->kind) {
    case kHsAdd:
    case kHsXadd:
      return HsAddWithFlags(old, source, 0, bytes, flags);
    case kHsAdc:
      return HsAddWithFlags(old, source, carry, bytes, flags);
    case kHsSub:
      return HsSubtractWithFlags(old, source, 0, bytes, flags);
    case kHsSbb:
      return HsSubtractWithFlags(old, source, carry, bytes, flags);
    case kHsAnd:
    case kHsOr:
    case kHsXor:
      result = operation->kind == kHsAnd  ? old & source
               : operation->kind == kHsOr ? old | source
                                          : old ^ source;
      *flags = HsLogicFlags(result, bytes, *flags);
      return result;
    case kHsInc:
      result = HsAddWithFlags(old, 1, 0, bytes, flags);
      *flags = (*flags & ~(uint64_t)kHsCarry) | carry;
      return result;
    case kHsDec:
      result = HsSubtractWithFlags(old, 1, 0, bytes, flags);
      *flags = (*flags & ~(uint64_t)kHsCarry) | carry;
      return result;
    case kHsNot:
      return HsLow(~old, bytes);
    case kHsNeg:
      return HsSubtractWithFlags(0, old, 0, bytes, flags);
    case kHsCmpxchg:
      HsSubtractWithFlags(ReadRegister(registers, kRaxNumber, bytes), old, 0, bytes, flags);
      return (*flags & kHsZero) != 0 ? source : old;
    case kHsXchg:
      return source;
    default:
      return ChangeBit(operation->kind, old, BitOf(operation, registers), flags);
  }
}

// The registers that become `old`.
static void Deliver(const struct HsOperation* operation, uint64_t old, uint64_t flags,
                    struct HsOperationRegisters* registers) {
  const int bytes = operation->bytes;
  if (operation->kind == kHsXadd || operation->kind == kHsXchg) {
    WriteRegister(registers, operation->source, old, bytes);
  } else if (operation->kind == kHsCmpxchg && (flags & kHsZero) == 0) {
    WriteRegister(registers, kRaxNumber, old, bytes);
  }
  registers->rflags = flags;
}

static struct Value ComputePair(const struct HsOperation* operation,
                                const struct HsOperationRegisters* registers, struct Value old,
                                uint64_t* flags) {
  const uint64_t* gpr = registers->gpr;
  const int half = operation->bytes / 2;
  struct Value expected = {HsLow(gpr[kRaxNumber], half), HsLow(gpr[kRdxNumber], half)};
  struct Value wanted = {HsLow(gpr[kRbxNumber], half), HsLow(gpr[kRcxNumber], half)};
  if (half == 4) {
    expected = (struct Value){expected.low | expected.high << 32, 0};
    wanted = (struct Value){wanted.low | wanted.high << 32, 0};
  }
  const bool same = Same(old, expected);
  *flags = (*flags & ~(uint64_t)kHsZero) | (same ? kHsZero : 0);
  return same ? wanted : old;
}

static void DeliverPair(const struct HsOperation* operation, struct Value old, uint64_t flags,
                        struct HsOperationRegisters* registers) {
  registers->rflags = flags;
  if ((flags & kHsZero) != 0) return;
  const bool wide = operation->bytes == 16;
  registers->gpr[kRaxNumber] = wide ? old.low : (uint32_t)old.low;
  registers->gpr[kRdxNumber] = wide ? old.high : old.low >> 32;
}

// Puts `wanted` where *old is; false: it is not, and *old is what is there.
static bool Replace(uint64_t address, int bytes, struct Value* old, struct Value wanted) {
  bool done;
  switch (bytes) {
    case 1:
      __asm__ volatile("lock cmpxchgb %b3, %1"
                       : "=@ccz"(done), "+m"(*(volatile uint8_t*)address), "+a"(old->low)
                       : "q"(wanted.low)
                       : "memory");
      old->low = HsLow(old->low, bytes);
      break;
    case 2:
      __asm__ volatile("lock cmpxchgw %w3, %1"
                       : "=@ccz"(done), "+m"(*(volatile uint16_t*)address), "+a"(old->low)
                       : "r"(wanted.low)
                       : "memory");
      old->low = HsLow(old->low, bytes);
      break;
    case 4:
      __asm__ volatile("lock cmpxchgl %k3, %1"
                       : "=@ccz"(done), "+m"(*(volatile uint32_t*)address), "+a"(old->low)
                       : "r"(wanted.low)
                       : "memory");
      old->low = HsLow(old->low, bytes);
      break;
    case 8:
      __asm__ volatile("lock cmpxchgq %3, %1"
                       : "=@ccz"(done), "+m"(*(volatile uint64_t*)address), "+a"(old->low)
                       : "r"(wanted.low)
                       : "memory");
      break;
    default:
      __asm__ volatile("lock cmpxchg16b %1"
                       : "=@ccz"(done), "+m"(*(volatile struct Value*)address), "+a"(old->low),
                         "+d"(old->high)
                       : "b"(wanted.low), "c"(wanted.high)
                       : "memory");
      break;
  }
  return done;
}

static struct Value LoadValue(uint64_t address, int bytes) {
  if (bytes < 16) return (struct Value){HsLoad(address, bytes), 0};
  return (struct Value){HsLoad(address, 8), HsLoad(address + 8, 8)};
}

static void StoreValue(uint64_t address, struct Value value, int bytes) {
  HsStore(address, value.low, bytes < 16 ? bytes : 8);
  if (bytes == 16) HsStore(address + 8, value.high, 8);
}

// The address of the operand that holds the bit, which may lie far from `address`.
static uint64_t BitAddress(const struct HsOperation* operation,
                           const struct HsOperationRegisters* registers, uint64_t address) {
  const bool moves = operation->kind >= kHsBt && operation->kind <= kHsBtc &&
                     operation->source != HS_SOURCE_IMMEDIATE;
  if (!moves) return address;
  const int bits = 8 * operation->bytes;
  int64_t number = (int64_t)registers->gpr[operation->source];
  if (bits == 16) number = (int16_t)number;
  if (bits == 32) number = (int32_t)number;
  address += (uint64_t)((number >> (bits == 16 ? 4 : bits == 32 ? 5 : 6)) * operation->bytes);
  return operation->narrow ? (uint32_t)address : address;
}

// Memory had `old` and has `wanted`.
static void ChangeView(uint64_t address, int bytes, struct Value old, struct Value wanted,
                       const struct HsOperationHooks* hooks) {
  if (hooks->distance == 0) return;
  const uint64_t view = address + hooks->distance;
  const struct Value seen = LoadValue(view, bytes);
  // At once: others look there for what this thread has stored.
  StoreValue(view, wanted, bytes);
  if (!Same(seen, old)) hooks->import_old(hooks->context, address, (uint64_t)bytes, &old);
}

static void RunUpdate(const struct HsOperation* operation, uint64_t address,
                      struct HsOperationRegisters* registers,
                      const struct HsOperationHooks* hooks) {
  const int bytes = operation->bytes;
  const bool pair = operation->kind == kHsCmpxchgPair;
  struct Value old = {0, 0}, wanted;
  // Where 16 bytes are not aligned it is Replace that faults: it says what is there as well.
  if (bytes < 16 || hooks->distance != 0) old = LoadValue(address, bytes);
  // The page comes into the view as it is before the operation.
  if (hooks->distance != 0) LoadValue(address + hooks->distance, bytes);
  uint64_t flags;
  do {
    flags = registers->rflags;
    if (pair) {
      wanted = ComputePair(operation, registers, old, &flags);
    } else {
      wanted = (struct Value){Compute(operation, registers, old.low, &flags), 0};
    }
  } while (!Replace(address, bytes, &old, wanted));
  if (operation->locked && hooks->locked != 0) hooks->locked(hooks->context, address);
  ChangeView(address, bytes, old, wanted, hooks);
  if (pair) {
    DeliverPair(operation, old, flags, registers);
  } else {
    Deliver(operation, old.low, flags, registers);
  }
}

static void RunBitTest(const struct HsOperation* operation, uint64_t address,
                       struct HsOperationRegisters* registers,
                       const struct HsOperationHooks* hooks) {
  HsCheck(address, operation->bytes, hooks);
  ChangeBit(kHsBt, HsLoad(address + hooks->distance, operation->bytes), BitOf(operation, registers),
            &registers->rflags);
}

static void RunFence(const struct HsOperation* operation, const struct HsOperationHooks* hooks) {
  if (operation->kind == kHsLfence) {
    __asm__ volatile("lfence" ::: "memory");
  } else if (operation->kind == kHsSfence) {
    __asm__ volatile("sfence" ::: "memory");
  } else {
    __asm__ volatile("mfence" ::: "memory");
  }
  if (hooks->locked != 0) hooks->locked(hooks->context, 0);
}

void HsRunOperation(const struct HsOperation* operation, uint64_t address,
                    struct HsOperationRegisters* registers, const struct HsOperationHooks* hooks) {
  if (operation->kind == kHsCorrection) return;
  if (operation->kind >= kHsMfence) return RunFence(operation, hooks);
  if (operation->kind >= kHsMovs) return HsRunString(operation, registers, hooks);
  address = BitAddress(operation, registers, address);
  if (operation->kind == kHsBt) return RunBitTest(operation, address, registers, hooks);
  RunUpdate(operation, address, registers, hooks);
}

void HsFinishOperation(const struct HsOperation* operation, uint64_t address, uint64_t old,
                       struct HsOperationRegisters* registers,
                       const struct HsOperationHooks* hooks) {
  const struct Value had = {HsLow(old, operation->bytes), 0};
  uint64_t flags = registers->rflags;
  const struct Value wanted = {Compute(operation, registers, had.low, &flags), 0};
  ChangeView(address, operation->bytes, had, wanted, hooks);
  Deliver(operation, had.low, flags, registers);
}

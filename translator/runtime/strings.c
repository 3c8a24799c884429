// String instructions. A piece of a repeated one ends where the page of an operand ends: then a
// fault comes at its first access, and the registers say what has been done before it.

#include "translator/runtime/strings.h"

#include <stdbool.h>

#include "translator/runtime/arithmetic.h"
#include "translator/runtime/guest_memory.h"

enum { kRaxNumber = 0, kRcxNumber = 1, kRsiNumber = 6, kRdiNumber = 7 };
enum { kPageBytes = 4096, kDirectionFlag = 0x400 };

struct String {
  const struct HsOperation* operation;
  struct HsOperationRegisters* registers;
  const struct HsOperationHooks* hooks;
};

static bool UsesSource(int kind) { return kind == kHsMovs || kind == kHsLods || kind == kHsCmps; }
static bool UsesDestination(int kind) { return kind != kHsLods; }
static bool Compares(int kind) { return kind == kHsCmps || kind == kHsScas; }

static uint64_t Register(const struct String* string, int number) {
  const uint64_t value = string->registers->gpr[number];
  return string->operation->narrow ? (uint32_t)value : value;
}

static void SetRegister(const struct String* string, int number, uint64_t value) {
  string->registers->gpr[number] = string->operation->narrow ? (uint32_t)value : value;
}

static uint64_t Source(const struct String* string) {
  return Register(string, kRsiNumber) +
         (string->operation->source_has_fs ? string->hooks->fs_base : 0);
}

static uint64_t Destination(const struct String* string) { return Register(string, kRdiNumber); }

static bool GoesDown(const struct String* string) {
  return (string->registers->rflags & kDirectionFlag) != 0;
}

// How many elements from `address` on, upwards, lie in its page; 0: not even one.
static uint64_t ElementsInPage(uint64_t address, int bytes) {
  return (kPageBytes - address % kPageBytes) / (uint64_t)bytes;
}

// The number of elements to be done at once.
static uint64_t PieceOf(const struct String* string) {
  const int kind = string->operation->kind, bytes = string->operation->bytes;
  if (string->operation->repeat == kHsOnce || GoesDown(string)) return 1;
  uint64_t count = Register(string, kRcxNumber);
  if (UsesSource(kind)) {
    const uint64_t room = ElementsInPage(Source(string), bytes);
    if (room < count) count = room;
  }
  if (UsesDestination(kind)) {
    const uint64_t room = ElementsInPage(Destination(string), bytes);
    if (room < count) count = room;
  }
  return count == 0 ? 1 : count;
}

static void Advance(const struct String* string, uint64_t count) {
  const int kind = string->operation->kind;
  uint64_t distance = count * string->operation->bytes;
  if (GoesDown(string)) distance = 0 - distance;
  if (UsesSource(kind)) SetRegister(string, kRsiNumber, Register(string, kRsiNumber) + distance);
  if (UsesDestination(kind)) {
    SetRegister(string, kRdiNumber, Register(string, kRdiNumber) + distance);
  }
  if (string->operation->repeat != kHsOnce) {
    SetRegister(string, kRcxNumber, Register(string, kRcxNumber) - count);
  }
}

// The processor's own, upwards. A fault comes at its first access, as it would one by one.
static void MoveDirect(uint64_t from, uint64_t to, uint64_t count, int bytes) {
  switch (bytes) {
    case 1:
      __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
      break;
    case 2:
      __asm__ volatile("rep movsw" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
      break;
    case 4:
      __asm__ volatile("rep movsl" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
      break;
    default:
      __asm__ volatile("rep movsq" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
      break;
  }
}

static void FillDirect(uint64_t to, uint64_t count, uint64_t value, int bytes) {
  switch (bytes) {
    case 1:
      __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(value) : "memory");
      break;
    case 2:
      __asm__ volatile("rep stosw" : "+D"(to), "+c"(count) : "a"(value) : "memory");
      break;
    case 4:
      __asm__ volatile("rep stosl" : "+D"(to), "+c"(count) : "a"(value) : "memory");
      break;
    default:
      __asm__ volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(value) : "memory");
      break;
  }
}

// `count` elements from the view at `from` to the view and to memory at `to`.
static void Move(const struct String* string, uint64_t from, uint64_t to, uint64_t count) {
  const int bytes = string->operation->bytes;
  const uint64_t distance = string->hooks->distance;
  if (distance == 0) return MoveDirect(from, to, count, bytes);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t offset = i * (uint64_t)bytes;
    const uint64_t value = HsLoad(from + offset + distance, bytes);
    HsStore(to + offset + distance, value, bytes);
    HsStore(to + offset, value, bytes);
  }
}

static void Fill(const struct String* string, uint64_t to, uint64_t count) {
  const int bytes = string->operation->bytes;
  const uint64_t value = string->registers->gpr[kRaxNumber];
  if (string->hooks->distance == 0) return FillDirect(to, count, value, bytes);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = to + i * (uint64_t)bytes;
    HsStore(at + string->hooks->distance, value, bytes);
    HsStore(at, value, bytes);
  }
}

static void LoadAccumulator(const struct String* string, uint64_t from) {
  const int bytes = string->operation->bytes;
  const uint64_t value = HsLoad(from + string->hooks->distance, bytes);
  uint64_t* rax = &string->registers->gpr[kRaxNumber];
  *rax = bytes >= 4 ? value : (*rax & ~HsLow(~UINT64_C(0), bytes)) | value;
}

// Compares up to `count` elements; says how many were, and whether the repetition ends with them.
static uint64_t Compare(const struct String* string, uint64_t source, uint64_t destination,
                        uint64_t count, bool* ends) {
  const struct HsOperation* operation = string->operation;
  const int bytes = operation->bytes;
  const uint64_t distance = string->hooks->distance;
  uint64_t* flags = &string->registers->rflags;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t offset = i * (uint64_t)bytes;
    const uint64_t left = operation->kind == kHsScas
                              ? HsLow(string->registers->gpr[kRaxNumber], bytes)
                              : HsLoad(source + offset + distance, bytes);
    const uint64_t right = HsLoad(destination + offset + distance, bytes);
    HsSubtractWithFlags(left, right, 0, bytes, flags);
    const bool equal = left == right;
    if (operation->repeat == kHsRepeat ? !equal : equal) {
      *ends = operation->repeat != kHsOnce;
      return i + 1;
    }
  }
  return count;
}

// One piece. False: it was the last.
static bool RunPiece(const struct String* string) {
  const int kind = string->operation->kind;
  const uint64_t source = Source(string), destination = Destination(string);
  uint64_t count = PieceOf(string);
  const uint64_t bytes = count * string->operation->bytes;
  bool ends = false;
  if (UsesSource(kind)) HsCheck(source, bytes, string->hooks);
  if (Compares(kind)) HsCheck(destination, bytes, string->hooks);
  switch (kind) {
    case kHsMovs:
      Move(string, source, destination, count);
      break;
    case kHsStos:
      Fill(string, destination, count);
      break;
    case kHsLods:
      HsLoad(source, string->operation->bytes);  // where it faults, if it does
      LoadAccumulator(string, source + bytes - string->operation->bytes);
      break;
    default:
      count = Compare(string, source, destination, count, &ends);
      break;
  }
  Advance(string, count);
  return !ends && string->operation->repeat != kHsOnce && Register(string, kRcxNumber) != 0;
}

void HsRunString(const struct HsOperation* operation, struct HsOperationRegisters* registers,
                 const struct HsOperationHooks* hooks) {
  const struct String string = {operation, registers, hooks};
  if (operation->repeat != kHsOnce && Register(&string, kRcxNumber) == 0) return;
  while (RunPiece(&string)) {
  }
}

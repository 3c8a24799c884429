// Unicorn's names for x87 instructions, executed on the host: float_helpers.h.
//
// Each helper loads its operands onto the host's register stack, executes the instruction in the
// form in which the guest has it, since a memory operand is converted and checked by it, and leaves
// the stack empty. What the tag word decides - stack overflow and underflow - is decided here.

#include <initializer_list>
#include <utility>

#include "emulator/unicorn/helper_state.h"
#include "emulator/unicorn/unicorn_library.h"

namespace {

// Unicorn's accesses to the guest's memory; the last argument is where the helper was called.
struct UnicornAccesses {
  template <typename Function>
  static Function* Find(const char* name) {
    return reinterpret_cast<Function*>(hindsight::NeedInUnicorn(name));
  }
  static const UnicornAccesses& Get() {
    static const UnicornAccesses accesses;
    return accesses;
  }

  using Load = uint64_t(void* env, uint64_t address, uintptr_t caller);
  using LoadShort = uint32_t(void* env, uint64_t address, uintptr_t caller);
  using Store = void(void* env, uint64_t address, uint64_t value, uintptr_t caller);
  using StoreShort = void(void* env, uint64_t address, uint32_t value, uintptr_t caller);
  Load* const load = Find<Load>("cpu_ldq_data_ra_x86_64");
  LoadShort* const load_short = Find<LoadShort>("cpu_lduw_data_ra_x86_64");
  Store* const store = Find<Store>("cpu_stq_data_ra_x86_64");
  StoreShort* const store_short = Find<StoreShort>("cpu_stw_data_ra_x86_64");
};

}  // namespace

#define HELPER(result, name) \
  extern "C" __attribute__((visibility("default"))) result helper_##name##_x86_64

namespace hindsight {
namespace {

// Status word: invalid operation because of the stack; C1 then means overflow, and else which way
// was rounded.
constexpr uint16_t kStackFault = 0x41;
constexpr uint16_t kC0 = 0x100, kC1 = 0x200, kC2 = 0x400, kC3 = 0x4000;

// "Real indefinite", the quiet NaN that invalid operations give.
constexpr X87Register kIndefinite = {0xc000'0000'0000'0000, 0xffff, {}};

// The operand that a helper makes ready for another one of the same instruction.
struct Operand {
  enum class Kind : uint8_t { kRegister, kEmpty, kFloat, kDouble, kInteger };
  Kind kind = Kind::kEmpty;
  X87Register value;
  uint64_t memory = 0;
};
__attribute__((tls_model("initial-exec"))) thread_local Operand source;
// What fpush found, for the helper that is called next, of the same instruction.
enum class Pushed : uint8_t { kNo, kYes, kOverflow };
__attribute__((tls_model("initial-exec"))) thread_local Pushed pushed = Pushed::kNo;

void TakeC(X87Unit* unit, uint16_t which, uint16_t status) {
  unit->status = static_cast<uint16_t>((unit->status & ~which) | (status & which));
}

void ClearC1(X87Unit* unit) { unit->status &= static_cast<uint16_t>(~kC1); }

// Copies the value alone: what fills Unicorn's register up to 16 bytes is nobody's.
void Put(X87Register* to, const X87Register& value) {
  to->significand = value.significand;
  to->exponent = value.exponent;
}

void Underflow(X87Unit* unit, X87Register* result, uint8_t* empty) {
  Put(result, kIndefinite);
  *empty = 0;
  unit->status |= kStackFault;
  ClearC1(unit);
}

bool Push(X87Unit* unit) {
  unit->top = (unit->top - 1) & 7;
  const bool fits = unit->st_empty(0) != 0;
  unit->st_empty(0) = 0;
  return fits;
}

void Overflow(X87Unit* unit) {
  Put(&unit->st(0), kIndefinite);
  unit->status |= kStackFault | kC1;
}

void PushValue(void* env, const X87Register& value) {
  X87Unit& unit = X87Of(env);
  if (!Push(&unit)) return Overflow(&unit);
  Put(&unit.st(0), value);
  ClearC1(&unit);
}

}  // namespace

// Onto an empty stack and off again, the status word read in between.
#define LOADED(value) "fldt " value "\n\t"
#define STATUS "fnstsw %0\n\t"
#define STORED(value) "fstpt " value "\n\t"
#define DROP "fstp %%st(0)\n\t"
#define CLOBBERS "st", "st(1)", "memory"

// --- Loads and stores -----------------------------------------------------------------------

#define LOAD(name, operation, type)                                                            \
  HELPER(void, name##_ST0)(void* env, type value) {                                            \
    X87Unit& unit = X87Of(env);                                                                \
    if (!Push(&unit)) return Overflow(&unit);                                                  \
    asm volatile(operation " %1\n\t" STORED("%0") : "=m"(unit.st(0)) : "m"(value) : CLOBBERS); \
    ClearC1(&unit);                                                                            \
  }

LOAD(flds, "flds", uint32_t)
LOAD(fldl, "fldl", uint64_t)
LOAD(fildl, "fildl", int32_t)
LOAD(fildll, "fildll", int64_t)

#define STORE(name, operation, type, stored, indefinite) \
  HELPER(type, name##_ST0)(void* env) {                  \
    X87Unit& unit = X87Of(env);                          \
    if (unit.st_empty(0) != 0) {                         \
      unit.status |= kStackFault;                        \
      ClearC1(&unit);                                    \
      return static_cast<type>(indefinite);              \
    }                                                    \
    stored value;                                        \
    uint16_t status;                                     \
    asm volatile(LOADED("%2") operation " %1\n\t" STATUS \
                 : "=&a"(status), "=m"(value)            \
                 : "m"(unit.st(0))                       \
                 : CLOBBERS);                            \
    TakeC(&unit, kC1, status);                           \
    return value;                                        \
  }
STORE(fsts, "fstps", uint32_t, uint32_t, 0xffc00000)
STORE(fstl, "fstpl", uint64_t, uint64_t, 0xfff8000000000000)
STORE(fist, "fistps", int32_t, int16_t, INT16_MIN)
STORE(fistl, "fistpl", int32_t, int32_t, INT32_MIN)
STORE(fistll, "fistpll", int64_t, int64_t, INT64_MIN)

HELPER(void, fldt_ST0)(void* env, uint64_t address) {
  const auto caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  X87Register value;
  value.significand = UnicornAccesses::Get().load(env, address, caller);
  value.exponent =
      static_cast<uint16_t>(UnicornAccesses::Get().load_short(env, address + 8, caller));
  PushValue(env, value);
}

HELPER(void, fstt_ST0)(void* env, uint64_t address) {
  const auto caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  X87Unit& unit = X87Of(env);
  const bool empty = unit.st_empty(0) != 0;
  const X87Register& value = empty ? kIndefinite : unit.st(0);
  UnicornAccesses::Get().store(env, address, value.significand, caller);
  UnicornAccesses::Get().store_short(env, address + 8, value.exponent, caller);
  if (empty) unit.status |= kStackFault;
  ClearC1(&unit);
}

// --- The stack ------------------------------------------------------------------------------

HELPER(void, fpush)(void* env) { pushed = Push(&X87Of(env)) ? Pushed::kYes : Pushed::kOverflow; }

HELPER(void, fpop)(void* env) {
  X87Unit& unit = X87Of(env);
  unit.st_empty(0) = 1;
  unit.top = (unit.top + 1) & 7;
}

HELPER(void, ffree_STN)(void* env, int i) {
  X87Unit& unit = X87Of(env);
  unit.st_empty(i) = 1;
  ClearC1(&unit);
}

// fld after fpush, or fcmov that moves, which keeps C1 (of AMD's processors; the manuals differ).
HELPER(void, fmov_ST0_STN)(void* env, int i) {
  X87Unit& unit = X87Of(env);
  const Pushed how = std::exchange(pushed, Pushed::kNo);
  // The register pushed onto may be the one that is loaded.
  const bool empty = how == Pushed::kYes && (i & 7) == 0;
  if (empty || unit.st_empty(0) != 0 || unit.st_empty(i) != 0) {
    return Underflow(&unit, &unit.st(0), &unit.st_empty(0));
  }
  if (how == Pushed::kOverflow) return Overflow(&unit);
  Put(&unit.st(0), unit.st(i));
  if (how == Pushed::kYes) ClearC1(&unit);
}

HELPER(void, fmov_STN_ST0)(void* env, int i) {
  X87Unit& unit = X87Of(env);
  if (unit.st_empty(0) != 0) return Underflow(&unit, &unit.st(i), &unit.st_empty(i));
  Put(&unit.st(i), unit.st(0));
  unit.st_empty(i) = 0;
  ClearC1(&unit);
}

HELPER(void, fxchg_ST0_STN)(void* env, int i) {
  X87Unit& unit = X87Of(env);
  ClearC1(&unit);
  for (const int each : {0, i}) {
    if (unit.st_empty(each) != 0) Underflow(&unit, &unit.st(each), &unit.st_empty(each));
  }
  const X87Register top = unit.st(0);
  Put(&unit.st(0), unit.st(i));
  Put(&unit.st(i), top);
}

// fld1 and fldz push first.
#define CONSTANT(name, ...)                                                              \
  HELPER(void, name##_ST0)(void* env) {                                                  \
    X87Unit& unit = X87Of(env);                                                          \
    if (std::exchange(pushed, Pushed::kNo) == Pushed::kOverflow) return Overflow(&unit); \
    Put(&unit.st(0), X87Register{__VA_ARGS__, {}});                                      \
    ClearC1(&unit);                                                                      \
  }

CONSTANT(fld1, 0x8000'0000'0000'0000, 0x3fff)
CONSTANT(fldz, 0, 0)

// --- Operands in memory, or of any register --------------------------------------------------

HELPER(void, flds_FT0)(void*, uint32_t value) {
  source.kind = Operand::Kind::kFloat;
  source.memory = value;
}

HELPER(void, fldl_FT0)(void*, uint64_t value) {
  source.kind = Operand::Kind::kDouble;
  source.memory = value;
}

HELPER(void, fildl_FT0)(void*, int32_t value) {
  source.kind = Operand::Kind::kInteger;
  source.memory = static_cast<uint32_t>(value);
}

HELPER(void, fldz_FT0)(void*) {
  source.kind = Operand::Kind::kRegister;
  source.value = {};
}

HELPER(void, fmov_FT0_STN)(void* env, int i) {
  X87Unit& unit = X87Of(env);
  source.kind = unit.st_empty(i) != 0 ? Operand::Kind::kEmpty : Operand::Kind::kRegister;
  source.value = unit.st(i);
}

// --- Arithmetic -------------------------------------------------------------------------------

#define WITH_MEMORY(operand, operation)                          \
  asm volatile(LOADED("%1") operation "\n\t" STATUS STORED("%1") \
               : "=&a"(status), "+m"(operand)                    \
               : "m"(source.memory)                              \
               : CLOBBERS)

// destination = destination op operand, of registers. (With the destination on top the assembler's
// names for the reversed operations are the manual's.)
#define OF_REGISTERS(destination, operand, operation)                                            \
  asm volatile(LOADED("%2") LOADED("%1") operation " %%st(1), %%st\n\t" STATUS STORED("%1") DROP \
               : "=&a"(status), "+m"(destination)                                                \
               : "m"(operand)                                                                    \
               : CLOBBERS)

#define ARITHMETIC(name)                                                         \
  HELPER(void, f##name##_ST0_FT0)(void* env) {                                   \
    X87Unit& unit = X87Of(env);                                                  \
    X87Register& top = unit.st(0);                                               \
    if (unit.st_empty(0) != 0) return Underflow(&unit, &top, &unit.st_empty(0)); \
    uint16_t status = 0;                                                         \
    switch (source.kind) {                                                       \
      case Operand::Kind::kEmpty:                                                \
        return Underflow(&unit, &top, &unit.st_empty(0));                        \
      case Operand::Kind::kRegister:                                             \
        OF_REGISTERS(top, source.value, "f" #name);                              \
        break;                                                                   \
      case Operand::Kind::kFloat:                                                \
        WITH_MEMORY(top, "f" #name "s %2");                                      \
        break;                                                                   \
      case Operand::Kind::kDouble:                                               \
        WITH_MEMORY(top, "f" #name "l %2");                                      \
        break;                                                                   \
      case Operand::Kind::kInteger:                                              \
        WITH_MEMORY(top, "fi" #name "l %2");                                     \
        break;                                                                   \
    }                                                                            \
    TakeC(&unit, kC1, status);                                                   \
  }                                                                              \
  HELPER(void, f##name##_STN_ST0)(void* env, int i) {                            \
    X87Unit& unit = X87Of(env);                                                  \
    if (unit.st_empty(0) != 0 || unit.st_empty(i) != 0) {                        \
      return Underflow(&unit, &unit.st(i), &unit.st_empty(i));                   \
    }                                                                            \
    uint16_t status = 0;                                                         \
    const X87Register top = unit.st(0);                                          \
    OF_REGISTERS(unit.st(i), top, "f" #name);                                    \
    TakeC(&unit, kC1, status);                                                   \
  }

ARITHMETIC(add)
ARITHMETIC(mul)
ARITHMETIC(sub)
ARITHMETIC(subr)
ARITHMETIC(div)
ARITHMETIC(divr)

#define OF_TOP(name, operation)                                                  \
  HELPER(void, name)(void* env) {                                                \
    X87Unit& unit = X87Of(env);                                                  \
    X87Register& top = unit.st(0);                                               \
    if (unit.st_empty(0) != 0) return Underflow(&unit, &top, &unit.st_empty(0)); \
    uint16_t status = 0;                                                         \
    asm volatile(LOADED("%1") operation "\n\t" STATUS STORED("%1")               \
                 : "=&a"(status), "+m"(top)                                      \
                 :                                                               \
                 : CLOBBERS);                                                    \
    TakeC(&unit, kC1, status);                                                   \
  }

OF_TOP(fsqrt, "fsqrt")
OF_TOP(frndint, "frndint")
OF_TOP(fchs_ST0, "fchs")
OF_TOP(fabs_ST0, "fabs")

HELPER(void, fxam_ST0)(void* env) {
  X87Unit& unit = X87Of(env);
  uint16_t status = 0;
  asm volatile(LOADED("%1") "fxam\n\t" STATUS DROP : "=&a"(status) : "m"(unit.st(0)) : CLOBBERS);
  if (unit.st_empty(0) != 0) status = static_cast<uint16_t>((status & kC1) | kC3 | kC0);
  TakeC(&unit, kC0 | kC1 | kC2 | kC3, status);
}

// --- Comparisons ------------------------------------------------------------------------------

#define COMPARE_REGISTERS(operation)                                               \
  asm volatile(LOADED("%2") LOADED("%1") operation " %%st(1)\n\t" STATUS DROP DROP \
               : "=&a"(status)                                                     \
               : "m"(unit.st(0)), "m"(source.value)                                \
               : CLOBBERS)
#define COMPARE_MEMORY(operation)                           \
  asm volatile(LOADED("%1") operation " %2\n\t" STATUS DROP \
               : "=&a"(status)                              \
               : "m"(unit.st(0)), "m"(source.memory)        \
               : CLOBBERS)

namespace {

void CompareNothing(X87Unit* unit) {
  unit->status |= kStackFault | kC0 | kC2 | kC3;
  ClearC1(unit);
}

}  // namespace

HELPER(void, fcom_ST0_FT0)(void* env) {
  X87Unit& unit = X87Of(env);
  uint16_t status = 0;
  if (unit.st_empty(0) != 0) return CompareNothing(&unit);
  switch (source.kind) {
    case Operand::Kind::kEmpty:
      return CompareNothing(&unit);
    case Operand::Kind::kRegister:
      COMPARE_REGISTERS("fcom");
      break;
    case Operand::Kind::kFloat:
      COMPARE_MEMORY("fcoms");
      break;
    case Operand::Kind::kDouble:
      COMPARE_MEMORY("fcoml");
      break;
    case Operand::Kind::kInteger:
      COMPARE_MEMORY("ficoml");
      break;
  }
  TakeC(&unit, kC0 | kC1 | kC2 | kC3, status);
}

HELPER(void, fucom_ST0_FT0)(void* env) {
  X87Unit& unit = X87Of(env);
  uint16_t status = 0;
  if (unit.st_empty(0) != 0 || source.kind == Operand::Kind::kEmpty) return CompareNothing(&unit);
  COMPARE_REGISTERS("fucom");
  TakeC(&unit, kC0 | kC1 | kC2 | kC3, status);
}

// C1 stays, of AMD's processors; the manuals differ.
#define COMPARE_INTO_FLAGS(name)                                                  \
  HELPER(void, name##_ST0_FT0)(void* env) {                                       \
    X87Unit& unit = X87Of(env);                                                   \
    bool zero = true, parity = true, carry = true;                                \
    if (unit.st_empty(0) != 0 || source.kind == Operand::Kind::kEmpty) {          \
      unit.status |= kStackFault;                                                 \
      ClearC1(&unit);                                                             \
    } else {                                                                      \
      asm volatile(LOADED("%4") LOADED("%3") #name " %%st(1), %%st\n\t" DROP DROP \
                   : "=@ccz"(zero), "=@ccp"(parity), "=@ccc"(carry)               \
                   : "m"(unit.st(0)), "m"(source.value)                           \
                   : CLOBBERS);                                                   \
    }                                                                             \
    SetComparison(env, zero, parity, carry);                                      \
  }

COMPARE_INTO_FLAGS(fcomi)
COMPARE_INTO_FLAGS(fucomi)

void LinkX87Helpers() {}

}  // namespace hindsight

// Unicorn's names for SSE arithmetic, executed on the host: float_helpers.h.
//
// The registers are memory in Unicorn's state. They are loaded and stored in pieces of eight bytes,
// as generated code does, so that loads find the stores before them.

#include "emulator/unicorn/helper_state.h"

namespace {

// Unicorn's vector register; what lies above the first 16 bytes is left alone.
struct Vector;

}  // namespace

#define HELPER(result, name) \
  extern "C" __attribute__((visibility("default"))) result helper_##name##_x86_64
#define LOAD_DESTINATION "movsd (%0), %%xmm0\n\tmovhps 8(%0), %%xmm0\n\t"
#define LOAD_SOURCE "movsd (%1), %%xmm1\n\tmovhps 8(%1), %%xmm1\n\t"
#define OPERANDS(d, s) : : "r"(d), "r"(s) : "xmm0", "xmm1", "memory"

// All lanes: destination = destination op source.
#define PACKED(name, operation)                                            \
  HELPER(void, name)(void*, Vector* d, const Vector* s) {                  \
    asm volatile(LOAD_DESTINATION LOAD_SOURCE operation                    \
                 " %%xmm1, %%xmm0\n\tmovups %%xmm0, (%0)" OPERANDS(d, s)); \
  }
// The same of the lowest lane.
#define SCALAR(name, operation, move)                                        \
  HELPER(void, name)(void*, Vector* d, const Vector* s) {                    \
    asm volatile(move " (%0), %%xmm0\n\t" operation " (%1), %%xmm0\n\t" move \
                      " %%xmm0, (%0)" OPERANDS(d, s));                       \
  }
// All lanes: destination = op source.
#define PACKED_FROM(name, operation)                                                             \
  HELPER(void, name)(void*, Vector* d, const Vector* s) {                                        \
    asm volatile(LOAD_SOURCE operation " %%xmm1, %%xmm0\n\tmovups %%xmm0, (%0)" OPERANDS(d, s)); \
  }
// From a source of eight bytes to a whole register.
#define WIDENING(name, operation)                                                  \
  HELPER(void, name)(void*, Vector* d, const Vector* s) {                          \
    asm volatile(operation " (%1), %%xmm0\n\tmovups %%xmm0, (%0)" OPERANDS(d, s)); \
  }
// Lowest lane: destination = op source; `move` stores a lane of the destination.
#define SCALAR_FROM(name, operation, move)                                           \
  HELPER(void, name)(void*, Vector* d, const Vector* s) {                            \
    asm volatile(operation " (%1), %%xmm0\n\t" move " %%xmm0, (%0)" OPERANDS(d, s)); \
  }

#define ARITHMETIC(name)                \
  PACKED(name##ps, #name "ps")          \
  PACKED(name##pd, #name "pd")          \
  SCALAR(name##ss, #name "ss", "movss") \
  SCALAR(name##sd, #name "sd", "movsd")

ARITHMETIC(add)
ARITHMETIC(sub)
ARITHMETIC(mul)
ARITHMETIC(div)
ARITHMETIC(min)
ARITHMETIC(max)

PACKED_FROM(sqrtps, "sqrtps")
PACKED_FROM(sqrtpd, "sqrtpd")
SCALAR_FROM(sqrtss, "sqrtss", "movss")
SCALAR_FROM(sqrtsd, "sqrtsd", "movsd")

PACKED(haddps, "haddps")
PACKED(haddpd, "haddpd")
PACKED(hsubps, "hsubps")
PACKED(hsubpd, "hsubpd")
PACKED(addsubps, "addsubps")
PACKED(addsubpd, "addsubpd")

#define COMPARISON(name, predicate)                        \
  PACKED(cmp##name##ps, "cmpps $" #predicate ",")          \
  PACKED(cmp##name##pd, "cmppd $" #predicate ",")          \
  SCALAR(cmp##name##ss, "cmpss $" #predicate ",", "movss") \
  SCALAR(cmp##name##sd, "cmpsd $" #predicate ",", "movsd")

COMPARISON(eq, 0)
COMPARISON(lt, 1)
COMPARISON(le, 2)
COMPARISON(unord, 3)
COMPARISON(neq, 4)
COMPARISON(nlt, 5)
COMPARISON(nle, 6)
COMPARISON(ord, 7)

#define COMPARISON_INTO_FLAGS(name, move)                           \
  HELPER(void, name)(void* env, const Vector* d, const Vector* s) { \
    bool zero, parity, carry;                                       \
    asm volatile(move " (%3), %%xmm0\n\t" #name " (%4), %%xmm0"     \
                 : "=@ccz"(zero), "=@ccp"(parity), "=@ccc"(carry)   \
                 : "r"(d), "r"(s)                                   \
                 : "xmm0", "memory");                               \
    hindsight::SetComparison(env, zero, parity, carry);             \
  }

COMPARISON_INTO_FLAGS(comiss, "movss")
COMPARISON_INTO_FLAGS(ucomiss, "movss")
COMPARISON_INTO_FLAGS(comisd, "movsd")
COMPARISON_INTO_FLAGS(ucomisd, "movsd")

WIDENING(cvtps2pd, "cvtps2pd")
WIDENING(cvtdq2pd, "cvtdq2pd")
PACKED_FROM(cvtdq2ps, "cvtdq2ps")
PACKED_FROM(cvtpd2ps, "cvtpd2ps")
PACKED_FROM(cvtps2dq, "cvtps2dq")
PACKED_FROM(cvtpd2dq, "cvtpd2dq")
PACKED_FROM(cvttps2dq, "cvttps2dq")
PACKED_FROM(cvttpd2dq, "cvttpd2dq")
SCALAR_FROM(cvtss2sd, "cvtss2sd", "movsd")
SCALAR_FROM(cvtsd2ss, "cvtsd2ss", "movss")

#define FROM_INTEGER(name, operation, type, move)                                      \
  HELPER(void, name)(void*, Vector* d, type value) {                                   \
    asm volatile(operation " %1, %%xmm0\n\t" move " %%xmm0, (%0)" OPERANDS(d, value)); \
  }

FROM_INTEGER(cvtsi2ss, "cvtsi2ssl", uint32_t, "movss")
FROM_INTEGER(cvtsi2sd, "cvtsi2sdl", uint32_t, "movsd")
FROM_INTEGER(cvtsq2ss, "cvtsi2ssq", uint64_t, "movss")
FROM_INTEGER(cvtsq2sd, "cvtsi2sdq", uint64_t, "movsd")

#define TO_INTEGER(name, operation, type)                                  \
  HELPER(type, name)(void*, const Vector* s) {                             \
    type value;                                                            \
    asm volatile(operation " (%1), %0" : "=r"(value) : "r"(s) : "memory"); \
    return value;                                                          \
  }

TO_INTEGER(cvtss2si, "cvtss2sil", int32_t)
TO_INTEGER(cvtsd2si, "cvtsd2sil", int32_t)
TO_INTEGER(cvtss2sq, "cvtss2siq", int64_t)
TO_INTEGER(cvtsd2sq, "cvtsd2siq", int64_t)
TO_INTEGER(cvttss2si, "cvttss2sil", int32_t)
TO_INTEGER(cvttsd2si, "cvttsd2sil", int32_t)
TO_INTEGER(cvttss2sq, "cvttss2siq", int64_t)
TO_INTEGER(cvttsd2sq, "cvttsd2siq", int64_t)

// Only four bits of the mode count; it is a constant in the instruction.
#define MODE(mode, macro, ...) \
  case mode:                   \
    macro(mode, __VA_ARGS__);  \
    break
#define ALL_MODES(macro, ...)   \
  MODE(0, macro, __VA_ARGS__);  \
  MODE(1, macro, __VA_ARGS__);  \
  MODE(2, macro, __VA_ARGS__);  \
  MODE(3, macro, __VA_ARGS__);  \
  MODE(4, macro, __VA_ARGS__);  \
  MODE(5, macro, __VA_ARGS__);  \
  MODE(6, macro, __VA_ARGS__);  \
  MODE(7, macro, __VA_ARGS__);  \
  MODE(8, macro, __VA_ARGS__);  \
  MODE(9, macro, __VA_ARGS__);  \
  MODE(10, macro, __VA_ARGS__); \
  MODE(11, macro, __VA_ARGS__); \
  MODE(12, macro, __VA_ARGS__); \
  MODE(13, macro, __VA_ARGS__); \
  MODE(14, macro, __VA_ARGS__); \
  MODE(15, macro, __VA_ARGS__)
#define ROUND_PACKED(mode, operation)           \
  asm volatile(LOAD_SOURCE operation " $" #mode \
                                     ", %%xmm1, %%xmm0\n\tmovups %%xmm0, (%0)" OPERANDS(d, s))
#define ROUND_SCALAR(mode, operation, move) \
  asm volatile(operation " $" #mode ", (%1), %%xmm0\n\t" move " %%xmm0, (%0)" OPERANDS(d, s))
#define ROUNDING(name, macro, ...)                                             \
  HELPER(void, name##_xmm)(void*, Vector* d, const Vector* s, uint32_t mode) { \
    switch (mode & 15) { ALL_MODES(macro, __VA_ARGS__); }                      \
  }

ROUNDING(roundps, ROUND_PACKED, "roundps")
ROUNDING(roundpd, ROUND_PACKED, "roundpd")
ROUNDING(roundss, ROUND_SCALAR, "roundss", "movss")
ROUNDING(roundsd, ROUND_SCALAR, "roundsd", "movsd")

namespace hindsight {

void LinkSseHelpers() {}

}  // namespace hindsight

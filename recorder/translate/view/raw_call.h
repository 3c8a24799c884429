// System calls without the C library: for code that runs inside the program.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_VIEW_RAW_CALL_H_
#define HINDSIGHT_RECORDER_TRANSLATE_VIEW_RAW_CALL_H_

#include <stdint.h>

namespace hindsight {

// Returns what the kernel does: negative error numbers.
inline int64_t RawCall(int64_t number, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0,
                       uint64_t d = 0, uint64_t e = 0, uint64_t f = 0) {
  int64_t result;
  register uint64_t r10 asm("r10") = d;
  register uint64_t r8 asm("r8") = e;
  register uint64_t r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_VIEW_RAW_CALL_H_

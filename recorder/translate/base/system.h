// System calls and the few functions of a C library that the agent needs.
//
// Calls return what the kernel does: a negative error number, or the result.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_BASE_SYSTEM_H_
#define HINDSIGHT_RECORDER_TRANSLATE_BASE_SYSTEM_H_

#include <stddef.h>
#include <stdint.h>

namespace hindsight::agent {

inline int64_t Call(long number, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0,
                    uint64_t e = 0, uint64_t f = 0) {
  register uint64_t r10 asm("r10") = d;
  register uint64_t r8 asm("r8") = e;
  register uint64_t r9 asm("r9") = f;
  int64_t result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

inline bool IsError(int64_t result) { return result < 0 && result >= -4095; }

template <typename T>
uint64_t AddressOf(T* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

template <typename T>
T* PointerTo(uint64_t address) {
  return reinterpret_cast<T*>(address);
}

}  // namespace hindsight::agent

extern "C" {
void* memcpy(void* to, const void* from, size_t bytes);
void* memset(void* to, int byte, size_t bytes);
}

#endif  // HINDSIGHT_RECORDER_TRANSLATE_BASE_SYSTEM_H_

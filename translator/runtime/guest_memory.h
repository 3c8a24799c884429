// Accesses to the guest's memory and to the view. Plain C, no library.

#ifndef HINDSIGHT_TRANSLATOR_RUNTIME_GUEST_MEMORY_H_
#define HINDSIGHT_TRANSLATOR_RUNTIME_GUEST_MEMORY_H_

#include <stdbool.h>
#include <stdint.h>

#include "translator/runtime/operation.h"

// One access of 1, 2, 4 or 8 bytes.
static inline uint64_t HsLoad(uint64_t address, int bytes) {
  switch (bytes) {
    case 1:
      return *(const volatile uint8_t*)address;
    case 2:
      return *(const volatile uint16_t*)address;
    case 4:
      return *(const volatile uint32_t*)address;
    default:
      return *(const volatile uint64_t*)address;
  }
}

static inline void HsStore(uint64_t address, uint64_t value, int bytes) {
  switch (bytes) {
    case 1:
      *(volatile uint8_t*)address = (uint8_t)value;
      break;
    case 2:
      *(volatile uint16_t*)address = (uint16_t)value;
      break;
    case 4:
      *(volatile uint32_t*)address = (uint32_t)value;
      break;
    default:
      *(volatile uint64_t*)address = value;
      break;
  }
}

// Compares [address, address + bytes) with the view and imports it if it differs: from then on the
// view is what the instruction reads.
static inline void HsCheck(uint64_t address, uint64_t bytes, const struct HsOperationHooks* hooks) {
  if (hooks->distance == 0) return;
  for (uint64_t done = 0; done < bytes;) {
    const int piece = bytes - done >= 8 ? 8 : 1;
    const uint64_t at = address + done;
    if (HsLoad(at, piece) != HsLoad(at + hooks->distance, piece)) {
      hooks->import(hooks->context, address, bytes);
      return;
    }
    done += (uint64_t)piece;
  }
}

#endif  // HINDSIGHT_TRANSLATOR_RUNTIME_GUEST_MEMORY_H_

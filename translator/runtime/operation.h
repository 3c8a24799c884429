// Instructions of the guest that translated code leaves to the agent (kHsExitOperation): string
// instructions, locked ones, and a few that are rare. Plain C, also without a library.
//
// HsRunOperation executes one on the view and on memory, so that the view shows what the thread has
// seen: bytes that it is about to read are compared with the view and imported if they differ, then
// the operation is done in the view, then in memory.

#ifndef HINDSIGHT_TRANSLATOR_RUNTIME_OPERATION_H_
#define HINDSIGHT_TRANSLATOR_RUNTIME_OPERATION_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum HsOperationKind {
  // Two operands, memory the first: op [address], source.
  kHsAdd = 0,
  kHsOr,
  kHsAdc,
  kHsSbb,
  kHsAnd,
  kHsSub,
  kHsXor,
  kHsBt,
  kHsBts,
  kHsBtr,
  kHsBtc,
  kHsXadd,
  kHsXchg,
  kHsCmpxchg,
  // One operand.
  kHsInc,
  kHsDec,
  kHsNot,
  kHsNeg,
  kHsCmpxchgPair,  // cmpxchg8b, cmpxchg16b: `bytes` is 8 or 16
  // Strings.
  kHsMovs,
  kHsStos,
  kHsLods,
  kHsCmps,
  kHsScas,
  // Of no operand.
  kHsMfence,
  kHsSfence,
  kHsLfence,
  // None: the instruction that follows shows what may have been computed otherwise elsewhere.
  kHsCorrection,
  // None: an instruction was an event in the order of threads; `done`: its time is known.
  kHsOrder,
};

enum HsRepeat { kHsOnce = 0, kHsRepeat, kHsRepeatNotEqual };

#define HS_SOURCE_IMMEDIATE 0x80
#define HS_SOURCE_HIGH 0x40  // with 0 to 3: ah, ch, dh, bh

struct HsOperation {
  uint8_t kind;    // enum HsOperationKind
  uint8_t bytes;   // of the operand, or of an element: 1, 2, 4, 8; 16
  uint8_t source;  // register, or one of the above
  uint8_t repeat;  // enum HsRepeat
  uint8_t narrow;  // addresses, and the count of a repeated one, have 32 bits
  uint8_t locked;
  uint8_t source_has_fs;  // of a string
  uint8_t done;           // in memory: what is left is HsFinishOperation
  int64_t immediate;
};

// The guest's; r10 and r11 as well.
struct HsOperationRegisters {
  uint64_t gpr[16];
  uint64_t rflags;
};

// What the caller must provide. `context` is handed through.
struct HsOperationHooks {
  void* context;
  // Of the view. 0: there is none, and nobody else changes memory. Then neither `import` nor
  // `import_old` is called.
  uint64_t distance;
  uint64_t fs_base;
  // Makes the view of [address, address + bytes) agree with memory, before the instruction.
  void (*import)(void* context, uint64_t address, uint64_t bytes);
  // Before the instruction, memory had `old` at this address, and the view something else. Now both
  // have what the instruction stores there.
  void (*import_old)(void* context, uint64_t address, uint64_t bytes, const void* old);
  // Memory at `address` has been accessed by a locked instruction just now, and before anything
  // else is; or a fence has been executed (address 0). May be null.
  void (*locked)(void* context, uint64_t address);
};

// Executes the operation in `registers`. `address`: exit_address (not of strings).
//
// Accesses the guest's memory, which may fault; then the caller must abandon this function.
// Whatever has been done by then is in `registers`: nothing, or of a repeated string instruction
// the iterations that are complete (rcx, rsi, rdi tell), and rip is to stay at the instruction.
void HsRunOperation(const struct HsOperation* operation, uint64_t address,
                    struct HsOperationRegisters* registers, const struct HsOperationHooks* hooks);

// Executes the rest of a locked one of 4 or 8 bytes that memory has been changed by; it had `old`
// there, of which only that many bytes count.
void HsFinishOperation(const struct HsOperation* operation, uint64_t address, uint64_t old,
                       struct HsOperationRegisters* registers,
                       const struct HsOperationHooks* hooks);

#ifdef __cplusplus
}
#endif

#endif  // HINDSIGHT_TRANSLATOR_RUNTIME_OPERATION_H_

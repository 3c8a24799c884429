// Flavour record: comparing an operand in memory with the view.
//
// Bytes are loaded from memory once; what the guest computes with are those bytes, or the view's
// after it was found to hold the same.

#ifndef HINDSIGHT_TRANSLATOR_CHECKED_ACCESS_H_
#define HINDSIGHT_TRANSLATOR_CHECKED_ACCESS_H_

#include "translator/block_writer.h"
#include "translator/host/assembler.h"
#include "translator/substitution.h"

namespace hindsight {

// `offset` bytes further on.
HostAddress Further(HostAddress address, int64_t offset);
// The same place in the view.
HostAddress InView(HostAddress address);
// Whether `bytes` from there on can be addressed in pieces.
bool HasRoom(const HostAddress& address, int64_t bytes);
bool UsesRegister(const HostAddress& address, int number);

// Whether instructions that set flags may be written at the writer's place.
bool MayChangeFlags(const BlockWriter& writer);

// Loads the operand at `address`, which has no segment, and compares it with the view; leaves by
// kHsExitMiss if they differ. If the view is trusted it is loaded from there. Afterwards `data`,
// not rcx and not in the address unless it is one piece of 1, 2, 4 or 8 bytes, holds the last
// piece, extended with zeros. False: it cannot be written.
bool WriteCheck(const HostAddress& address, int bytes, int data, BlockWriter* writer,
                Temporaries* temporaries);
// The same, compared even if the view is trusted.
bool WriteComparison(const HostAddress& address, int bytes, int data, BlockWriter* writer,
                     Temporaries* temporaries);

// A vector that has been loaded as far as a mask says.
struct MaskedVector {
  int vector = 0;         // 0 to 31
  int mask = 0;           // a mask register, or
  int vector_mask = -1;   // the vector whose elements' highest bits are the mask; -1: none
  int vector_bits = 0;    // 128, 256, 512
  int element_bytes = 0;  // 1, 2, 4, 8
};

// Compares what has just been loaded from `address` with the view; other bytes are not accessed.
// False: it cannot be written. The writer may use masks.
bool WriteMaskedCheck(const HostAddress& address, const MaskedVector& loaded, int data,
                      BlockWriter* writer, Temporaries* temporaries);

// Mask register `mask` has what an instruction makes of the operand in memory: kept for the check.
void WriteKeepMask(int mask, BlockWriter* writer);
// It has what the instruction makes of the operand in the view: leaves as WriteCheck does if that
// is something else. What lies there may differ where the result does not depend on it.
bool WriteMaskCheck(const HostAddress& address, int bytes, int mask, int data, BlockWriter* writer,
                    Temporaries* temporaries);

// Copies bytes from the view to memory.
bool WriteCopy(const HostAddress& address, int bytes, int data, BlockWriter* writer);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_CHECKED_ACCESS_H_

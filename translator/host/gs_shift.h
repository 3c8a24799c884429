// Where operands relative to GS are, of which the view's are the most. Plain C, also for assembly.
//
// HS_GS_SHIFT is what the displacement of an operand relative to GS has more than that of the same
// operand without GS. The GS base has as much less than the distance of the view.
//
// Processors (Zen 5, for one) expect a load to get what the last store with the same base register
// and the same displacement has stored. Of the displacement they compare bits 2 to 9, and they do
// not look at the segment: each load from the view after a store to memory would have to begin
// again, which takes some 45 cycles (docs/performance.md). With this number pushes, and members and
// variables up to 243 bytes from a register, have displacements of one byte in the view.

#ifndef HINDSIGHT_TRANSLATOR_HOST_GS_SHIFT_H_
#define HINDSIGHT_TRANSLATOR_HOST_GS_SHIFT_H_

#define HS_GS_SHIFT (-0x74)

#endif  // HINDSIGHT_TRANSLATOR_HOST_GS_SHIFT_H_

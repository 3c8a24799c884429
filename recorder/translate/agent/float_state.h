// The registers of a recorded thread: as the recorder is told of them; and fxsave and fxrstor,
// which work on the view and on memory.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_FLOAT_STATE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_FLOAT_STATE_H_

#include "recorder/translate/agent/thread.h"
#include "recorder/translate/view/entry_writer.h"

namespace hindsight::agent {

// Of the calling thread, in the agent.
void TakeState(Thread* thread, GuestState* state);

// The same without the extended registers.
void TakeBaseState(const Thread& thread, GuestState* state);

// The extended registers are about to change without translated code's doing: whether any is in use
// would not be seen afterwards.
void NoteExtendedState(Thread* thread);

// Whether the instruction at `pc` stores what XSAVE does.
bool IsExtendedSave(uint64_t pc);
// Whether the instruction at the thread's pc, which has faulted there, may have stored something
// before: fstpt and fbstp store 8 bytes of 10, and then the other two, which may be in another
// page.
bool IsStoredInPart(const Thread& thread, uint64_t fault_address);

// If the instruction at the thread's pc stores the x87 environment: the pointers to the last x87
// instruction and its operand become the guest's, in the processor and in `state`, which has been
// taken. They are of the translation otherwise. For fnstenv and fnsave also in the thread's block.
void ShowGuestPointers(Thread* thread, GuestState* state);

// The same for what FXSAVE64 has stored at `area`, in memory that can be accessed.
void ShowGuestPointersIn(Thread* thread, uint8_t* area);

// Executes the one at the thread's pc, which is `size` bytes long, and goes past it. False, with
// nothing done, if it is none, or faults.
bool ExecuteFloatState(Thread* thread, uint64_t size);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_FLOAT_STATE_H_

// Flavour record: what is pushed, popped and otherwise read and written without an operand in
// ModRM, in memory and in the view.

#ifndef HINDSIGHT_TRANSLATOR_RECORD_STACK_H_
#define HINDSIGHT_TRANSLATOR_RECORD_STACK_H_

#include "translator/block_writer.h"
#include "translator/guest/guest_instruction.h"
#include "translator/record_class.h"

namespace hindsight {

// kPush, kPop, kPushFlags, kPopFlags, kEnter, kLeave; of a writer that is direct, kPop to memory.
// False: it cannot be written.
bool WriteStackAccess(const GuestInstruction& instruction, RecordClass kind, BlockWriter* writer);

// xlat. False: it cannot be written.
bool WriteTranslateByte(const GuestInstruction& instruction, BlockWriter* writer);

// Of a call: pushes `value`. With `keep_r11`, r11 stays.
void WritePushConstant(uint64_t value, bool keep_r11, BlockWriter* writer);

// Of a return: pops the target into r11.
void WritePopTarget(int64_t released, BlockWriter* writer);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_RECORD_STACK_H_

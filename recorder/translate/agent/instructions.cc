#include "recorder/translate/agent/instructions.h"

#include <signal.h>

#include "recorder/translate/agent/boot.h"
#include "recorder/translate/agent/client.h"
#include "recorder/translate/agent/float_state.h"
#include "recorder/translate/agent/orders.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/signals.h"
#include "recorder/translate/agent/stepping.h"
#include "recorder/translate/base/system.h"

namespace hindsight::agent {
namespace {

void Finish(Thread* thread, uint64_t bytes) {
  thread->pc += bytes;
  RecordInstruction(thread);
  ++thread->count;
}

// False: it is not known here.
bool AnswerKnownCpuid(uint64_t* r) {
  const ControlBlock* const control = Control();
  const auto leaf = static_cast<uint32_t>(r[kRax]), subleaf = static_cast<uint32_t>(r[kRcx]);
  for (uint32_t i = 0; i < control->cpuid_count && i < kMaxCpuidEntries; ++i) {
    const CpuidEntry& entry = control->cpuid[i];
    if (entry.leaf != leaf || (entry.subleaf != subleaf && entry.subleaf != kAnySubleaf)) continue;
    r[kRax] = entry.eax;
    r[kRbx] = entry.ebx;
    r[kRcx] = entry.ecx;
    r[kRdx] = entry.edx;
    return true;
  }
  return false;
}

void AnswerCpuid(Thread* thread) {
  uint64_t* r = thread->registers;
  if (AnswerKnownCpuid(r)) return;
  const Answer answer = Ask(thread, RequestKind::kCpuid, r[kRax], r[kRcx]);
  if (IsRecorded(*thread) && Control()->leave != 0) LeaveAll(thread, HS_END_CALL);
  r[kRax] = answer.results[0];
  r[kRbx] = answer.results[1];
  r[kRcx] = answer.results[2];
  r[kRdx] = answer.results[3];
}

void ReadTimestamp(Thread* thread, bool with_processor) {
  uint32_t low, high, processor;
  asm volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(processor));
  thread->registers[kRax] = low;
  thread->registers[kRdx] = high;
  if (with_processor) thread->registers[kRcx] = processor;
}

}  // namespace

void HandleInstruction(Thread* thread) {
  // It was fetched from there, if it is one at all.
  const auto* code = PointerTo<const uint8_t>(thread->pc);
  const uint16_t size = thread->block->exit_size;
  const bool two = size == 2 && code[0] == 0x0f, three = size == 3 && code[0] == 0x0f;
  if (two && code[1] == 0xa2) {
    AnswerCpuid(thread);
  } else if ((two && code[1] == 0x31) || (three && code[1] == 0x01 && code[2] == 0xf9)) {
    if (thread->no_time_stamps != 0) {
      RaiseFault(thread, SIGSEGV);
      return;
    }
    ReadTimestamp(thread, /*with_processor=*/three);
  } else {
    if (IsRecorded(*thread) && ExecuteFloatState(thread, size)) return;
    if (IsExtendedSave(thread->pc)) RecordCorrection(thread);
    ExecuteNatively(thread);
  }
  Finish(thread, size);
}

}  // namespace hindsight::agent

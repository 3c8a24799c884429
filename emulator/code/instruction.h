// What the Cpu needs to know about an instruction: who executes it (instruction_policy.cc decides),
// and properties taken from Zydis' decoding.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_CODE_INSTRUCTION_H_
#define HINDSIGHT_EMULATOR_CODE_INSTRUCTION_H_

#include <cstdint>

#include "absl/types/span.h"
#include "emulator/code/upper_half.h"
#include "isa/memory_model.h"

namespace hindsight {

// Who executes an instruction. docs/emulation.md lists the findings that decide it.
enum class Policy : uint8_t {
  kEmulate,           // Unicorn: it computes what the hardware computes
  kAssist,            // the Cpu, without Unicorn: instruction_executor.h
  kSyscall,           // syscall
  kNondeterministic,  // rdtsc, rdtscp, rdrand, rdseed, rdpid, rdpmc: not a function of the state
  kCpuid,             // answered by us
  kNative,            // the recorded process: neither Unicorn nor we can
  kPrivileged,        // faults in user mode (hlt, in, out, mov cr, ...); Unicorn would run it
  kInvalid,           // does not decode: faults
};

// Plain data.
struct Instruction {
  uint8_t length = 0;  // bytes; 0 if kInvalid
  Policy policy = Policy::kInvalid;
  bool reads_memory = false;
  bool writes_memory = false;
  bool control_flow = false;  // may go elsewhere than to the next instruction
  bool call = false;
  bool ret = false;
  bool rep = false;          // a REP/REPE/REPNE string instruction
  bool rep_at_once = false;  // rep, and its iterations can be executed at once: string_operation.h
  bool locked = false;       // LOCK prefix or xchg with memory
  bool bridge = false;       // kEmulate, and may be executed here as well: bridge_instruction.h
  bool sets_flags = false;   // arithmetic ones
  // Leaves most flags as they are, and Unicorn does so only where no instruction before it in the
  // block has set any.
  bool wants_settled_flags = false;
  // Uses vector or x87 registers, kEmulate, and the host can execute it as well: it must while the
  // program has floating-point control that Unicorn does not follow (float_control.h).
  bool floating = false;
  bool sets_float_control = false;  // may change MXCSR or the x87 control word
  bool pushes_flags = false;        // pushf: would store the single-step flag where it can be seen
  bool aligned = false;             // has a memory operand that must be aligned: alignment.h
  // aligned, and Unicorn does exactly what the host does: nothing is rounded, no flag accrues.
  bool aligned_move = false;
  // If the instruction sets ZF, this general register keeps its value, but Unicorn clears its upper
  // half: upper_half.h. kNoGpr: none.
  uint8_t kept_gpr = kNoGpr;
  uint16_t mnemonic = 0;  // ZydisMnemonic
};

// Classifies the instruction that starts at bytes[0]. Reads at most 15 bytes.
Instruction Classify(absl::Span<const uint8_t> bytes);

// Whether it is an orderable event under `model`. System calls are not: they are orderable events
// of a separate kind.
bool IsOrderable(const Instruction& instruction, MemoryModel model);

// "vaddpd", for messages.
const char* MnemonicName(uint16_t mnemonic);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CODE_INSTRUCTION_H_

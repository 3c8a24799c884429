// What is needed to run one instruction on the host's processor: the registers it touches, how it
// reaches memory, and bytes that do the same with a memory operand of the host's.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_ASSIST_ASSIST_PLAN_H_
#define HINDSIGHT_EMULATOR_ASSIST_ASSIST_PLAN_H_

#include <Zydis/Zydis.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "isa/host_features.h"
#include "isa/operand_address.h"
#include "isa/registers.h"

namespace hindsight {

// Which bytes of the memory operand an instruction touches.
enum class MemoryExtent : uint8_t {
  kNone,          // there is no memory operand
  kWhole,         // all
  kOpmask,        // the elements whose bit of the opmask register is set
  kFoldedOpmask,  // the elements of which one copy's bit is set (broadcasts)
  kLowOpmask,     // all, if the lowest bit is set (scalars)
  kPacked,        // as many elements from the start as bits are set (compress, expand)
  kVectorMask,    // the elements whose highest bit in a vector register is set (vmaskmov)
};

struct VectorUse {
  uint8_t number = 0;  // 0..31
  uint16_t bytes = 0;  // 16, 32, 64: how much of it is loaded
  bool written = false;
};

struct AssistPlan {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];

  HostFeatures needs;
  bool is_gather = false;  // or scatter: done element by element, without the fields below
  bool is_scatter = false;

  uint16_t gprs = 0, gprs_written = 0;  // bit i: register i
  uint8_t opmasks = 0, opmasks_written = 0;
  std::vector<VectorUse> vectors;
  bool clears_upper = false;     // VEX, EVEX: what lies above a vector written becomes zero
  uint64_t flags_defined = 0;    // arithmetic flags that it sets to something architectural
  uint64_t flags_undefined = 0;  // and to something that is not: they become 0
  bool needs_flags = false;      // it looks at some, or leaves some as they are
  bool uses_mxcsr = false;
  bool uses_x87 = false;  // or MMX: runs with the whole image of FXSAVE loaded

  MemoryExtent extent = MemoryExtent::kNone;
  int memory_operand = -1;
  OperandAddress address;
  bool reads_memory = false, writes_memory = false;
  uint8_t memory_bytes = 0;
  uint8_t element_bytes = 0;  // kOpmask, kFoldedOpmask, kPacked, kVectorMask
  uint8_t mask_register = 0;  // opmask, or vector

  // The instruction as it is executed (assist_code.h): memory is where memory_register points, and
  // a general register in place of rsp, which stays the host's.
  std::vector<uint8_t> code;
  uint8_t memory_register = 0;
  uint8_t rsp_stand_in = kNoStandIn;
  static constexpr uint8_t kNoStandIn = 0xff;
};

// nullopt if the instruction cannot be run this way.
std::optional<AssistPlan> MakeAssistPlan(const ZydisDecodedInstruction& instruction,
                                         const ZydisDecodedOperand* operands);

// Whether MakeAssistPlan makes one, but for the few forms that cannot be encoded anew, which show
// only then: quicker.
bool CanAssistNatively(const ZydisDecodedInstruction& instruction,
                       const ZydisDecodedOperand* operands);

// bt and those like it.
bool IsBitTest(ZydisMnemonic mnemonic);
// Whether it works on the x87's registers, which are MMX's as well.
bool IsX87OrMmx(const ZydisDecodedInstruction& instruction);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_ASSIST_PLAN_H_

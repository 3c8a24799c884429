// The plan for running one instruction on the host's processor (host_assist.h): the registers it
// uses, which bytes of memory it accesses, and host code that does the same with a memory operand
// of ours.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_ASSIST_HOST_PLAN_H_
#define HINDSIGHT_EMULATOR_ASSIST_HOST_PLAN_H_

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

// Plain data.
struct HostPlan {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];

  HostFeatures needs;
  // Gathers and scatters are done element by element (gather.h), without most fields below.
  bool is_gather = false;
  bool is_scatter = false;

  uint16_t gprs = 0, gprs_written = 0;  // bit i: register i
  uint8_t opmasks = 0, opmasks_written = 0;
  std::vector<VectorUse> vectors;
  bool clears_upper = false;     // VEX, EVEX: what lies above a vector written becomes zero
  uint64_t flags_defined = 0;    // arithmetic flags that it sets to something architectural
  uint64_t flags_undefined = 0;  // those it leaves undefined: they become 0
  bool needs_flags = false;      // it reads some, or preserves some
  bool uses_mxcsr = false;
  bool uses_x87 = false;  // or MMX: runs with the whole image of FXSAVE loaded

  MemoryExtent extent = MemoryExtent::kNone;
  int memory_operand = -1;
  OperandAddress address;
  bool reads_memory = false, writes_memory = false;
  uint8_t memory_bytes = 0;
  uint8_t element_bytes = 0;  // kOpmask, kFoldedOpmask, kPacked, kVectorMask
  uint8_t mask_register = 0;  // opmask, or vector

  // The instruction as the host executes it (host_encoding.h): memory is addressed by
  // memory_register, and another general register stands in for rsp, which stays the host's.
  std::vector<uint8_t> code;
  uint8_t memory_register = 0;
  uint8_t rsp_stand_in = kNoStandIn;
  static constexpr uint8_t kNoStandIn = 0xff;
};

// nullopt if the instruction cannot be run on the host.
std::optional<HostPlan> MakeHostPlan(const ZydisDecodedInstruction& instruction,
                                     const ZydisDecodedOperand* operands);

// A quicker test of whether MakeHostPlan returns a plan. True as well for the few forms that cannot
// be encoded again, which only MakeHostPlan detects.
bool HasHostAssist(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands);

// bt, bts, btr, btc.
bool IsBitTest(ZydisMnemonic mnemonic);
// Whether it uses the x87 registers, which are also the MMX registers.
bool IsX87OrMmx(const ZydisDecodedInstruction& instruction);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_HOST_PLAN_H_

#include "emulator/assist/gather.h"

#include <algorithm>
#include <cstring>

#include "isa/vector_bytes.h"

namespace hindsight {
namespace {

constexpr int kMaxElements = 16;

// Which elements, and where they lie.
struct Elements {
  int count = 0;
  int data_bytes = 0;
  uint64_t address[kMaxElements] = {};
};

// vgatherdps, vpscatterqd, ...: the letter after "gather" or "scatter" is the index's width.
bool HasWideIndex(ZydisMnemonic mnemonic) {
  const char* const name = ZydisMnemonicGetString(mnemonic);
  const char* at = std::strstr(name, "gather");
  at = at != nullptr ? at + std::strlen("gather")
                     : std::strstr(name, "scatter") + std::strlen("scatter");
  return *at == 'q';
}

Elements FindElements(const HostPlan& plan, const RegisterFile& registers) {
  const ZydisDecodedOperand& memory = plan.operands[plan.memory_operand];
  Elements elements;
  elements.data_bytes = memory.size / 8;
  const int index_bytes = HasWideIndex(plan.instruction.mnemonic) ? 8 : 4;
  elements.count =
      plan.instruction.avx.vector_length / 8 / std::max(index_bytes, elements.data_bytes);
  const VectorBytes index = ReadVector(registers, ZydisRegisterGetId(memory.mem.index));
  for (int i = 0; i < elements.count; ++i) {
    int64_t offset = 0;
    if (index_bytes == 8) {
      std::memcpy(&offset, index.at + 8 * i, 8);
    } else {
      int32_t narrow = 0;
      std::memcpy(&narrow, index.at + 4 * i, 4);
      offset = narrow;
    }
    elements.address[i] =
        plan.address.Compute(registers, static_cast<uint64_t>(offset) * memory.mem.scale);
  }
  return elements;
}

bool IsEvex(const HostPlan& plan) {
  return plan.instruction.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX;
}

int OpmaskOf(const HostPlan& plan) { return ZydisRegisterGetId(plan.instruction.avx.mask.reg); }

}  // namespace

bool Gather(const HostPlan& plan, RegisterFile* registers, GuestMemory* memory) {
  const Elements elements = FindElements(plan, *registers);
  const int destination = ZydisRegisterGetId(plan.operands[0].reg.value);
  const int mask = IsEvex(plan) ? OpmaskOf(plan) : ZydisRegisterGetId(plan.operands[2].reg.value);
  const VectorBytes mask_bytes = ReadVector(*registers, IsEvex(plan) ? 0 : mask);
  VectorBytes result = ReadVector(*registers, destination);
  const int bytes = elements.data_bytes;
  for (int i = 0; i < elements.count; ++i) {
    const bool active = IsEvex(plan) ? (registers->k[mask] >> i & 1) != 0
                                     : (mask_bytes.at[bytes * (i + 1) - 1] & 0x80) != 0;
    if (active && !memory->Read(elements.address[i], absl::MakeSpan(result.at + bytes * i,
                                                                    static_cast<size_t>(bytes)))) {
      return false;
    }
  }
  std::memset(result.at + bytes * elements.count, 0, sizeof(result) - bytes * elements.count);
  WriteVector(destination, result, registers);
  if (IsEvex(plan)) {
    registers->k[mask] = 0;
  } else {
    WriteVector(mask, VectorBytes{}, registers);
  }
  return true;
}

bool Scatter(const HostPlan& plan, RegisterFile* registers, GuestMemory* memory) {
  const Elements elements = FindElements(plan, *registers);
  const int mask = OpmaskOf(plan);
  const VectorBytes source = ReadVector(*registers, ZydisRegisterGetId(plan.operands[2].reg.value));
  const auto bytes = static_cast<size_t>(elements.data_bytes);
  uint8_t old[8];
  for (int i = 0; i < elements.count; ++i) {
    if ((registers->k[mask] >> i & 1) == 0) continue;
    if (!memory->MayWrite(elements.address[i], absl::MakeSpan(old, bytes))) return false;
  }
  for (int i = 0; i < elements.count; ++i) {
    if ((registers->k[mask] >> i & 1) == 0) continue;
    if (!memory->Write(elements.address[i], absl::MakeSpan(source.at + bytes * i, bytes))) {
      return false;
    }
  }
  registers->k[mask] = 0;
  return true;
}

}  // namespace hindsight

#include "server/target/scratch_xstate.h"

#include <Zydis/Zydis.h>
#include <sys/user.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "isa/cpuid.h"
#include "isa/decoder.h"
#include "isa/host_registers.h"
#include "isa/operand_address.h"

namespace hindsight {
namespace {

// The image begins with that of FXSAVE and a header: which components are not in their initial
// state, and of the compacted format also which have a place.
struct Header {
  uint64_t present = 0;
  uint64_t placed = 0;  // kCompacted is set in it
  uint64_t reserved[6] = {};
};
constexpr size_t kLegacyBytes = 512, kHeaderBytes = 64;
static_assert(sizeof(Header) == kHeaderBytes && sizeof(user_fpregs_struct) == kLegacyBytes);
constexpr uint64_t kCompacted = uint64_t{1} << 63;
constexpr size_t kImageAlignment = 64;

constexpr unsigned kX87 = 0, kSse = 1, kAvx = 2, kOpmask = 5, kZmmHigh = 6, kZmm16 = 7;
constexpr uint64_t Bit(unsigned component) { return uint64_t{1} << component; }
constexpr uint64_t kKnown =
    Bit(kX87) | Bit(kSse) | Bit(kAvx) | Bit(kOpmask) | Bit(kZmmHigh) | Bit(kZmm16);
constexpr uint32_t kXstateLeaf = 0xd;
constexpr uint64_t kInitialMxcsr = 0x1f80, kInitialControlWord = 0x37f;
constexpr uint32_t kAllMxcsrBits = 0xffff;  // as fxsave in an emulator stores them

// A component after the header, and what it is in the register file.
struct Field {
  unsigned component;
  size_t offset, bytes;
};
constexpr Field kFields[] = {
    {kAvx, offsetof(RegisterFile, ymm_high), sizeof(RegisterFile::ymm_high)},
    {kOpmask, offsetof(RegisterFile, k), sizeof(RegisterFile::k)},
    {kZmmHigh, offsetof(RegisterFile, zmm_high), sizeof(RegisterFile::zmm_high)},
    {kZmm16, offsetof(RegisterFile, zmm16), sizeof(RegisterFile::zmm16)},
};

uint8_t* In(RegisterFile* registers, const Field& field) {
  return reinterpret_cast<uint8_t*>(registers) + field.offset;
}

void ResetX87(RegisterFile* registers) {
  registers->fcw = kInitialControlWord;
  registers->fsw = registers->ftw = registers->fop = registers->fip = registers->fdp = 0;
  std::memset(registers->st, 0, sizeof(registers->st));
}

void ResetSse(RegisterFile* registers) { std::memset(registers->xmm, 0, sizeof(registers->xmm)); }

// The components that are not in their initial state.
uint64_t InUse(const RegisterFile& registers) {
  uint64_t in_use = 0;
  RegisterFile other = registers;
  ResetX87(&other);
  if (!(other == registers)) in_use |= Bit(kX87);
  other = registers;
  ResetSse(&other);
  if (!(other == registers) || registers.mxcsr != kInitialMxcsr) in_use |= Bit(kSse);
  for (const Field& field : kFields) {
    const uint8_t* const bytes = In(&other, field);
    if (std::any_of(bytes, bytes + field.bytes, [](uint8_t byte) { return byte != 0; })) {
      in_use |= Bit(field.component);
    }
  }
  return in_use;
}

// Where a component begins in an image in which those of `placed` follow each other, or, without
// kCompacted, in the standard format.
uint64_t OffsetOf(unsigned wanted, uint64_t placed) {
  if ((placed & kCompacted) == 0) return HostCpuid(kXstateLeaf, wanted).ebx;
  uint64_t offset = kLegacyBytes + kHeaderBytes;
  for (unsigned component = kAvx;; ++component) {
    if ((placed & Bit(component)) == 0) continue;
    const CpuidResult size = HostCpuid(kXstateLeaf, component);
    constexpr uint32_t kAligned = 2;
    if ((size.ecx & kAligned) != 0) offset = (offset + 63) / 64 * 64;
    if (component == wanted) return offset;
    offset += size.eax;
  }
}

// A legacy region and a header in the copy's memory, and what belongs to them.
class Image {
 public:
  Image(ScratchMachine* machine, uint64_t address) : machine_(machine), address_(address) {}

  bool Load() {
    return address_ % kImageAlignment == 0 &&
           machine_->Hold(address_, kLegacyBytes + kHeaderBytes).ok() &&
           Read(0, &legacy_, sizeof(legacy_)) && Read(kLegacyBytes, &header_, sizeof(header_));
  }
  bool Save(const RegisterFile& registers, uint64_t wanted, bool compact);
  bool Restore(uint64_t wanted, RegisterFile* registers);

 private:
  bool Read(uint64_t offset, void* out, size_t size) const {
    return machine_->ReadMemory(address_ + offset, {static_cast<uint8_t*>(out), size}) == size;
  }
  bool Write(uint64_t offset, const void* bytes, size_t size) const {
    const auto* const begin = static_cast<const uint8_t*>(bytes);
    return machine_->WriteMemory(address_ + offset, {begin, size}).ok();
  }

  ScratchMachine* const machine_;
  const uint64_t address_;
  user_fpregs_struct legacy_ = {};
  Header header_;
};

bool Image::Save(const RegisterFile& registers, uint64_t wanted, bool compact) {
  const uint64_t in_use = InUse(registers);
  const uint64_t stored = compact ? wanted & in_use : wanted;
  user_fpregs_struct whole = legacy_;
  RegistersToVectors(registers, &whole);
  // Only the parts that were asked for.
  user_fpregs_struct image = whole;
  if ((stored & Bit(kX87)) == 0) {
    image = legacy_;
    std::memcpy(image.xmm_space, whole.xmm_space, sizeof(image.xmm_space));
    image.mxcsr = whole.mxcsr;
  }
  if ((stored & Bit(kSse)) == 0) {
    std::memcpy(image.xmm_space, legacy_.xmm_space, sizeof(image.xmm_space));
  }
  const uint64_t with_mxcsr = compact ? stored & Bit(kSse) : wanted & (Bit(kSse) | Bit(kAvx));
  if (with_mxcsr == 0) {
    image.mxcsr = legacy_.mxcsr;
  } else {
    image.mxcr_mask = kAllMxcsrBits;
  }
  header_.present = compact ? wanted & in_use : (header_.present & ~wanted) | (wanted & in_use);
  if (compact) header_.placed = wanted | kCompacted;
  if (!Write(0, &image, sizeof(image)) || !Write(kLegacyBytes, &header_, sizeof(header_))) {
    return false;
  }
  RegisterFile copy = registers;
  for (const Field& field : kFields) {
    if ((stored & Bit(field.component)) == 0) continue;
    const uint64_t offset = OffsetOf(field.component, compact ? header_.placed : 0);
    if (!Write(offset, In(&copy, field), field.bytes)) return false;
  }
  return true;
}

bool Image::Restore(uint64_t wanted, RegisterFile* registers) {
  RegisterFile result = *registers;
  RegisterFile loaded = *registers;
  VectorsToRegisters(legacy_, &loaded);
  const uint64_t present = header_.present & wanted;
  if ((wanted & Bit(kX87)) != 0) {
    RegisterFile x87 = loaded;
    if ((present & Bit(kX87)) == 0) ResetX87(&x87);
    std::memcpy(x87.xmm, result.xmm, sizeof(x87.xmm));
    x87.mxcsr = result.mxcsr;
    result = x87;
  }
  const bool compact = (header_.placed & kCompacted) != 0;
  if ((wanted & Bit(kSse)) != 0) {
    std::memcpy(result.xmm, loaded.xmm, sizeof(result.xmm));
    if ((present & Bit(kSse)) == 0) ResetSse(&result);
  }
  if (compact && (wanted & Bit(kSse)) != 0) {
    result.mxcsr = (present & Bit(kSse)) != 0 ? loaded.mxcsr : kInitialMxcsr;
  } else if (!compact && (wanted & (Bit(kSse) | Bit(kAvx))) != 0) {
    result.mxcsr = loaded.mxcsr;
  }
  for (const Field& field : kFields) {
    if ((wanted & Bit(field.component)) == 0) continue;
    uint8_t* const bytes = In(&result, field);
    if ((present & Bit(field.component)) == 0) {
      std::memset(bytes, 0, field.bytes);
    } else if (!Read(OffsetOf(field.component, header_.placed), bytes, field.bytes)) {
      return false;
    }
  }
  *registers = result;
  return true;
}

}  // namespace

uint64_t XstateComponents() {
  constexpr uint32_t kOsXsave = 1u << 27;
  if ((HostCpuid(1, 0).ecx & kOsXsave) == 0) return 0;
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low | uint64_t{high} << 32) & kKnown;
}

bool ExecuteXstate(absl::Span<const uint8_t> code, ScratchMachine* machine,
                   RegisterFile* registers) {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!Decode(code, &instruction, operands) || instruction.operand_count == 0 ||
      operands[0].type != ZYDIS_OPERAND_TYPE_MEMORY) {
    return false;
  }
  Image image(machine, OperandAddress(instruction, operands[0]).Compute(*registers));
  const uint64_t wanted =
      XstateComponents() & ((registers->gpr[kRax] & 0xffffffff) | registers->gpr[kRdx] << 32);
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_XSAVE:
    case ZYDIS_MNEMONIC_XSAVE64:
    case ZYDIS_MNEMONIC_XSAVEOPT:
    case ZYDIS_MNEMONIC_XSAVEOPT64:
      return image.Load() && image.Save(*registers, wanted, /*compact=*/false);
    case ZYDIS_MNEMONIC_XSAVEC:
    case ZYDIS_MNEMONIC_XSAVEC64:
      return image.Load() && image.Save(*registers, wanted, /*compact=*/true);
    case ZYDIS_MNEMONIC_XRSTOR:
    case ZYDIS_MNEMONIC_XRSTOR64:
      return image.Load() && image.Restore(wanted, registers);
    default:
      return false;
  }
}

}  // namespace hindsight

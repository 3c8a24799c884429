#include "emulator/assist/host_assist.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "base/check.h"
#include "emulator/assist/gather.h"
#include "emulator/assist/stub_faults.h"
#include "isa/host_registers.h"
#include "isa/vector_bytes.h"

namespace hindsight {
namespace {

constexpr size_t kBlockBytes = 64 << 10;
constexpr size_t kCodeAlignment = 64;
constexpr size_t kBufferAlignment = 64;

// The elements in memory of which at least one copy is wanted.
uint64_t FoldMask(const HostPlan& plan, uint64_t mask) {
  const ZydisDecodedOperand& destination = plan.operands[0];
  const ZydisDecodedOperand& memory = plan.operands[plan.memory_operand];
  const bool opmask = ZydisRegisterGetClass(destination.reg.value) == ZYDIS_REGCLASS_MASK;
  unsigned copies = plan.instruction.avx.vector_length / memory.element_size;
  if (!opmask) copies = std::min<unsigned>(copies, destination.element_count);
  uint64_t folded = 0;
  for (unsigned i = 0; i < copies; ++i) folded |= (mask >> i & 1) << i % memory.element_count;
  return folded;
}

// An exception that `plan`, which began with this fsw, has left pending: the pointers are those of
// the instruction, whatever comes between it and the handler. Of others they are not kept.
void NoteX87Exception(const HostPlan& plan, uint64_t before, RegisterFile* registers) {
  constexpr uint64_t kPending = 0x80;
  if ((before & kPending) != 0 || (registers->fsw & kPending) == 0 ||
      plan.instruction.mnemonic == ZYDIS_MNEMONIC_FLDCW) {
    return;
  }
  const auto& modrm = plan.instruction.raw.modrm;
  registers->fop = (plan.instruction.opcode & 7u) << 8 | static_cast<uint64_t>(modrm.mod) << 6 |
                   static_cast<uint64_t>(modrm.reg) << 3 | modrm.rm;
  registers->fip = registers->rip;
  if (plan.memory_operand >= 0) registers->fdp = plan.address.Compute(*registers);
}

// No code of the block runs meanwhile: it is one thread's.
bool PutCode(uint8_t* block, uint8_t* at, absl::Span<const uint8_t> code) {
  if (mprotect(block, kBlockBytes, PROT_READ | PROT_WRITE) != 0) return false;
  std::memcpy(at, code.data(), code.size());
  CHECK(mprotect(block, kBlockBytes, PROT_READ | PROT_EXEC) == 0);
  return true;
}

}  // namespace

HostAssist::HostAssist() { StubFaultScope::Install(); }

HostAssist::~HostAssist() {
  for (uint8_t* block : blocks_) munmap(block, kBlockBytes);
}

absl::StatusOr<HostInstruction> HostAssist::Prepare(HostPlan plan) {
  HostInstruction instruction;
  instruction.plan = std::move(plan);
  if (instruction.plan.is_gather || instruction.plan.is_scatter) return instruction;
  const Stub stub = WriteStub(instruction.plan);
  if (blocks_.empty() || used_ + stub.code.size() > kBlockBytes) {
    void* const block =
        mmap(nullptr, kBlockBytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return absl::ResourceExhaustedError("no memory for code");
    blocks_.push_back(static_cast<uint8_t*>(block));
    used_ = 0;
  }
  uint8_t* const code = blocks_.back() + used_;
  if (!PutCode(blocks_.back(), code, stub.code)) {
    return absl::ResourceExhaustedError("no memory for code");
  }
  used_ += (stub.code.size() + kCodeAlignment - 1) & ~(kCodeAlignment - 1);
  instruction.run = reinterpret_cast<StubFunction>(code);
  instruction.end = reinterpret_cast<uint64_t>(code) + stub.code.size();
  instruction.bail = reinterpret_cast<uint64_t>(code) + stub.bail;
  return instruction;
}

HostAssist::Extent HostAssist::FindExtent(const HostPlan& plan, const RegisterFile& registers) {
  const size_t whole = plan.memory_bytes;
  const size_t element = plan.element_bytes;
  uint64_t mask = registers.k[plan.mask_register & 7];
  switch (plan.extent) {
    case MemoryExtent::kNone:
      return {};
    case MemoryExtent::kWhole:
      return {0, whole};
    case MemoryExtent::kFoldedOpmask:
      mask = FoldMask(plan, mask);
      break;
    case MemoryExtent::kLowOpmask:
      return {0, (mask & 1) != 0 ? whole : 0};
    case MemoryExtent::kPacked:
      if (whole / element < 64) mask &= (uint64_t{1} << (whole / element)) - 1;
      return {0, static_cast<size_t>(std::popcount(mask)) * element};
    case MemoryExtent::kVectorMask: {
      const VectorBytes vector = ReadVector(registers, plan.mask_register);
      mask = 0;
      for (size_t i = 0; i < whole / element; ++i) {
        mask |= static_cast<uint64_t>(vector.at[element * (i + 1) - 1] >> 7) << i;
      }
      break;
    }
    case MemoryExtent::kOpmask:
      break;
  }
  if (whole / element < 64) mask &= (uint64_t{1} << (whole / element)) - 1;
  if (mask == 0) return {};
  const auto first = static_cast<size_t>(std::countr_zero(mask));
  const auto last = static_cast<size_t>(63 - std::countl_zero(mask));
  return {first * element, (last + 1) * element};
}

bool HostAssist::Call(const HostInstruction& instruction, void* memory, RegisterFile* registers) {
  const auto begin = reinterpret_cast<uint64_t>(instruction.run);
  if (!instruction.plan.uses_x87) {
    StubFaultScope scope(begin, instruction.end, instruction.bail);
    return instruction.run(registers, memory, nullptr) == 0;
  }
  RegistersToVectors(*registers, &image_);
  {
    StubFaultScope scope(begin, instruction.end, instruction.bail);
    if (instruction.run(registers, memory, &image_) != 0) return false;
  }
  // The pointers would be those of our code and data; vendors disagree about them anyway.
  const uint64_t opcode = registers->fop, code = registers->fip, data = registers->fdp;
  VectorsToRegisters(image_, registers);
  registers->fop = opcode;
  registers->fip = code;
  registers->fdp = data;
  return true;
}

bool HostAssist::RunWithMemory(const HostInstruction& instruction, uint64_t address,
                               RegisterFile* registers, GuestMemory* memory) {
  const HostPlan& plan = instruction.plan;
  const Extent extent = FindExtent(plan, *registers);
  if (extent.begin == extent.end) {
    // All is masked off; a misaligned address still faults.
    return Call(instruction, buffer_ + address % kBufferAlignment, registers);
  }
  uint8_t* const direct =
      memory->Pointer(address + extent.begin, extent.end - extent.begin, plan.writes_memory);
  return direct != nullptr ? Call(instruction, direct - extent.begin, registers)
                           : RunOnBuffer(instruction, address, extent, registers, memory);
}

bool HostAssist::RunOnBuffer(const HostInstruction& instruction, uint64_t address, Extent extent,
                             RegisterFile* registers, GuestMemory* memory) {
  const HostPlan& plan = instruction.plan;
  uint8_t* const operand = buffer_ + address % kBufferAlignment;
  uint8_t* const begin = operand + extent.begin;
  const uint64_t first = address + extent.begin;
  const size_t size = extent.end - extent.begin;
  if (plan.writes_memory && !memory->MayWrite(first, absl::MakeSpan(begin, size))) return false;
  if (plan.reads_memory && !memory->Read(first, absl::MakeSpan(begin, size))) return false;
  if (!Call(instruction, operand, registers)) return false;
  return !plan.writes_memory || memory->Write(first, absl::MakeConstSpan(begin, size));
}

bool HostAssist::Run(const HostInstruction& instruction, RegisterFile* registers,
                     GuestMemory* memory) {
  const HostPlan& plan = instruction.plan;
  const uint64_t x87_status = registers->fsw;
  bool ok;
  if (plan.is_gather || plan.is_scatter) {
    ok = plan.is_gather ? Gather(plan, registers, memory) : Scatter(plan, registers, memory);
  } else if (plan.memory_operand < 0) {
    ok = Call(instruction, buffer_, registers);
  } else {
    ok = RunWithMemory(instruction, plan.address.Compute(*registers), registers, memory);
  }
  if (ok && plan.uses_x87) NoteX87Exception(plan, x87_status, registers);
  if (ok) registers->rip += plan.instruction.length;
  return ok;
}

}  // namespace hindsight

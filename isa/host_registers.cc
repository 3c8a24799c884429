#include "isa/host_registers.h"

#include <cpuid.h>

#include <cstring>

namespace hindsight {
namespace {

using Word = unsigned long long user_regs_struct::*;

// In the order of RegisterFile::gpr.
constexpr Word kGprs[16] = {
    &user_regs_struct::rax, &user_regs_struct::rcx, &user_regs_struct::rdx, &user_regs_struct::rbx,
    &user_regs_struct::rsp, &user_regs_struct::rbp, &user_regs_struct::rsi, &user_regs_struct::rdi,
    &user_regs_struct::r8,  &user_regs_struct::r9,  &user_regs_struct::r10, &user_regs_struct::r11,
    &user_regs_struct::r12, &user_regs_struct::r13, &user_regs_struct::r14, &user_regs_struct::r15};

// The ten bytes of an x87 register; the six after them in FXSAVE's slot are reserved.
constexpr size_t kX87Bytes = 10;

// XSAVE's image begins with that of FXSAVE and a header, whose first word says which components
// are not in their initial state.
constexpr size_t kLegacyBytes = 512;
constexpr size_t kHeaderBytes = 64;
static_assert(sizeof(user_fpregs_struct) == kLegacyBytes);
// Numbers of components; the bits of the header's word, and of XCR0.
constexpr unsigned kX87 = 0, kSse = 1, kAvx = 2, kOpmask = 5, kZmmHigh = 6, kZmm16 = 7;
constexpr uint64_t kInitialControlWord = 0x37f;

// One component after the header and the field of the register file that it is.
struct Component {
  unsigned number;
  size_t field;  // offset in the register file
  size_t bytes;
  size_t offset;  // in the image; 0: the host does not have it
};

struct XstateLayout {
  size_t bytes = 0;
  Component components[4] = {
      {kAvx, offsetof(RegisterFile, ymm_high), sizeof(RegisterFile::ymm_high), 0},
      {kZmmHigh, offsetof(RegisterFile, zmm_high), sizeof(RegisterFile::zmm_high), 0},
      {kZmm16, offsetof(RegisterFile, zmm16), sizeof(RegisterFile::zmm16), 0},
      {kOpmask, offsetof(RegisterFile, k), sizeof(RegisterFile::k), 0},
  };
};

uint64_t EnabledComponents() {
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low | uint64_t{high} << 32;
}

XstateLayout FindXstateLayout() {
  constexpr unsigned kLeaf = 0xd;
  XstateLayout layout;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return layout;
  if (__get_cpuid_count(kLeaf, 0, &a, &b, &c, &d) == 0) return layout;
  layout.bytes = b;
  const uint64_t enabled = EnabledComponents();
  for (Component& component : layout.components) {
    if ((enabled >> component.number & 1) == 0) continue;
    __cpuid_count(kLeaf, component.number, a, b, c, d);
    if (a == component.bytes) component.offset = b;
  }
  return layout;
}

const XstateLayout& HostXstateLayout() {
  static const XstateLayout layout = FindXstateLayout();
  return layout;
}

bool AllZero(const uint8_t* bytes, size_t size) {
  return bytes[0] == 0 && std::memcmp(bytes, bytes + 1, size - 1) == 0;
}

}  // namespace

void GeneralToRegisters(const user_regs_struct& general, RegisterFile* registers) {
  for (int i = 0; i < 16; ++i) registers->gpr[i] = general.*kGprs[i];
  registers->rip = general.rip;
  registers->rflags = general.eflags & ~(kTrapFlag | kResumeFlag);
  registers->fs_base = general.fs_base;
  registers->gs_base = general.gs_base;
  registers->cs = general.cs;
  registers->ss = general.ss;
  registers->ds = general.ds;
  registers->es = general.es;
  registers->fs = general.fs;
  registers->gs = general.gs;
}

void VectorsToRegisters(const user_fpregs_struct& vectors, RegisterFile* registers) {
  registers->mxcsr = vectors.mxcsr;
  registers->fcw = vectors.cwd;
  registers->fsw = vectors.swd;
  registers->ftw = vectors.ftw & 0xff;
  registers->fop = vectors.fop;
  registers->fip = vectors.rip;
  registers->fdp = vectors.rdp;
  std::memset(registers->st, 0, sizeof(registers->st));
  for (int i = 0; i < 8; ++i) std::memcpy(registers->st[i], &vectors.st_space[4 * i], kX87Bytes);
  std::memcpy(registers->xmm, vectors.xmm_space, sizeof(registers->xmm));
}

void RegistersToGeneral(const RegisterFile& registers, user_regs_struct* general) {
  for (int i = 0; i < 16; ++i) general->*kGprs[i] = registers.gpr[i];
  general->orig_rax = ~0ull;
  general->rip = registers.rip;
  general->eflags = registers.rflags;
  general->fs_base = registers.fs_base;
  general->gs_base = registers.gs_base;
  general->cs = registers.cs;
  general->ss = registers.ss;
  general->ds = registers.ds;
  general->es = registers.es;
  general->fs = registers.fs;
  general->gs = registers.gs;
}

void RegistersToVectors(const RegisterFile& registers, user_fpregs_struct* vectors) {
  vectors->mxcsr = registers.mxcsr;
  vectors->cwd = registers.fcw;
  vectors->swd = registers.fsw;
  vectors->ftw = registers.ftw;
  vectors->fop = registers.fop;
  vectors->rip = registers.fip;
  vectors->rdp = registers.fdp;
  for (int i = 0; i < 8; ++i) std::memcpy(&vectors->st_space[4 * i], registers.st[i], kX87Bytes);
  std::memcpy(vectors->xmm_space, registers.xmm, sizeof(registers.xmm));
}

size_t XstateBytes() { return HostXstateLayout().bytes; }

std::array<uint32_t, 4> XstateOffsets() {
  std::array<uint32_t, 4> offsets = {};
  for (size_t i = 0; i < offsets.size(); ++i) {
    offsets[i] = static_cast<uint32_t>(HostXstateLayout().components[i].offset);
  }
  return offsets;
}

bool XstateToRegisters(absl::Span<const uint8_t> image, RegisterFile* registers) {
  if (image.size() < kLegacyBytes + kHeaderBytes) return false;
  uint64_t present = 0;
  std::memcpy(&present, image.data() + kLegacyBytes, sizeof(present));
  user_fpregs_struct legacy;
  std::memcpy(&legacy, image.data(), sizeof(legacy));
  if ((present >> kX87 & 1) == 0) {
    legacy.cwd = kInitialControlWord;
    legacy.swd = legacy.ftw = legacy.fop = 0;
    legacy.rip = legacy.rdp = 0;
    std::memset(legacy.st_space, 0, sizeof(legacy.st_space));
  }
  // MXCSR belongs to no component's presence: XSAVE always writes it.
  if ((present >> kSse & 1) == 0) std::memset(legacy.xmm_space, 0, sizeof(legacy.xmm_space));
  VectorsToRegisters(legacy, registers);
  for (const Component& component : HostXstateLayout().components) {
    uint8_t* const field = reinterpret_cast<uint8_t*>(registers) + component.field;
    if (component.offset == 0 || component.offset + component.bytes > image.size() ||
        (present >> component.number & 1) == 0) {
      std::memset(field, 0, component.bytes);
    } else {
      std::memcpy(field, image.data() + component.offset, component.bytes);
    }
  }
  return true;
}

void RegistersToXstate(const RegisterFile& registers, absl::Span<uint8_t> image) {
  if (image.size() < kLegacyBytes + kHeaderBytes) return;
  uint64_t present = 0;
  std::memcpy(&present, image.data() + kLegacyBytes, sizeof(present));
  user_fpregs_struct legacy;
  std::memcpy(&legacy, image.data(), sizeof(legacy));
  RegistersToVectors(registers, &legacy);
  std::memcpy(image.data(), &legacy, sizeof(legacy));
  present |= uint64_t{1} << kX87 | uint64_t{1} << kSse;
  for (const Component& component : HostXstateLayout().components) {
    if (component.offset == 0 || component.offset + component.bytes > image.size()) continue;
    const uint8_t* const field = reinterpret_cast<const uint8_t*>(&registers) + component.field;
    std::memcpy(image.data() + component.offset, field, component.bytes);
    // A component of zeros is in its initial state: marked so, the processor need not carry it.
    const uint64_t bit = uint64_t{1} << component.number;
    present = AllZero(field, component.bytes) ? present & ~bit : present | bit;
  }
  std::memcpy(image.data() + kLegacyBytes, &present, sizeof(present));
}

}  // namespace hindsight

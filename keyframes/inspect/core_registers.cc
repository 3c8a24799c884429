#include "keyframes/inspect/core_registers.h"

#include <cstddef>
#include <cstring>

#include "isa/host_registers.h"

namespace hindsight {
namespace {

// XSAVE's image (SDM vol. 1, 13.4): the legacy region, the header, then the components.
constexpr size_t kSoftwareMaskOffset = 464;  // in the legacy region
constexpr size_t kHeaderOffset = 512;
constexpr size_t kLegacyBytes = 576;  // with the header
constexpr uint64_t kX87AndSse = 0x3;

struct Component {
  uint32_t type;
  uint32_t size;
  uint32_t offset;
};
constexpr Component kAvx = {2, 256, 576};
constexpr Component kOpmask = {5, 64, 1088};
constexpr Component kZmmHigh = {6, 512, 1152};
constexpr Component kZmm16 = {7, 1024, 1664};
constexpr Component kComponents[] = {kAvx, kOpmask, kZmmHigh, kZmm16};
static_assert(sizeof(RegisterFile::ymm_high) == kAvx.size);
static_assert(sizeof(RegisterFile::k) == kOpmask.size);
static_assert(sizeof(RegisterFile::zmm_high) == kZmmHigh.size);
static_assert(sizeof(RegisterFile::zmm16) == kZmm16.size);

// What processors allow in MXCSR.
constexpr uint32_t kMxcsrMask = 0xffff;

}  // namespace

user_regs_struct CoreGeneral(const RegisterFile& registers, int64_t orig_rax) {
  user_regs_struct general = {};
  RegistersToGeneral(registers, &general);
  general.orig_rax = static_cast<unsigned long long>(orig_rax);
  return general;
}

user_fpregs_struct CoreVectors(const RegisterFile& registers) {
  user_fpregs_struct vectors = {};
  RegistersToVectors(registers, &vectors);
  vectors.mxcr_mask = kMxcsrMask;
  return vectors;
}

std::string CoreXstate(const RegisterFile& registers, bool extended) {
  std::string image(extended ? kZmm16.offset + kZmm16.size : kLegacyBytes, '\0');
  const user_fpregs_struct legacy = CoreVectors(registers);
  std::memcpy(image.data(), &legacy, sizeof(legacy));
  uint64_t mask = kX87AndSse;
  if (extended) {
    for (const Component& component : kComponents) mask |= uint64_t{1} << component.type;
    std::memcpy(&image[kAvx.offset], registers.ymm_high, kAvx.size);
    std::memcpy(&image[kOpmask.offset], registers.k, kOpmask.size);
    std::memcpy(&image[kZmmHigh.offset], registers.zmm_high, kZmmHigh.size);
    std::memcpy(&image[kZmm16.offset], registers.zmm16, kZmm16.size);
  }
  std::memcpy(&image[kSoftwareMaskOffset], &mask, sizeof(mask));
  std::memcpy(&image[kHeaderOffset], &mask, sizeof(mask));
  return image;
}

std::vector<uint32_t> CoreXstateLayout(bool extended) {
  std::vector<uint32_t> layout;
  if (!extended) return layout;
  for (const Component& component : kComponents) {
    layout.insert(layout.end(), {component.type, component.size, component.offset, 0});
  }
  return layout;
}

}  // namespace hindsight

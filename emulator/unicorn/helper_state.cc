#include "emulator/unicorn/helper_state.h"

#include <unicorn/unicorn.h>

#include <cstring>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "emulator/unicorn/float_helpers.h"

namespace {

// Where helper_emms leaves the state it is called with.
thread_local void** wanted_state = nullptr;

}  // namespace

// emms is never given to Unicorn by a Cpu: its helper serves the measurement.
extern "C" __attribute__((visibility("default"))) void helper_emms_x86_64(void* env) {
  if (wanted_state != nullptr) *wanted_state = env;
}

namespace hindsight {

HelperOffsets helper_offsets;

namespace {

constexpr uint64_t kCode = 0x10000;
// More than what lies before and in the x87's part of Unicorn's state.
constexpr size_t kStateBytes = 0x400;

// A Unicorn instance whose state is looked at.
class Laboratory {
 public:
  Laboratory() {
    if (uc_open(UC_ARCH_X86, UC_MODE_64, &uc_) != UC_ERR_OK) return;
    constexpr uint8_t kEmms[] = {0x0f, 0x77};
    usable_ = uc_mem_map(uc_, kCode, 0x1000, UC_PROT_ALL) == UC_ERR_OK &&
              uc_mem_write(uc_, kCode, kEmms, sizeof(kEmms)) == UC_ERR_OK;
  }
  ~Laboratory() {
    if (uc_ != nullptr) uc_close(uc_);
  }
  Laboratory(const Laboratory&) = delete;
  Laboratory& operator=(const Laboratory&) = delete;

  // Empty if our helper is not called.
  std::vector<uint8_t> State(const X87Unit& unit, uint64_t flags) {
    if (!usable_) return {};
    Set(unit, flags);
    void* state = nullptr;
    wanted_state = &state;
    const uc_err error = uc_emu_start(uc_, kCode, kCode + 2, 0, 0);
    wanted_state = nullptr;
    if (error != UC_ERR_OK || state == nullptr) return {};
    auto bytes = static_cast<const uint8_t*>(state);
    return {bytes, bytes + kStateBytes};
  }

 private:
  void Set(const X87Unit& unit, uint64_t flags) {
    const auto status = static_cast<uint16_t>(unit.status | unit.top << 11);
    uint16_t tags = 0;
    for (int i = 0; i < 8; ++i) {
      uc_reg_write(uc_, UC_X86_REG_FP0 + i, &unit.at[i]);
      if (unit.empty[i] != 0) tags |= static_cast<uint16_t>(3u << (2 * i));
    }
    uc_reg_write(uc_, UC_X86_REG_FPSW, &status);
    uc_reg_write(uc_, UC_X86_REG_FPCW, &unit.control);
    uc_reg_write(uc_, UC_X86_REG_FPTAG, &tags);
    uc_reg_write(uc_, UC_X86_REG_EFLAGS, &flags);
  }

  uc_engine* uc_ = nullptr;
  bool usable_ = false;
};

// The only offset at which `wanted` is found.
std::optional<size_t> OnlyPlace(absl::Span<const uint8_t> state, const void* wanted, size_t size) {
  std::optional<size_t> found;
  for (size_t i = 0; i + size <= state.size(); ++i) {
    if (std::memcmp(&state[i], wanted, size) != 0) continue;
    if (found.has_value()) return std::nullopt;
    found = i;
  }
  return found;
}

bool Measure() {
  LinkSseHelpers();
  LinkX87Helpers();
  Laboratory laboratory;
  X87Unit unit;
  unit.top = 5;
  unit.status = 0x4100;
  unit.control = 0xb7f;
  for (unsigned i = 0; i < 8; ++i) {
    unit.at[i].significand = 0x8123'4567'89ab'cdef + i;
    unit.at[i].exponent = static_cast<uint16_t>(0x3f00 + i);
    unit.empty[i] = i == 2 || i == 7;
  }
  // Arithmetic flags only, as they lie where all have been computed.
  const uint64_t flags[] = {0x8d5, 0x041};
  std::optional<size_t> x87, arithmetic;
  for (const uint64_t& wanted : flags) {
    ++unit.top;
    unit.status ^= 0x0400;
    const std::vector<uint8_t> state = laboratory.State(unit, wanted | 2);
    if (state.empty()) return false;
    const auto x87_here = OnlyPlace(state, &unit, sizeof(unit));
    const auto flags_here = OnlyPlace(state, &wanted, sizeof(wanted));
    if (!x87_here.has_value() || !flags_here.has_value()) return false;
    if (x87.has_value() && (x87 != x87_here || arithmetic != flags_here)) return false;
    x87 = x87_here;
    arithmetic = flags_here;
  }
  helper_offsets = {.x87 = *x87, .flags = *arithmetic};
  return true;
}

}  // namespace

bool FloatHelpersInUse() {
  static const bool uses = Measure();
  return uses;
}

}  // namespace hindsight

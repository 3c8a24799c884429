#include "emulator/float_flags.h"

#include <unicorn/unicorn.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

constexpr uint64_t kCode = 0x10000;
constexpr uint8_t kDivideByZero = 0x04;
constexpr uint8_t kInexact = 0x20;

// A Unicorn instance in which single instructions are executed and its context compared.
class Laboratory {
 public:
  Laboratory() {
    if (uc_open(UC_ARCH_X86, UC_MODE_64, &uc_) != UC_ERR_OK) return;
    usable_ = uc_mem_map(uc_, kCode, 0x1000, UC_PROT_ALL) == UC_ERR_OK &&
              uc_context_alloc(uc_, &context_) == UC_ERR_OK;
  }
  ~Laboratory() {
    if (context_ != nullptr) uc_context_free(context_);
    if (uc_ != nullptr) uc_close(uc_);
  }
  Laboratory(const Laboratory&) = delete;
  Laboratory& operator=(const Laboratory&) = delete;

  bool usable() const { return usable_; }

  std::vector<uint8_t> Context() {
    uc_context_save(uc_, context_);
    auto bytes = reinterpret_cast<const uint8_t*>(context_);
    return std::vector<uint8_t>(bytes, bytes + uc_context_size(uc_));
  }

  bool Execute(std::initializer_list<uint8_t> code) {
    uc_mem_write(uc_, kCode, code.begin(), code.size());
    uc_ctl_remove_cache(uc_, kCode, kCode + 0x1000);
    return uc_emu_start(uc_, kCode, kCode + code.size(), 0, 0) == UC_ERR_OK;
  }

  void SetOperands() {
    const double values[4][2] = {{0.1, 0}, {0.3, 0}, {1, 0}, {0, 0}};
    for (int i = 0; i < 4; ++i) uc_reg_write(uc_, UC_X86_REG_XMM0 + i, values[i]);
    const uint16_t control = 0x37f;
    uc_reg_write(uc_, UC_X86_REG_FPCW, &control);
  }

 private:
  uc_engine* uc_ = nullptr;
  uc_context* context_ = nullptr;
  bool usable_ = false;
};

// The one place that is 0, then has the inexact flag, then divide-by-zero as well.
absl::StatusOr<size_t> OnlyPlace(absl::Span<const uint8_t> before,
                                 absl::Span<const uint8_t> inexact,
                                 absl::Span<const uint8_t> both) {
  size_t found = 0, hits = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] == 0 && inexact[i] == kInexact && both[i] == (kInexact | kDivideByZero)) {
      found = i;
      ++hits;
    }
  }
  if (hits != 1) {
    return absl::InternalError("this build of Unicorn keeps floating-point flags elsewhere");
  }
  return found;
}

absl::StatusOr<FloatFlagOffsets> Measure() {
  Laboratory laboratory;
  if (!laboratory.usable()) return absl::InternalError("cannot make a Unicorn instance");
  laboratory.SetOperands();
  const std::vector<uint8_t> start = laboratory.Context();
  // addsd xmm0,xmm1 (inexact); divsd xmm2,xmm3 (1/0)
  bool ok = laboratory.Execute({0xf2, 0x0f, 0x58, 0xc1});
  const std::vector<uint8_t> added = laboratory.Context();
  ok = laboratory.Execute({0xf2, 0x0f, 0x5e, 0xd3}) && ok;
  const std::vector<uint8_t> divided = laboratory.Context();
  // fld1; fldpi; faddp (inexact); then fld1; fldz; fdivp (1/0)
  ok = laboratory.Execute({0xd9, 0xe8, 0xd9, 0xeb, 0xde, 0xc1}) && ok;
  const std::vector<uint8_t> x87_added = laboratory.Context();
  ok = laboratory.Execute({0xd9, 0xe8, 0xd9, 0xee, 0xde, 0xf9}) && ok;
  const std::vector<uint8_t> x87_divided = laboratory.Context();
  if (!ok) return absl::InternalError("Unicorn cannot run plain arithmetic");
  FloatFlagOffsets offsets;
  ASSIGN_OR_RETURN(offsets.sse, OnlyPlace(start, added, divided));
  ASSIGN_OR_RETURN(offsets.x87, OnlyPlace(divided, x87_added, x87_divided));
  return offsets;
}

}  // namespace

absl::StatusOr<FloatFlagOffsets> FindFloatFlags() {
  static const absl::StatusOr<FloatFlagOffsets> offsets = Measure();
  return offsets;
}

}  // namespace hindsight

#include "emulator/unicorn/context_layout.h"

#include <unicorn/unicorn.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

constexpr int kGprIds[16] = {UC_X86_REG_RAX, UC_X86_REG_RCX, UC_X86_REG_RDX, UC_X86_REG_RBX,
                             UC_X86_REG_RSP, UC_X86_REG_RBP, UC_X86_REG_RSI, UC_X86_REG_RDI,
                             UC_X86_REG_R8,  UC_X86_REG_R9,  UC_X86_REG_R10, UC_X86_REG_R11,
                             UC_X86_REG_R12, UC_X86_REG_R13, UC_X86_REG_R14, UC_X86_REG_R15};
// Canonical as an address, and nothing that a new engine holds.
constexpr uint64_t kPattern = 0x0000'5a5a'1234'5600;
constexpr uint64_t kFsPattern = kPattern + 0x40, kGsPattern = kPattern + 0x41;
constexpr uint64_t kXmmPattern = kPattern + 0x80;
// The x87's part is some 250 bytes.
constexpr size_t kMostX87Bytes = 1024;

class Laboratory {
 public:
  Laboratory() {
    if (uc_open(UC_ARCH_X86, UC_MODE_64, &uc_) != UC_ERR_OK) return;
    usable_ = uc_context_alloc(uc_, &context_) == UC_ERR_OK;
  }
  ~Laboratory() {
    if (context_ != nullptr) uc_context_free(context_);
    if (uc_ != nullptr) uc_close(uc_);
  }
  Laboratory(const Laboratory&) = delete;
  Laboratory& operator=(const Laboratory&) = delete;

  bool usable() const { return usable_; }
  void Set(int id, const void* value) { uc_reg_write(uc_, id, value); }

  std::vector<uint8_t> Context() {
    uc_context_save(uc_, context_);
    auto bytes = reinterpret_cast<const uint8_t*>(context_);
    return std::vector<uint8_t>(bytes, bytes + uc_context_size(uc_));
  }

 private:
  uc_engine* uc_ = nullptr;
  uc_context* context_ = nullptr;
  bool usable_ = false;
};

absl::Status Elsewhere() {
  return absl::InternalError("this build of Unicorn keeps registers elsewhere");
}

// The one place that holds `words`.
template <size_t kWords>
absl::Status FindOnly(const std::vector<uint8_t>& context, const uint64_t (&words)[kWords],
                      size_t* place) {
  int hits = 0;
  for (size_t i = 0; i + sizeof(words) <= context.size(); ++i) {
    if (std::memcmp(&context[i], words, sizeof(words)) != 0) continue;
    *place = i;
    ++hits;
  }
  return hits == 1 ? absl::OkStatus() : Elsewhere();
}

absl::Status FindWords(Laboratory* laboratory, ContextLayout* layout) {
  for (unsigned i = 0; i < 16; ++i) {
    const uint64_t gpr = kPattern + i, xmm[2] = {kXmmPattern + i, ~(kXmmPattern + i)};
    laboratory->Set(kGprIds[i], &gpr);
    laboratory->Set(UC_X86_REG_XMM0 + static_cast<int>(i), xmm);
  }
  laboratory->Set(UC_X86_REG_FS_BASE, &kFsPattern);
  laboratory->Set(UC_X86_REG_GS_BASE, &kGsPattern);
  const std::vector<uint8_t> context = laboratory->Context();
  for (unsigned i = 0; i < 16; ++i) {
    RETURN_IF_ERROR(FindOnly(context, {kPattern + i}, &layout->gpr[i]));
    RETURN_IF_ERROR(FindOnly(context, {kXmmPattern + i, ~(kXmmPattern + i)}, &layout->xmm[i]));
  }
  RETURN_IF_ERROR(FindOnly(context, {kFsPattern}, &layout->fs_base));
  return FindOnly(context, {kGsPattern}, &layout->gs_base);
}

// What differs once everything of the x87's is another.
absl::Status FindX87(Laboratory* laboratory, ContextLayout* layout) {
  const std::vector<uint8_t> before = laboratory->Context();
  const uint16_t control = 0x0c40, status = 0x3f7f, tags = 0, opcode = 0x7ff;
  const uint64_t value[2] = {~uint64_t{0}, 0xffff}, pointer = kPattern;
  laboratory->Set(UC_X86_REG_FPCW, &control);
  laboratory->Set(UC_X86_REG_FPSW, &status);
  for (int i = 0; i < 8; ++i) laboratory->Set(UC_X86_REG_FP0 + i, value);
  laboratory->Set(UC_X86_REG_FPTAG, &tags);
  laboratory->Set(UC_X86_REG_FIP, &pointer);
  laboratory->Set(UC_X86_REG_FDP, &pointer);
  laboratory->Set(UC_X86_REG_FOP, &opcode);
  const std::vector<uint8_t> after = laboratory->Context();
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    if (layout->x87_end == 0) layout->x87_begin = i;
    layout->x87_end = i + 1;
  }
  const size_t size = layout->x87_end - layout->x87_begin;
  return size >= 8 * 10 && size <= kMostX87Bytes ? absl::OkStatus() : Elsewhere();
}

absl::StatusOr<ContextLayout> Measure() {
  Laboratory laboratory;
  if (!laboratory.usable()) return absl::InternalError("cannot make a Unicorn instance");
  ContextLayout layout;
  RETURN_IF_ERROR(FindWords(&laboratory, &layout));
  RETURN_IF_ERROR(FindX87(&laboratory, &layout));
  return layout;
}

}  // namespace

absl::StatusOr<ContextLayout> FindContextLayout() {
  static const absl::StatusOr<ContextLayout> layout = Measure();
  return layout;
}

}  // namespace hindsight

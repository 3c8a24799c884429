#include "recorder/translate/code_check.h"

#include <cstring>
#include <initializer_list>
#include <utility>

#include "base/check.h"
#include "isa/registers.h"
#include "translator/thread_block.h"

namespace hindsight {
namespace {

// Instructions, and where they are.
class Writer {
 public:
  explicit Writer(uint64_t host) : host_(host) {}

  uint64_t here() const { return host_ + code_.size(); }
  void Bytes(std::initializer_list<uint8_t> bytes) {
    code_.insert(code_.end(), bytes.begin(), bytes.end());
  }
  template <typename T>
  void Value(T value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    code_.insert(code_.end(), bytes, bytes + sizeof(value));
  }
  void Jump(uint64_t target) {
    Bytes({0xe9});
    Value(static_cast<int32_t>(target - (here() + 4)));
  }
  void PadTo(uint64_t address) {
    while (here() < address) Bytes({0xcc});
  }
  std::vector<uint8_t> Take() { return std::move(code_); }

 private:
  const uint64_t host_;
  std::vector<uint8_t> code_;
};

void SaveRcx(Writer* code) {
  code->Bytes({0x65, 0x48, 0x89, 0x0c, 0x25});  // mov %rcx, %gs:save[0]
  code->Value(HS_BLOCK_FIELD(save));
}

void RestoreRcx(Writer* code) {
  code->Bytes({0x65, 0x48, 0x8b, 0x0c, 0x25});  // mov %gs:save[0], %rcx
  code->Value(HS_BLOCK_FIELD(save));
}

constexpr uint64_t kSaveBytes = 9, kJumpBytes = 5;

// How many bytes one comparison takes.
uint64_t PieceBytes(uint64_t guest_bytes) {
  return guest_bytes >= 8 ? 8 : guest_bytes >= 4 ? 4 : guest_bytes >= 2 ? 2 : 1;
}

uint64_t PieceCount(uint64_t guest_bytes) {
  const uint64_t piece = PieceBytes(guest_bytes);
  return (guest_bytes + piece - 1) / piece;
}

// mov (%r11), %r11 and the like, all padded to four bytes.
void LoadPiece(uint64_t size, Writer* code) {
  switch (size) {
    case 8:
      return code->Bytes({0x4d, 0x8b, 0x1b, 0x90});
    case 4:
      return code->Bytes({0x45, 0x8b, 0x1b, 0x90});
    case 2:
      return code->Bytes({0x45, 0x0f, 0xb7, 0x1b});
    default:
      return code->Bytes({0x45, 0x0f, 0xb6, 0x1b});
  }
}

constexpr uint64_t kPieceCodeBytes = 10 + 10 + 4 + 4 + 2 + kJumpBytes;

void ComparePiece(uint64_t address, absl::Span<const uint8_t> bytes, uint64_t mismatch,
                  Writer* code) {
  uint64_t expected = 0;
  std::memcpy(&expected, bytes.data(), bytes.size());
  code->Bytes({0x48, 0xb9});  // movabs $-expected, %rcx
  code->Value(0 - expected);
  code->Bytes({0x49, 0xbb});  // movabs $address, %r11
  code->Value(address);
  LoadPiece(bytes.size(), code);
  code->Bytes({0x49, 0x8d, 0x0c, 0x0b});  // lea (%r11,%rcx), %rcx
  code->Bytes({0xe3, kJumpBytes});        // jrcxz over the jump
  code->Jump(mismatch);
}

void LeaveForSelf(uint64_t guest_pc, const StubAddresses& stubs, Writer* code) {
  HsExit exit;
  std::memset(&exit, 0, sizeof(exit));
  exit.guest_pc = guest_pc;
  exit.kind = kHsExitLink;
  std::memset(exit.saved, HS_NOT_SAVED, sizeof(exit.saved));
  RestoreRcx(code);
  constexpr uint64_t kLeaBytes = 7, kAlignment = 8;
  const uint64_t exit_at =
      (code->here() + kLeaBytes + kJumpBytes + kAlignment - 1) / kAlignment * kAlignment;
  code->Bytes({0x4c, 0x8d, 0x1d});  // lea exit(%rip), %r11
  code->Value(static_cast<int32_t>(exit_at - (code->here() + 4)));
  code->Jump(stubs.exit);
  code->PadTo(exit_at);
  code->Value(exit);
}

}  // namespace

uint64_t CodeCheckBytes(uint64_t guest_bytes) {
  const uint64_t bytes = kSaveBytes + PieceCount(guest_bytes) * kPieceCodeBytes + kSaveBytes +
                         kJumpBytes + kSaveBytes + 7 + kJumpBytes + 8 + sizeof(HsExit);
  return (bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
}

void PrependCodeCheck(uint64_t guest_pc, absl::Span<const uint8_t> bytes, uint64_t host,
                      const StubAddresses& stubs, TranslatedBlock* block) {
  const uint64_t size = CodeCheckBytes(bytes.size()), piece = PieceBytes(bytes.size());
  const uint64_t count = PieceCount(bytes.size());
  const uint64_t mismatch = host + kSaveBytes + count * kPieceCodeBytes + kSaveBytes + kJumpBytes;
  Writer code(host);
  SaveRcx(&code);
  for (uint64_t i = 0; i < count; ++i) {
    // The last one overlaps the one before.
    const uint64_t at = i + 1 < count ? i * piece : bytes.size() - piece;
    ComparePiece(guest_pc + at, bytes.subspan(at, piece), mismatch, &code);
  }
  RestoreRcx(&code);
  code.Jump(host + size);
  CHECK(code.here() == mismatch);
  LeaveForSelf(guest_pc, stubs, &code);
  code.PadTo(host + size);
  std::vector<uint8_t> whole = code.Take();
  CHECK(whole.size() == size);
  whole.insert(whole.end(), block->code.begin(), block->code.end());
  block->code = std::move(whole);
  for (SideEntry& entry : block->side) entry.host_offset += static_cast<uint32_t>(size);
  for (Link& link : block->links) link.rel32_offset += static_cast<uint32_t>(size);
  SideEntry entry = {.host_offset = kSaveBytes};
  entry.saved[0] = kRcx;
  block->side.insert(block->side.begin(), entry);
}

}  // namespace hindsight

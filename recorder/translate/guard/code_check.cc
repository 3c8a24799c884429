#include "recorder/translate/guard/code_check.h"

#include <cstring>
#include <initializer_list>
#include <utility>

#include "base/check.h"
#include "isa/registers.h"
#include "translator/flags.h"
#include "translator/host/branch_site.h"
#include "translator/thread_block.h"

namespace hindsight {
namespace {

constexpr uint8_t kGsPrefix = 0x65;
constexpr uint32_t kSaveBytes = 9, kJumpBytes = 5;

bool Reaches(const CodeCheck& check) {
  constexpr int64_t kReach = int64_t{0x7fff} << 16;  // and some room
  const auto distance = static_cast<int64_t>(check.guest_pc - check.host);
  return distance < kReach && distance > -kReach;
}

// If the block does not read the flags, whose place is rax meanwhile: what is there now may.
bool UsesFlags(const CodeCheck& check) { return check.flags_dead && Reaches(check); }

// What is compared at once. Aligned: the program may have set AC, so that other accesses fault.
uint64_t PieceAt(uint64_t address, uint64_t left) {
  uint64_t piece = sizeof(uint64_t);
  while (address % piece != 0 || piece > left) piece /= 2;
  return piece;
}

class Writer {
 public:
  explicit Writer(const CodeCheck& check) : check_(check) {}

  std::vector<uint8_t> Write() {
    WriteGuard();
    WriteCheck();
    while (code_.size() % kHostAlignment != 0) Bytes({0xcc});
    for (const size_t place : passed_) SetRel32(place);
    return std::move(code_);
  }

 private:
  void WriteGuard() {
    Bytes({0x66, 0x90, kJumpPrefix, kJumpOpcode});
    const size_t to_check = Rel32();
    if (check_.view) {
      constexpr uint8_t kToMiss = 8;
      Bytes({0x49, 0x89, 0xcb});                       // mov %rcx, %r11
      Bytes({kGsPrefix, 0x0f, 0xb6, 0x0c, 0x25});      // movzbl %gs:byte, %ecx
      Value(int32_t{HS_GUARDS_OFFSET + HS_GS_SHIFT});  // which one is said with the guard
      Bytes({0xe3, kToMiss, 0x4c, 0x89, 0xd9});        // jrcxz; mov %r11, %rcx
      PassOn();
      Bytes({0x4c, 0x89, 0xd9});
      Leave(kHsExitGuard);
      while (code_.size() % kHostAlignment != 0) Bytes({0xcc});
    } else {
      PassOn();
      while (code_.size() % kHostAlignment != 0) Bytes({0xcc});
    }
    CHECK(code_.size() == CheckOffset(check_.view));
    SetRel32(to_check);
  }

  void WriteCheck() {
    const uint64_t size = check_.bytes.size();
    const bool flags = UsesFlags(check_);
    Save(flags);
    if (flags) Bytes({0x9f, 0x0f, 0x90, 0xc0});  // lahf; seto %al
    for (uint64_t at = 0, piece = 0; at < size; at += piece) {
      piece = PieceAt(check_.guest_pc + at, size - at);
      if (flags) {
        Compare(at, piece);
      } else {
        CompareWithoutFlags(at, piece, false);
        if (check_.view) CompareWithoutFlags(at, piece, true);
      }
    }
    Restore(flags);
    PassOn();
    for (const size_t place : mismatches_) SetRel32(place);
    if (flags) Bytes({0x04, 0x7f, 0x9e});  // add $0x7f, %al; sahf
    Restore(flags);
    Leave(kHsExitCode);
  }

  // To the block's own code.
  void PassOn() {
    Bytes({0xe9});
    passed_.push_back(Rel32());
  }

  uint64_t here() const { return check_.host + code_.size(); }
  void Bytes(std::initializer_list<uint8_t> bytes) {
    code_.insert(code_.end(), bytes.begin(), bytes.end());
  }
  template <typename T>
  void Value(T value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    code_.insert(code_.end(), bytes, bytes + sizeof(value));
  }
  // A displacement that SetRel32 makes lead to what is written next then.
  size_t Rel32() {
    Value(int32_t{0});
    return code_.size() - sizeof(int32_t);
  }
  void SetRel32(size_t place) {
    const auto distance = static_cast<int32_t>(code_.size() - place - sizeof(int32_t));
    std::memcpy(&code_[place], &distance, sizeof(distance));
  }
  // rax, or else rcx.
  void Save(bool rax) { MoveSaved(0x89, rax); }
  void Restore(bool rax) { MoveSaved(0x8b, rax); }
  void MoveSaved(uint8_t opcode, bool rax) {  // mov between it and %gs:save[0]
    Bytes({kGsPrefix, 0x48, opcode, static_cast<uint8_t>(rax ? 0x04 : 0x0c), 0x25});
    Value(HS_BLOCK_FIELD(save) + HS_GS_SHIFT);
  }
  uint64_t Expected(uint64_t at, uint64_t size) const {
    uint64_t value = 0;
    std::memcpy(&value, &check_.bytes[at], size);
    return value;
  }

  // Relative to the end of the instruction, `tail` bytes after the displacement.
  void FromRip(uint64_t address, uint64_t tail) {
    Value(static_cast<int32_t>(address - (here() + 4 + tail)));
  }
  void MismatchIfNotEqual() {
    Bytes({0x0f, 0x85});
    mismatches_.push_back(Rel32());
  }

  void Compare(uint64_t at, uint64_t size) {
    if (size == 8) {
      Bytes({0x49, 0xbb});  // movabs $expected, %r11
      Value(Expected(at, size));
    }
    CompareOne(at, size, 0);
    if (!check_.view) return;
    Bytes({kGsPrefix});
    CompareOne(at, size, HS_GS_SHIFT);
  }

  void CompareOne(uint64_t at, uint64_t size, int64_t shift) {
    const uint64_t address = check_.guest_pc + at + static_cast<uint64_t>(shift);
    const uint64_t expected = Expected(at, size);
    switch (size) {
      case 8:
        Bytes({0x4c, 0x3b, 0x1d});  // cmp address(%rip), %r11
        FromRip(address, 0);
        break;
      case 4:
        Bytes({0x81, 0x3d});  // cmpl $expected, address(%rip)
        FromRip(address, 4);
        Value(static_cast<uint32_t>(expected));
        break;
      case 2:
        Bytes({0x66, 0x81, 0x3d});
        FromRip(address, 2);
        Value(static_cast<uint16_t>(expected));
        break;
      default:
        Bytes({0x80, 0x3d});
        FromRip(address, 1);
        Value(static_cast<uint8_t>(expected));
        break;
    }
    MismatchIfNotEqual();
  }

  void CompareWithoutFlags(uint64_t at, uint64_t size, bool view) {
    Bytes({0x48, 0xb9});  // movabs $-expected, %rcx
    Value(0 - Expected(at, size));
    Bytes({0x49, 0xbb});  // movabs $address, %r11
    Value(check_.guest_pc + at + (view ? static_cast<uint64_t>(int64_t{HS_GS_SHIFT}) : 0));
    if (view) Bytes({kGsPrefix});
    switch (size) {  // mov (%r11), %r11 and the like
      case 8:
        Bytes({0x4d, 0x8b, 0x1b});
        break;
      case 4:
        Bytes({0x45, 0x8b, 0x1b});
        break;
      case 2:
        Bytes({0x45, 0x0f, 0xb7, 0x1b});
        break;
      default:
        Bytes({0x45, 0x0f, 0xb6, 0x1b});
        break;
    }
    Bytes({0x49, 0x8d, 0x0c, 0x0b});  // lea (%r11,%rcx), %rcx
    Bytes({0xe3, kJumpBytes, 0xe9});  // jrcxz over the jump
    mismatches_.push_back(Rel32());
  }

  void Leave(HsExitKind kind) {
    HsExit exit;
    std::memset(&exit, 0, sizeof(exit));
    exit.guest_pc = check_.guest_pc;
    exit.kind = kind;
    if (kind == kHsExitGuard) {
      exit.host_pc = check_.host;
      exit.operation = check_.host + kGuardByteAt;
    }
    exit.flags_exact = kStatusFlags;
    exit.size = static_cast<uint16_t>(check_.bytes.size());
    std::memset(exit.saved, HS_NOT_SAVED, sizeof(exit.saved));
    constexpr uint64_t kLeaBytes = 7, kAlignment = 8;
    const uint64_t exit_at =
        (here() + kLeaBytes + kJumpBytes + kAlignment - 1) / kAlignment * kAlignment;
    Bytes({0x4c, 0x8d, 0x1d});  // lea exit(%rip), %r11
    FromRip(exit_at, 0);
    Bytes({0xe9});
    FromRip(check_.stubs.exit, 0);
    while (here() < exit_at) Bytes({0xcc});
    Value(exit);
  }

  const CodeCheck& check_;
  std::vector<uint8_t> code_;
  std::vector<size_t> mismatches_, passed_;  // places of displacements
};

}  // namespace

std::vector<uint8_t> EmitCodeCheck(const CodeCheck& check) {
  CHECK(!check.bytes.empty());
  return Writer(check).Write();
}

void PrependCodeCheck(const CodeCheck& check, const std::vector<uint8_t>& code,
                      TranslatedBlock* block) {
  block->code.insert(block->code.begin(), code.begin(), code.end());
  const auto size = static_cast<uint32_t>(code.size());
  for (SideEntry& entry : block->side) entry.host_offset += size;
  for (Link& link : block->links) link.rel32_offset += size;
  block->exits_offset += size;
  for (uint32_t& offset : block->to_exits) offset += size;
  for (uint32_t& offset : block->outward) offset += size;
  for (uint32_t& offset : block->own) offset += size;
  // The state is the one before the block all along. Who leads here must have restored the flags,
  // whatever the block reads.
  const bool flags = UsesFlags(check);
  const SideEntry before = {.flags_exact = kStatusFlags};
  SideEntry saved = {.host_offset = CheckOffset(check.view) + kSaveBytes};
  saved.saved[0] = flags ? kRax : kRcx;
  saved.flags_exact = static_cast<uint16_t>(flags ? 0 : kStatusFlags);
  block->side.insert(block->side.begin(), {before, saved});
}

}  // namespace hindsight

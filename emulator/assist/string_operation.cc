#include "emulator/assist/string_operation.h"

#include <algorithm>
#include <cstring>

#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr uint64_t kArithmeticFlags = 0x8d5;  // CF PF AF ZF SF OF

enum class Kind : uint8_t { kNone, kMove, kStore, kCompare, kScan };

Kind KindOf(const ZydisDecodedInstruction& instruction) {
  if (instruction.opcode_map != ZYDIS_OPCODE_MAP_DEFAULT) return Kind::kNone;
  switch (instruction.opcode & 0xfe) {
    case 0xa4:
      return Kind::kMove;
    case 0xa6:
      return Kind::kCompare;
    case 0xaa:
      return Kind::kStore;
    case 0xae:
      return Kind::kScan;
    default:
      return Kind::kNone;
  }
}

uint64_t PageRest(uint64_t address) { return kPageBytes - address % kPageBytes; }

// The flags that `cmp left, right` sets.
template <typename T>
uint64_t FlagsOfCompare(T left, T right) {
  uint64_t flags;
  __asm__("cmp %2, %1\n\tpushfq\n\tpop %0" : "=r"(flags) : "r"(left), "r"(right) : "cc", "memory");
  return flags & kArithmeticFlags;
}

// One instruction, of elements of type T.
template <typename T>
class Repetition {
 public:
  Repetition(Kind kind, bool while_equal, RegisterFile* registers, GuestMemory* memory)
      : kind_(kind), while_equal_(while_equal), registers_(registers), memory_(memory) {}

  bool Run() {
    while (count_ != 0 && !stopped_) {
      const uint64_t elements = std::min(count_, Reachable());
      if (!Piece(elements == 0 ? 1 : elements)) return false;
    }
    registers_->gpr[kRcx] = count_;
    if (reads_source()) registers_->gpr[kRsi] = source_;
    registers_->gpr[kRdi] = destination_;
    if (compared_) {
      registers_->rflags = (registers_->rflags & ~kArithmeticFlags) | FlagsOfCompare(left_, right_);
    }
    return true;
  }

 private:
  bool reads_source() const { return kind_ == Kind::kMove || kind_ == Kind::kCompare; }
  bool writes() const { return kind_ == Kind::kMove || kind_ == Kind::kStore; }

  // Elements up to the end of a page.
  uint64_t Reachable() const {
    uint64_t bytes = PageRest(destination_);
    if (reads_source()) bytes = std::min(bytes, PageRest(source_));
    return bytes / sizeof(T);
  }

  // `elements` of them, one of which may lie on two pages.
  bool Piece(uint64_t elements) {
    const uint64_t bytes = elements * sizeof(T);
    uint8_t* const to = memory_->Pointer(destination_, bytes, writes());
    const uint8_t* const from =
        reads_source() ? memory_->Pointer(source_, bytes, /*write=*/false) : nullptr;
    // The second may have taken from the first what it had.
    const bool direct = to != nullptr && (!reads_source() || from != nullptr) &&
                        memory_->Pointer(destination_, bytes, writes()) == to;
    if (!direct) return Single();
    switch (kind_) {
      case Kind::kMove:
        Move(to, from, bytes);
        Advance(elements);
        return true;
      case Kind::kStore:
        Store(to, elements);
        Advance(elements);
        return true;
      default:
        Compare(to, from, elements);
        return true;
    }
  }

  // Where the two overlap, what was stored before is loaded again.
  void Move(uint8_t* to, const uint8_t* from, uint64_t bytes) {
    if (to <= from || to >= from + bytes) {
      std::memmove(to, from, bytes);
      return;
    }
    for (uint64_t i = 0; i < bytes; i += sizeof(T)) {
      T value;
      std::memcpy(&value, from + i, sizeof(T));
      std::memcpy(to + i, &value, sizeof(T));
    }
  }

  void Store(uint8_t* to, uint64_t elements) {
    const T value = Accumulator();
    for (uint64_t i = 0; i < elements; ++i) std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }

  void Compare(const uint8_t* to, const uint8_t* from, uint64_t elements) {
    for (uint64_t i = 0; i < elements; ++i) {
      T left = Accumulator();
      T right;
      if (from != nullptr) std::memcpy(&left, from + i * sizeof(T), sizeof(T));
      std::memcpy(&right, to + i * sizeof(T), sizeof(T));
      if ((left == right) == while_equal_ && i + 1 < elements) continue;
      NoteCompared(left, right);
      Advance(i + 1);
      return;
    }
  }

  // One element by accesses that may fault.
  bool Single() {
    T left = Accumulator(), right = 0;
    const auto bytes = [](T* value) {
      return absl::MakeSpan(reinterpret_cast<uint8_t*>(value), sizeof(T));
    };
    if (reads_source() && !memory_->Read(source_, bytes(&left))) return false;
    if (writes()) {
      if (!memory_->Write(destination_, bytes(&left))) return false;
    } else {
      if (!memory_->Read(destination_, bytes(&right))) return false;
      NoteCompared(left, right);
    }
    Advance(1);
    return true;
  }

  void NoteCompared(T left, T right) {
    compared_ = true;
    left_ = left;
    right_ = right;
    stopped_ = (left == right) != while_equal_;
  }

  void Advance(uint64_t elements) {
    count_ -= elements;
    destination_ += elements * sizeof(T);
    if (reads_source()) source_ += elements * sizeof(T);
  }

  T Accumulator() const { return static_cast<T>(registers_->gpr[kRax]); }

  const Kind kind_;
  const bool while_equal_;
  RegisterFile* registers_;
  GuestMemory* memory_;
  uint64_t count_ = registers_->gpr[kRcx];
  uint64_t source_ = registers_->gpr[kRsi];
  uint64_t destination_ = registers_->gpr[kRdi];
  bool compared_ = false, stopped_ = false;
  T left_ = 0, right_ = 0;
};

}  // namespace

bool IsStringOperation(const ZydisDecodedInstruction& instruction) {
  constexpr ZydisInstructionAttributes kRepeats =
      ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE;
  constexpr ZydisInstructionAttributes kSegments =
      ZYDIS_ATTRIB_HAS_SEGMENT_FS | ZYDIS_ATTRIB_HAS_SEGMENT_GS;
  return (instruction.attributes & kRepeats) != 0 && (instruction.attributes & kSegments) == 0 &&
         instruction.meta.category == ZYDIS_CATEGORY_STRINGOP && instruction.address_width == 64 &&
         KindOf(instruction) != Kind::kNone;
}

bool ExecuteString(const ZydisDecodedInstruction& instruction, RegisterFile* registers,
                   GuestMemory* memory) {
  const Kind kind = KindOf(instruction);
  const bool while_equal = (instruction.attributes & ZYDIS_ATTRIB_HAS_REPNE) == 0;
  const int width = (instruction.opcode & 1) == 0 ? 8 : instruction.operand_width;
  const auto run = [&]<typename T>(T) {
    return Repetition<T>(kind, while_equal, registers, memory).Run();
  };
  const bool done = width == 8    ? run(uint8_t{})
                    : width == 16 ? run(uint16_t{})
                    : width == 32 ? run(uint32_t{})
                                  : run(uint64_t{});
  if (done) registers->rip += instruction.length;
  return done;
}

}  // namespace hindsight

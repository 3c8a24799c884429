#include "translator/record.h"

#include <functional>

#include "isa/registers.h"
#include "translator/checked_access.h"
#include "translator/flags.h"
#include "translator/guest/encoding.h"
#include "translator/plain.h"
#include "translator/record_class.h"
#include "translator/record_operation.h"
#include "translator/record_stack.h"
#include "translator/substitution.h"
#include "translator/thread_block.h"

namespace hindsight {
namespace {

// MXCSR_MASK in what FXSAVE stores. Processors differ in it; a replay has the one that all have.
constexpr int64_t kMxcsrMaskAt = 28;
constexpr uint32_t kMxcsrMask = 0xffff;
// What follows in FXSAVE's operand stays as it is.
constexpr int kFxsaveBytes = 416;

bool IsFxsave(const GuestInstruction& instruction) {
  const ZydisMnemonic mnemonic = instruction.decoded.mnemonic;
  return mnemonic == ZYDIS_MNEMONIC_FXSAVE || mnemonic == ZYDIS_MNEMONIC_FXSAVE64;
}

bool IsEnvironmentStore(const GuestInstruction& instruction) {
  const ZydisMnemonic mnemonic = instruction.decoded.mnemonic;
  return mnemonic == ZYDIS_MNEMONIC_FNSTENV || mnemonic == ZYDIS_MNEMONIC_FNSAVE;
}

bool IsVex(const GuestInstruction& instruction) {
  return instruction.decoded.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX;
}

// movd or movq, the rest of the vector becomes 0.
void WriteMoveToVector(int bytes, int general, int vector, bool vex, Assembler* code) {
  constexpr uint8_t kMove = 0x6e;
  const bool wide = bytes == 8;
  if (!vex) {
    code->Operation({.bytes = {0x0f, kMove}, .wide = wide, .prefix = 0x66}, vector, general);
    return;
  }
  const int inverted = (vector < 8) << 7 | 1 << 6 | (general < 8) << 5;
  code->Bytes({0xc4, static_cast<uint8_t>(inverted | 1), static_cast<uint8_t>(wide << 7 | 0x79),
               kMove, static_cast<uint8_t>(0xc0 | (vector & 7) << 3 | (general & 7))});
}

// One instruction with an operand in memory.
class AccessWriter {
 public:
  AccessWriter(const GuestInstruction& instruction, BlockWriter* writer)
      : instruction_(instruction),
        writer_(writer),
        code_(writer->code()),
        temporaries_(instruction, writer),
        substitution_(instruction, writer, &temporaries_),
        encoding_(instruction) {
    substitution_.LoadRegisters();
    substitution_.Apply(&encoding_);
    if (EncodedMemory(instruction) != nullptr) {
      address_ = substitution_.Address(/*flat=*/true);
      bytes_ = EncodedMemory(instruction)->size / 8;
    }
  }

  bool Write(RecordClass kind) {
    writer_->MarkFault();
    const bool written = WriteAccess(kind) && !temporaries_.failed();
    substitution_.StoreRegisters();
    temporaries_.Release();
    return written;
  }

 private:
  bool WriteAccess(RecordClass kind) {
    switch (kind) {
      case RecordClass::kLoadMove:
        return WriteLoadMove();
      case RecordClass::kLoadVector:
        return WriteLoadVector();
      case RecordClass::kLoadGeneral:
        return WriteLoadGeneral();
      case RecordClass::kLoad:
        return WriteLoad();
      case RecordClass::kLoadMasked:
        return WriteLoadMasked();
      case RecordClass::kTestMasked:
        return WriteTestMasked();
      case RecordClass::kStore:
      case RecordClass::kStorePop:
        return WriteStore(kind == RecordClass::kStorePop);
      case RecordClass::kStoreOnce:
        return WriteStoreOnce();
      case RecordClass::kUpdate:
        return WriteUpdate();
      case RecordClass::kOperation:
        return WriteUpdateInView();
      default:
        return false;
    }
  }

  // A register for bytes that are compared. It is marked: what was spilled for it is so where
  // accesses begin.
  int TakeData() {
    // Not r11 otherwise, because of REX, which only matters to the instruction itself.
    const int data = UsesHighByte(instruction_) ? int{kR11} : temporaries_.Take();
    writer_->MarkFault();
    return data;
  }

  bool Check(int data) { return WriteCheck(address_, bytes_, data, writer_, &temporaries_); }

  // The instruction itself, with its operand in the view or in memory.
  bool WriteAt(const HostAddress& address) {
    encoding_.SetMemory(address);
    return encoding_.Write(code_);
  }

  bool WriteLoadMove() {
    const ZydisRegister name = instruction_.operands[0].reg.value;
    const int to = substitution_.Host(GeneralRegister(name));
    if (writer_->trusts_view()) return WriteLoadFromView();
    const bool free = to != kRcx || MayChangeFlags(*writer_);
    if (UsesRegister(address_, to) || !free) {
      return WriteLoadGeneral();
    }
    return Check(to);
  }

  // Compared in a general register and moved from there: that is faster than to load it once more.
  bool WriteLoadVector() {
    if (writer_->trusts_view()) return WriteLoad();
    const int data = TakeData();
    if (!Check(data)) return false;
    const int vector = ZydisRegisterGetId(instruction_.operands[0].reg.value);
    WriteMoveToVector(bytes_, data, vector, IsVex(instruction_), code_);
    return true;
  }

  bool WriteLoadGeneral() {
    if (UsesHighByte(instruction_) || writer_->trusts_view()) return WriteLoad();
    const int data = TakeData();
    if (!Check(data)) return false;
    encoding_.SetMemoryToRegister(data);
    return encoding_.Write(code_);
  }

  bool WriteLoadFromView() { return HasRoom(address_, bytes_) && WriteAt(InView(address_)); }

  bool WriteLoad() {
    if (writer_->trusts_view()) return WriteLoadFromView();
    const int data = TakeData();
    return Check(data) && WriteAt(InView(address_));
  }

  bool WriteLoadMasked() {
    const ZydisDecodedInstruction& decoded = instruction_.decoded;
    if (!writer_->has_masks()) return false;
    if (writer_->trusts_view()) return WriteAt(InView(address_));
    const int data = TakeData();
    if (!WriteAt(address_)) return false;
    MaskedVector loaded = {
        .vector = ZydisRegisterGetId(instruction_.operands[0].reg.value),
        .vector_bits = decoded.avx.vector_length,
        .element_bytes = MaskedElementBytes(decoded.mnemonic),
    };
    if (decoded.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX) {
      loaded.vector_mask = ZydisRegisterGetId(instruction_.operands[1].reg.value);
    } else {
      loaded.mask = ZydisRegisterGetId(decoded.avx.mask.reg);
    }
    return WriteMaskedCheck(address_, loaded, data, writer_, &temporaries_);
  }

  bool WriteTestMasked() {
    if (!writer_->has_masks()) return false;
    if (writer_->trusts_view()) return WriteAt(InView(address_));
    const int data = TakeData();
    const int result = ZydisRegisterGetId(instruction_.operands[0].reg.value);
    if (!WriteAt(address_)) return false;
    WriteKeepMask(result, writer_);
    return WriteAt(InView(address_)) &&
           WriteMaskCheck(address_, bytes_, result, data, writer_, &temporaries_);
  }

  // maskmovq and the like, at rdi.
  bool WriteHiddenStore() {
    if ((instruction_.decoded.attributes & ZYDIS_ATTRIB_HAS_SEGMENT_FS) != 0) return false;
    if (instruction_.decoded.address_width != 64) return false;
    code_->StoreField(BlockWriter::SaveSlot(0), kRdi);
    (*writer_->saved())[0] = kRdi;
    writer_->MarkFault();
    code_->Lea(kRdi, {.base = kRdi, .displacement = HS_GS_SHIFT});
    encoding_.SetSegment(SegmentBase::kGs);
    if (!encoding_.Write(code_)) return false;
    code_->LoadField(kRdi, BlockWriter::SaveSlot(0));
    writer_->ForgetSaved();
    writer_->MarkFault();
    encoding_.SetSegment(SegmentBase::kNone);
    return encoding_.Write(code_);
  }

  bool WriteStore(bool pop) {
    if (EncodedMemory(instruction_) == nullptr) return WriteHiddenStore();
    if (pop) {
      // fst, fist instead of fstp, fistp
      const int reg = instruction_.decoded.raw.modrm.reg;
      encoding_.SetRegister(Encoding::kModRmReg, reg - 1);
      if (!WriteAt(InView(address_))) return false;
      encoding_.SetRegister(Encoding::kModRmReg, reg);
      return WriteAt(address_);
    }
    return WriteAt(InView(address_)) && WriteAt(address_);
  }

  bool WriteStoreOnce() {
    if (!HasRoom(address_, bytes_)) return false;
    const int data = TakeData();
    if (writer_->direct()) {
      // What is stored to once more cannot fault: it is what the instruction has stored.
      if (!WriteAt(address_)) return false;
      WriteWhatReplaysStore(address_, data);
      return true;
    }
    // A fault after the instruction has been executed could not be told as one before it: where
    // there is no memory is found out first.
    code_->LoadBytes(1, data, address_);
    code_->LoadBytes(1, data, Further(address_, bytes_ - 1));
    if (!WriteAt(InView(address_))) return false;
    WriteWhatReplaysStore(InView(address_), data);
    return WriteCopy(address_, IsFxsave(instruction_) ? kFxsaveBytes : bytes_, data, writer_);
  }

  // What a replay stores, in place of what the processor has stored at `address`.
  void WriteWhatReplaysStore(const HostAddress& address, int data) {
    if (IsFxsave(instruction_)) {
      // movl $mask,(m)
      code_->Operation({.bytes = {0xc7}}, 0, Further(address, kMxcsrMaskAt), 4);
      code_->Word32(kMxcsrMask);
    }
    if (IsEnvironmentStore(instruction_) && writer_->has_operations()) {
      WriteFloatPointers(address, data);
    }
  }

  void WriteFloatPointers(const HostAddress& address, int data) {
    constexpr int kFields[] = {HS_BLOCK_FIELD(float_code), HS_BLOCK_FIELD(float_opcode),
                               HS_BLOCK_FIELD(float_data)};
    constexpr int kFirst = 3;  // after control, status, tags
    const int bytes = instruction_.decoded.operand_width == 16 ? 2 : 4;
    for (int i = 0; i < 3; ++i) {
      code_->LoadBytes(4, data, Field(kFields[i]));
      code_->StoreBytes(bytes, Further(address, (kFirst + i) * bytes), data);
    }
  }

  bool ReadsCarry() const { return (FlagsOf(instruction_).read & ZYDIS_CPUFLAG_CF) != 0; }

  // The instruction, after which memory is still to be written: that may fault.
  bool WriteBeforeStore(const std::function<bool()>& write) {
    const ZydisAccessedFlags* flags = instruction_.decoded.cpu_flags;
    if (flags == nullptr) return write();
    uint32_t changed = flags->modified | flags->set_0 | flags->set_1 | flags->undefined;
    if (ReadsCarry()) {
      // It could not be executed again without it: setc gs:[save].
      code_->Operation({.bytes = {0x0f, 0x92}}, 0, Field(BlockWriter::SaveSlot(kCarrySlot)));
      (*writer_->saved())[kCarrySlot] = HS_CARRY_SAVED;
      changed &= ~uint32_t{ZYDIS_CPUFLAG_CF};
    }
    writer_->LoseFlags(changed);
    return write();
  }

  bool WriteUpdate() {
    if (!HasRoom(address_, bytes_)) return false;
    const int data = TakeData();
    if (ReadsCarry() && temporaries_.TakeSlot() != kCarrySlot) return false;
    const bool in_view = UsesHighByte(instruction_);
    if (!(in_view && writer_->trusts_view()) && !Check(data)) return false;
    const bool written = WriteBeforeStore([&] {
      if (in_view) {
        if (!WriteAt(InView(address_))) return false;
        code_->LoadBytes(bytes_, data, InView(address_));
        return true;
      }
      encoding_.SetMemoryToRegister(data);
      if (!encoding_.Write(code_)) return false;
      code_->StoreBytes(bytes_, InView(address_), data);
      return true;
    });
    if (!written) return false;
    writer_->MarkFault();
    code_->StoreBytes(bytes_, address_, data);
    if (ReadsCarry()) (*writer_->saved())[kCarrySlot] = HS_NOT_SAVED;
    return true;
  }

  // Any instruction that reads and writes its operand; other threads may see it half done.
  bool WriteUpdateInView() {
    if (!HasRoom(address_, bytes_)) return false;
    const int base = temporaries_.Take();
    code_->Lea(base, address_);
    address_ = {.base = base};
    const int data = TakeData();
    encoding_.DropPrefix(0xf0);
    return Check(data) && WriteAt(InView(address_)) && WriteCopy(address_, bytes_, data, writer_);
  }

  static constexpr int kCarrySlot = 2;

  const GuestInstruction& instruction_;
  BlockWriter* writer_;
  Assembler* code_;
  Temporaries temporaries_;
  Substitution substitution_;
  Encoding encoding_;
  HostAddress address_;
  int bytes_ = 0;
};

}  // namespace

bool RunsWithKept(const GuestInstruction& instruction) {
  if (NeedsCorrection(instruction)) return false;
  switch (RecordClassOf(instruction)) {
    case RecordClass::kNoMemory:
    case RecordClass::kLoadMove:
    case RecordClass::kLoadVector:
    case RecordClass::kLoadGeneral:
    case RecordClass::kLoad:
    case RecordClass::kUpdate:
      return true;
    case RecordClass::kStore:
      return EncodedMemory(instruction) != nullptr;
    default:
      return false;
  }
}

namespace {

bool IsBesideStack(const GuestInstruction& instruction) {
  const int base = GeneralRegister(EncodedMemory(instruction)->mem.base);
  return base == kRsp || base == kRbp;
}

// What the guest's own instruction does not do, or what must be known of it.
bool WriteDirect(const GuestInstruction& instruction, RecordClass kind, BlockWriter* writer) {
  switch (kind) {
    case RecordClass::kLoadMove:
    case RecordClass::kLoadVector:
    case RecordClass::kLoadGeneral:
    case RecordClass::kLoad:
      if (!writer->watches_loads() || IsBesideStack(instruction)) break;
      return AccessWriter(instruction, writer).Write(kind);
    case RecordClass::kStoreOnce:
      if (!IsFxsave(instruction) && !IsEnvironmentStore(instruction)) break;
      return AccessWriter(instruction, writer).Write(kind);
    case RecordClass::kPop:
      // The operand's address depends on what is popped.
      if (EncodedMemory(instruction) == nullptr) break;
      return WriteStackAccess(instruction, kind, writer);
    case RecordClass::kOperation:
      if (IsOperation(instruction, *writer)) return WriteOperation(instruction, writer);
      break;
    case RecordClass::kFence:
      if (writer->has_fences()) return WriteOperation(instruction, writer);
      break;
    case RecordClass::kRefused:
      return false;
    default:
      break;
  }
  return WritePlain(instruction, writer);
}

}  // namespace

bool WriteRecord(const GuestInstruction& instruction, BlockWriter* writer) {
  if (NeedsCorrection(instruction)) WriteCorrectionBefore(instruction, writer);
  const RecordClass kind = RecordClassOf(instruction);
  if (writer->direct()) return WriteDirect(instruction, kind, writer);
  switch (kind) {
    case RecordClass::kNoMemory:
      return WritePlain(instruction, writer);
    case RecordClass::kPush:
    case RecordClass::kPop:
    case RecordClass::kPushFlags:
    case RecordClass::kPopFlags:
    case RecordClass::kEnter:
    case RecordClass::kLeave:
      return WriteStackAccess(instruction, kind, writer);
    case RecordClass::kTranslateByte:
      return WriteTranslateByte(instruction, writer);
    case RecordClass::kOperation:
      if (writer->has_operations()) return WriteOperation(instruction, writer);
      // Of strings, and of bits far away, the operand is not known.
      if (EncodedMemory(instruction) == nullptr || IsBitTest(instruction)) return false;
      return AccessWriter(instruction, writer).Write(kind);
    case RecordClass::kFence:
      return writer->has_fences() ? WriteOperation(instruction, writer)
                                  : WritePlain(instruction, writer);
    case RecordClass::kRefused:
      return false;
    default:
      return AccessWriter(instruction, writer).Write(kind);
  }
}

}  // namespace hindsight

#include "translator/translator.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "base/check.h"
#include "isa/memory_model.h"
#include "isa/registers.h"
#include "translator/block_writer.h"
#include "translator/control.h"
#include "translator/flags.h"
#include "translator/guest_instruction.h"
#include "translator/order_entry.h"
#include "translator/plain.h"
#include "translator/record.h"
#include "translator/record_operation.h"

namespace hindsight {
namespace {

// The guest's code that becomes a block.
struct Source {
  std::vector<GuestInstruction> instructions;
  Control control = Control::kNone;  // of the last one
  bool undecodable = false;          // what follows is no instruction
  // [i]: the status flags that are read at or after instruction i before they are overwritten.
  std::vector<uint32_t> flags_read;
  uint32_t flags_read_at_end = kStatusFlags;
  // Before which instruction the flags are put aside, since only what follows the block may read
  // them; -1: they are not.
  int aside_at = -1;
  std::vector<CodeRange> relied_on;

  bool LastIsCounted() const {
    return control != Control::kSyscall && control != Control::kRefused;
  }
  int counted() const { return static_cast<int>(instructions.size()) - (LastIsCounted() ? 0 : 1); }
  uint64_t next() const { return instructions.back().next(); }
};

// Whether `rest`, which does not decode, would not with more bytes either.
bool IsInvalid(absl::Span<const uint8_t> rest) {
  uint8_t padded[ZYDIS_MAX_INSTRUCTION_LENGTH] = {};
  const size_t size = std::min(rest.size(), sizeof(padded));
  std::copy_n(rest.begin(), size, padded);
  GuestInstruction ignored;
  return size != 0 && !DecodeGuest(0, padded, &ignored);
}

// Whether the instruction may change one that follows it in the block. On the stack, beside rsp, is
// code only in pages where it was found.
bool MayChangeCode(const TranslateRequest& request, const GuestInstruction& instruction) {
  if (!request.may_change) return false;
  for (const ZydisDecodedOperand& operand : instruction.Operands()) {
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY ||
        (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) == 0) {
      continue;
    }
    const bool pushes = instruction.decoded.meta.category == ZYDIS_CATEGORY_PUSH &&
                        operand.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN;
    const bool beside_rsp =
        operand.mem.base == ZYDIS_REGISTER_RSP && operand.mem.index == ZYDIS_REGISTER_NONE;
    if (!pushes && (!beside_rsp || request.by_any_store)) return true;
  }
  return false;
}

// Of those that most code consists of, in forms without surprises.
bool IsPlain(const ZydisDecodedInstruction& decoded) {
  if (decoded.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY || decoded.raw.prefix_count > 1 ||
      decoded.opcode_map != ZYDIS_OPCODE_MAP_DEFAULT) {
    return false;
  }
  switch (decoded.mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
      return decoded.opcode != 0x8c && decoded.opcode != 0x8e;
    case ZYDIS_MNEMONIC_CALL:
    case ZYDIS_MNEMONIC_JMP:
      return decoded.raw.prefix_count == 0;
    case ZYDIS_MNEMONIC_ADD:
    case ZYDIS_MNEMONIC_AND:
    case ZYDIS_MNEMONIC_CMP:
    case ZYDIS_MNEMONIC_LEA:
    case ZYDIS_MNEMONIC_MOVSXD:
    case ZYDIS_MNEMONIC_NOP:
    case ZYDIS_MNEMONIC_OR:
    case ZYDIS_MNEMONIC_POP:
    case ZYDIS_MNEMONIC_PUSH:
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_TEST:
    case ZYDIS_MNEMONIC_XOR:
      return true;
    default:
      return decoded.meta.category == ZYDIS_CATEGORY_COND_BR && decoded.raw.prefix_count == 0;
  }
}

Control ControlFor(const TranslateRequest& request, const GuestInstruction& instruction) {
  const Control control = ControlOf(instruction);
  const bool asked = control != Control::kRefused && control != Control::kSyscall &&
                     request.left_to_agent && !IsPlain(instruction.decoded);
  return asked && request.left_to_agent(instruction.Bytes()) ? Control::kRefused : control;
}

// `refused_at`: the instruction with this number is refused whatever it is.
Source ReadSource(const TranslateRequest& request, int refused_at) {
  Source source;
  // They are large; most blocks have fewer.
  source.instructions.reserve(16);
  uint64_t pc = request.guest_pc;
  absl::Span<const uint8_t> rest = request.bytes;
  while (source.control == Control::kNone &&
         source.instructions.size() < request.max_instructions) {
    GuestInstruction instruction;
    if (!DecodeGuest(pc, rest, &instruction)) {
      source.undecodable = IsInvalid(rest);
      break;
    }
    source.control = static_cast<int>(source.instructions.size()) == refused_at
                         ? Control::kRefused
                         : ControlFor(request, instruction);
    source.instructions.push_back(instruction);
    pc = instruction.next();
    rest.remove_prefix(instruction.decoded.length);
    if (MayChangeCode(request, instruction)) break;
  }
  return source;
}

uint32_t FlagsReadAtEnd(const TranslateRequest& request, Source* source) {
  auto from = [&](uint64_t pc) { return FlagsReadFrom(pc, request.code_at, &source->relied_on); };
  if (source->undecodable) return kStatusFlags;
  const GuestInstruction& last = source->instructions.back();
  switch (source->control) {
    case Control::kNone:
      return from(last.next());
    case Control::kJump:
    case Control::kCall:
      return from(BranchTarget(last));
    case Control::kConditional:
    case Control::kLoop:
      return from(BranchTarget(last)) | from(last.next());
    case Control::kRefused:
      // Blocks before this one, which do not know that it could not be written, look through it.
      return ControlOf(last) == Control::kNone ? from(last.pc) : kStatusFlags;
    default:
      return kStatusFlags;
  }
}

void FindFlags(const TranslateRequest& request, Source* source) {
  uint32_t read = source->flags_read_at_end = FlagsReadAtEnd(request, source);
  source->flags_read.resize(source->instructions.size());
  for (size_t i = source->instructions.size(); i-- > 0;) {
    if (static_cast<int>(i) < source->counted()) {
      const FlagUse use = FlagsOf(source->instructions[i]);
      read = use.read | (read & ~use.overwritten);
    }
    source->flags_read[i] = read;
  }
}

bool TouchesFlags(const GuestInstruction& instruction) {
  const ZydisAccessedFlags* flags = instruction.decoded.cpu_flags;
  if (flags == nullptr) return false;
  const uint32_t all =
      flags->tested | flags->modified | flags->set_0 | flags->set_1 | flags->undefined;
  return (all & kStatusFlags) != 0;
}

// An indirect branch leads anywhere, so that flags count as read there; they hardly ever are. Where
// much would have to do without them, they are put aside and restored at the end.
void PlaceAside(Flavour flavour, Source* source) {
  const Control control = source->control;
  const bool jumps = control == Control::kIndirectJump || control == Control::kIndirectCall;
  const bool returns = flavour == Flavour::kRecord && control == Control::kReturn;
  if (!jumps && !returns) return;
  int at = source->counted() - 1;
  while (at > 0 && !TouchesFlags(source->instructions[at - 1])) --at;
  source->aside_at = at;
  for (size_t i = static_cast<size_t>(at); i < source->flags_read.size(); ++i) {
    source->flags_read[i] = 0;
  }
}

// Before which instruction the counter is decremented, and how.
struct Decrement {
  int before = 0;
  bool test = false;
  bool flags = false;  // may be changed
};

Decrement PlaceDecrement(const Source& source) {
  const int counted = source.counted();
  if (!MayCloseCycle(source.instructions.back(), source.control)) return {};
  Decrement first = {.before = -1, .test = true, .flags = true};
  for (int i = 0; i < counted; ++i) {
    if (source.flags_read[i] != 0) continue;
    if (first.before < 0) first.before = i;
    // Right before an instruction that writes flags, so that few places show wrong ones.
    if (FlagsOf(source.instructions[i]).overwritten != 0) return {i, true, true};
  }
  if (first.before >= 0) return first;
  return {.before = 0, .test = true, .flags = false};
}

void WriteDecrement(const Decrement& decrement, int count, BlockWriter* writer) {
  Assembler* code = writer->code();
  Label* exit = decrement.test ? writer->Exit(kHsExitCounter) : nullptr;
  if (decrement.flags) {
    code->Operation({.bytes = {static_cast<uint8_t>(count < 128 ? 0x83 : 0x81)}, .wide = true}, 5,
                    kR10);  // sub $count,%r10
    if (count < 128) {
      code->Byte(count);
    } else {
      code->Word32(count);
    }
    code->JumpIf(kSign, exit);
    return;
  }
  code->Lea(kR10, {.base = kR10, .displacement = -count});
  if (!decrement.test) return;
  // The sign of r10 without flags: its highest byte, which is 0 or, below zero, 0xff.
  writer->LoseR11();
  Label go_on;
  code->Move(kR11, kRcx);
  code->Move(kRcx, kR10);
  code->Bytes({0x48, 0x0f, 0xc9});                       // bswap %rcx
  code->Operation({.bytes = {0x0f, 0xb6}}, kRcx, kRcx);  // movzbl %cl,%ecx
  code->JumpIfRcxZero(&go_on);
  code->Move(kRcx, kR11);
  code->Jump(exit);
  code->Bind(&go_on);
  code->Move(kRcx, kR11);
}

// How many conditional jumps behind a block undefined flags are followed.
constexpr int kBranchesAhead = 2;

// Which flags are undefined where an instruction begins. What processors leave in them a replay may
// not: who reads them nevertheless must have them told. Compilers never do it.
class UndefinedFlags {
 public:
  uint32_t left() const { return undefined_; }
  bool AreRead(const GuestInstruction& instruction) const {
    return (FlagsOf(instruction).read & undefined_) != 0;
  }
  void AreTold() { undefined_ = 0; }
  void Pass(const GuestInstruction& instruction) {
    const ZydisAccessedFlags* flags = instruction.decoded.cpu_flags;
    if (flags == nullptr) return;
    const uint32_t left = flags->undefined & kStatusFlags & ~uint32_t{ZYDIS_CPUFLAG_AF};
    undefined_ = (undefined_ & ~FlagsOf(instruction).overwritten) | left;
  }

 private:
  uint32_t undefined_ = 0;
};

// Whether flags that are left undefined are read behind the block.
bool AreReadBehind(uint32_t undefined, const TranslateRequest& request, Source* source) {
  undefined &= source->flags_read_at_end;
  if (undefined == 0) return false;
  auto read_from = [&](uint64_t pc) {
    return FlagsSurelyRead(pc, undefined, request.code_at, kBranchesAhead, &source->relied_on) != 0;
  };
  const GuestInstruction& last = source->instructions.back();
  switch (source->control) {
    case Control::kNone:
      return read_from(last.next());
    case Control::kJump:
    case Control::kCall:
      return read_from(BranchTarget(last));
    case Control::kConditional:
    case Control::kLoop:
      return read_from(BranchTarget(last)) || read_from(last.next());
    default:
      return false;
  }
}

// How the order of threads has the instruction.
void PlaceInOrder(const TranslateRequest& request, const Source& source, size_t number,
                  InstructionPlace* place) {
  // Fences and what is locked see to that themselves.
  if (request.order <= MemoryModel::kFence || !request.operations) return;
  const GuestInstruction& instruction = source.instructions[number];
  const MemoryUse use = MemoryUseOf(instruction.decoded, instruction.operands);
  const bool last = number + 1 == source.instructions.size();
  const bool counted = static_cast<int>(number) < source.counted();
  place->ordered = counted && IsOrderable(use, request.order) && !IsFence(use);
  place->stores = use.writes;
  uint32_t read = last ? source.flags_read_at_end : source.flags_read[number + 1];
  if (source.aside_at >= 0) {
    const auto aside_at = static_cast<size_t>(source.aside_at);
    if (number + 1 == aside_at) read = kStatusFlags;  // what is put aside next
    if (number >= aside_at) read = 0;
  }
  place->flags_after = static_cast<uint16_t>(read);
}

// Writes the block. Returns the number of an instruction that cannot be written; -1: none.
int WriteBlock(const TranslateRequest& request, Source* from, BlockWriter* writer) {
  const Source& source = *from;
  const int counted = source.counted();
  const Decrement decrement = PlaceDecrement(source);
  writer->SetFlagsAtEnd(source.flags_read_at_end);
  UndefinedFlags undefined;
  for (int i = 0; i < static_cast<int>(source.instructions.size()); ++i) {
    const GuestInstruction& instruction = source.instructions[i];
    writer->choice()->Advance(static_cast<size_t>(i));
    InstructionPlace place = {.guest_pc = instruction.pc,
                              .length = instruction.decoded.length,
                              .adjust = counted > 0 && i > decrement.before ? i - counted : i,
                              .flags_exact = static_cast<uint16_t>(source.flags_read[i]),
                              .flags_aside = source.aside_at >= 0 && i > source.aside_at};
    PlaceInOrder(request, source, static_cast<size_t>(i), &place);
    if (i == source.aside_at) {
      writer->Begin({.guest_pc = place.guest_pc,
                     .length = place.length,
                     .adjust = place.adjust,
                     .flags_exact = kStatusFlags});
      writer->PutFlagsAside();
      place.flags_aside = true;
    }
    if (i == decrement.before && counted > 0) {
      // The exit shows the counter as it is after the decrement.
      writer->Begin(place);
      place.adjust = i - counted;
      writer->SetAdjust(place.adjust);
      WriteDecrement(decrement, counted, writer);
    }
    writer->Begin(place);
    const bool last = i + 1 == static_cast<int>(source.instructions.size());
    const bool branches = last && source.control != Control::kNone;
    if (request.flavour == Flavour::kRecord &&
        (undefined.AreRead(instruction) ||
         (branches && AreReadBehind(undefined.left(), request, from)))) {
      WriteCorrection(writer);
      undefined.AreTold();
    }
    undefined.Pass(instruction);
    WriteOrderBefore(writer);
    bool written;
    if (branches) {
      written = WriteControl(instruction, source.control, request.flavour, writer);
    } else {
      written = request.flavour == Flavour::kRecord ? WriteRecord(instruction, writer)
                                                    : WritePlain(instruction, writer);
      if (written) WriteOrder(place.flags_after, writer);
    }
    if (!written) return i;
  }
  if (request.flavour == Flavour::kRecord && source.control == Control::kNone &&
      AreReadBehind(undefined.left(), request, from)) {
    writer->Begin({.guest_pc = source.next(),
                   .flags_exact = static_cast<uint16_t>(source.flags_read_at_end)});
    WriteCorrection(writer);
  }
  return -1;
}

void WriteEnd(const Source& source, uint64_t pc, BlockWriter* writer) {
  if (source.undecodable) {
    writer->Begin({.guest_pc = pc, .flags_exact = kStatusFlags});
    writer->code()->Jump(writer->Exit(kHsExitInstruction));
  } else if (source.control == Control::kNone) {
    writer->Branch(pc);
  }
}

absl::Status CheckPlace(const TranslateRequest& request) {
  if (request.host_address % kHostAlignment != 0 || request.max_instructions == 0) {
    return absl::InvalidArgumentError("translate: bad host address or limit");
  }
  const Assembler reach(request.host_address);
  if (!reach.Reaches(request.stubs.exit) || !reach.Reaches(request.stubs.indirect_exit) ||
      !reach.Reaches(request.stubs.return_to)) {
    return absl::InvalidArgumentError("translate: the arena's stubs are out of reach");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TranslatedBlock> TranslateReturnTo(const TranslateRequest& request) {
  if (absl::Status status = CheckPlace(request); !status.ok()) return status;
  BlockWriter writer(request, {});
  writer.Begin({.guest_pc = request.guest_pc, .flags_exact = kStatusFlags});
  writer.BranchFromReturn(request.guest_pc);
  TranslatedBlock block;
  writer.Finish(&block);
  return block;
}

absl::StatusOr<TranslatedBlock> Translate(const TranslateRequest& request) {
  if (absl::Status status = CheckPlace(request); !status.ok()) return status;
  int refused_at = -1;
  while (true) {
    Source source = ReadSource(request, refused_at);
    if (source.instructions.empty() && !source.undecodable) {
      return absl::InvalidArgumentError("translate: no whole instruction");
    }
    BlockWriter writer(request, source.instructions);
    uint64_t end = request.guest_pc;
    if (!source.instructions.empty()) {
      FindFlags(request, &source);
      PlaceAside(request.flavour, &source);
      refused_at = WriteBlock(request, &source, &writer);
      if (refused_at >= 0) continue;
      end = source.next();
    }
    WriteEnd(source, end, &writer);
    TranslatedBlock block;
    block.guest_bytes = static_cast<uint32_t>(end - request.guest_pc);
    block.instructions = source.instructions.empty() ? 0 : static_cast<uint32_t>(source.counted());
    block.relied_on = std::move(source.relied_on);
    if (source.undecodable) block.refusal = "undecodable";
    if (source.control == Control::kRefused) {
      block.refusal = ZydisMnemonicGetString(source.instructions.back().decoded.mnemonic);
    }
    writer.Finish(&block);
    return block;
  }
}

}  // namespace hindsight

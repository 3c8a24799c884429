#include "translator/translator.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "base/check.h"
#include "isa/memory_model.h"
#include "isa/registers.h"
#include "translator/block_source.h"
#include "translator/block_writer.h"
#include "translator/control.h"
#include "translator/flags.h"
#include "translator/guest/guest_instruction.h"
#include "translator/order_entry.h"
#include "translator/plain.h"
#include "translator/record.h"
#include "translator/record_operation.h"

namespace hindsight {
namespace {

// Before which instruction the counter is decremented, and how.
struct Decrement {
  int before = 0;
  bool test = false;
  bool flags = false;  // may be changed
};

Decrement PlaceDecrement(const BlockSource& source, const BlockPart& part) {
  const bool at_end = &part == &source.parts.back();
  if (!at_end || !source.must_test) return {.before = part.begin};
  Decrement first = {.before = -1, .test = true, .flags = true};
  for (int i = part.begin; i < part.end; ++i) {
    if (source.flags_read[i] != 0) continue;
    if (first.before < 0) first.before = i;
    // Right before an instruction that writes flags, so that few places show wrong ones.
    if (FlagsOf(source.instructions[i]).overwritten != 0) return {i, true, true};
  }
  if (first.before >= 0) return first;
  return {.before = part.begin, .test = true, .flags = false};
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
    code->JumpIf(kLess, exit);
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

// How the order of threads has the instruction.
void PlaceInOrder(const TranslateRequest& request, const BlockSource& source, int number,
                  InstructionPlace* place) {
  if (request.order == MemoryModel::kKernel || !request.operations) return;
  const GuestInstruction& instruction = source.instructions[number];
  const MemoryUse use = MemoryUseOf(instruction.decoded, instruction.operands);
  const bool last = number + 1 == source.size();
  const bool counted = number < source.counted();
  // Fences and what is locked see to that themselves.
  place->ordered = counted && IsOrderable(use, request.order) && !IsFence(use);
  place->stores = use.writes;
  uint32_t read = last ? source.parts.back().flags_read_after : source.flags_read[number + 1];
  if (source.aside_at >= 0) {
    if (number + 1 == source.aside_at) read = kStatusFlags;  // what is put aside next
    if (number >= source.aside_at) read = 0;
  }
  place->flags_after = static_cast<uint16_t>(read);
}

// Writes the instructions of a block.
class BodyWriter {
 public:
  // Borrows all of them.
  BodyWriter(const TranslateRequest& request, BlockSource* source, BlockWriter* writer)
      : request_(request), source_(source), writer_(writer) {}

  // Returns the number of an instruction that cannot be written; -1: none.
  int Write() {
    for (const BlockPart& part : source_->parts) {
      const bool at_end = &part == &source_->parts.back();
      const int refused = WritePart(part, at_end ? source_->size() : part.end);
      if (refused >= 0) return refused;
    }
    const BlockPart& last = source_->parts.back();
    writer_->RestoreKept();
    if (records() && source_->control == Control::kNone &&
        AreReadAfterwards(undefined_.left(), last, request_, source_)) {
      writer_->Begin({.guest_pc = source_->next(),
                      .flags_exact = static_cast<uint16_t>(last.flags_read_after)});
      WriteCorrection(writer_);
    }
    return -1;
  }

 private:
  bool records() const { return request_.flavour == Flavour::kRecord; }

  int WritePart(const BlockPart& part, int end) {
    const Decrement decrement = PlaceDecrement(*source_, part);
    const int count = part.end - part.begin;
    writer_->SetFlagsAtEnd(part.flags_read_after);
    for (int i = part.begin; i < end; ++i) {
      writer_->choice()->Advance(static_cast<size_t>(i));
      const bool decremented = count > 0 && i > decrement.before;
      InstructionPlace place = PlaceOf(i, i - (decremented ? part.end : part.begin));
      if (i == source_->aside_at) PutFlagsAside(&place);
      if (i == decrement.before && count > 0) {
        // The exit shows the counter as it is after the decrement.
        writer_->Begin(place);
        writer_->RestoreKept();
        place.adjust = i - part.end;
        writer_->SetAdjust(place.adjust);
        WriteDecrement(decrement, count, writer_);
      }
      writer_->Begin(place);
      if (!WriteInstruction(part, i, i + 1 == end)) return i;
    }
    return -1;
  }

  InstructionPlace PlaceOf(int number, int32_t adjust) const {
    const GuestInstruction& instruction = source_->instructions[number];
    InstructionPlace place = {.guest_pc = instruction.pc,
                              .length = instruction.decoded.length,
                              .adjust = adjust,
                              .flags_exact = static_cast<uint16_t>(source_->flags_read[number]),
                              .flags_aside = source_->aside_at >= 0 && number > source_->aside_at};
    PlaceInOrder(request_, *source_, number, &place);
    place.x87_conditions_exact = number > 0 && SetsX87Conditions(source_->instructions[number - 1]);
    return place;
  }

  void PutFlagsAside(InstructionPlace* place) {
    writer_->Begin({.guest_pc = place->guest_pc,
                    .length = place->length,
                    .adjust = place->adjust,
                    .flags_exact = kStatusFlags});
    writer_->RestoreKept();
    writer_->PutFlagsAside();
    place->flags_aside = true;
  }

  // A register that is kept, if `instruction` can be written nevertheless, or may keep one.
  void SeeToKept(const GuestInstruction& instruction, bool branches) {
    const bool runs =
        records() && !branches && !writer_->place().ordered && RunsWithKept(instruction);
    writer_->SetMayKeep(runs);
    const uint8_t kept = writer_->kept();
    if (kept == HS_NOT_SAVED) return;
    if (!runs || (UsedRegisters(instruction) >> kept & 1) != 0) writer_->RestoreKept();
  }

  bool WriteInstruction(const BlockPart& part, int number, bool ends_part) {
    const GuestInstruction& instruction = source_->instructions[number];
    const bool side_exit = ends_part && &part != &source_->parts.back();
    const Control control = side_exit   ? Control::kConditional
                            : ends_part ? source_->control
                                        : Control::kNone;
    const bool branches = control != Control::kNone;
    SeeToKept(instruction, branches);
    if (records() &&
        (undefined_.AreRead(instruction) ||
         (branches && AreReadAfterwards(undefined_.left(), part, request_, source_)))) {
      writer_->RestoreKept();
      WriteCorrection(writer_);
      undefined_.AreTold();
    }
    undefined_.Pass(instruction);
    WriteOrderBefore(writer_);
    if (side_exit) {
      WriteSideExit(instruction, writer_);
      return true;
    }
    if (branches) {
      return WriteControl(instruction, control, source_->flags_read_at_return, request_.flavour,
                          writer_);
    }
    if (!(records() ? WriteRecord(instruction, writer_) : WritePlain(instruction, writer_))) {
      return false;
    }
    WriteOrder(writer_->place().flags_after, writer_);
    return true;
  }

  const TranslateRequest& request_;
  BlockSource* const source_;
  BlockWriter* const writer_;
  UndefinedFlags undefined_;
};

void WriteEnd(const BlockSource& source, uint64_t pc, BlockWriter* writer) {
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
      !reach.Reaches(request.stubs.search_return) || !reach.Reaches(request.stubs.link_exits) ||
      !reach.Reaches(request.stubs.counter_exits)) {
    return absl::InvalidArgumentError("translate: the arena's stubs are out of reach");
  }
  return absl::OkStatus();
}

InstructionPlace FlagsAsideAt(uint64_t guest_pc) {
  return {.guest_pc = guest_pc, .flags_exact = kStatusFlags, .flags_aside = true};
}

}  // namespace

absl::StatusOr<TranslatedBlock> TranslateIndirectTo(const TranslateRequest& request) {
  if (absl::Status status = CheckPlace(request); !status.ok()) return status;
  BlockWriter writer(request, {});
  writer.Begin(FlagsAsideAt(request.guest_pc));
  writer.BranchWithFlagsAside(request.guest_pc);
  TranslatedBlock block;
  writer.Finish(&block);
  return block;
}

absl::StatusOr<TranslatedBlock> Translate(const TranslateRequest& request) {
  if (absl::Status status = CheckPlace(request); !status.ok()) return status;
  thread_local std::vector<GuestInstruction> memory;  // of one block after the other
  int refused_at = -1;
  while (true) {
    BlockSource source = ReadBlockSource(request, refused_at, std::move(memory));
    if (source.instructions.empty() && !source.undecodable) {
      return absl::InvalidArgumentError("translate: no whole instruction");
    }
    BlockWriter writer(request, source.instructions);
    uint64_t end = request.guest_pc;
    if (!source.instructions.empty()) {
      refused_at = BodyWriter(request, &source, &writer).Write();
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
    memory = std::move(source.instructions);
    return block;
  }
}

}  // namespace hindsight

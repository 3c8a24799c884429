#include "translator/block_source.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "translator/control.h"
#include "translator/flags.h"

namespace hindsight {
namespace {

// How many conditional jumps after a block undefined flags are followed.
constexpr int kBranchesAhead = 2;
constexpr size_t kMostSideExits = 3;
constexpr uint64_t kPageBytes = 4096;
// As many as an entry of a procedure linkage table has.
constexpr int kMostInstructionsToTest = 3;

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

// Whether the block goes on after a conditional jump that is not taken. What is there is
// translated twice if something else leads there, too; so it does not after loops, which are left
// seldom. Nor in another page, which the program may never execute: it would be imported.
bool MayGoOn(const TranslateRequest& request, const GuestInstruction& branch, Control control,
             size_t side_exits) {
  return control == Control::kConditional && !request.may_change && side_exits < kMostSideExits &&
         !MayCloseCycle(branch, control) &&
         request.guest_pc / kPageBytes == branch.next() / kPageBytes;
}

// What follows the last side exit is left out if it would keep the block from being stored, or if
// there is nothing.
void EndAtSideExit(std::vector<int>* side_exits, BlockSource* source) {
  if (side_exits->empty()) return;
  const int last = side_exits->back();
  if (!source->undecodable && source->control != Control::kRefused && last + 1 < source->size()) {
    return;
  }
  source->instructions.resize(static_cast<size_t>(last) + 1);
  source->control = Control::kConditional;
  source->undecodable = false;
  side_exits->pop_back();
}

BlockSource ReadInstructions(const TranslateRequest& request, int refused_at,
                             std::vector<GuestInstruction> memory) {
  BlockSource source;
  source.instructions = std::move(memory);
  source.instructions.clear();
  std::vector<int> side_exits;
  std::vector<uint64_t> exit_targets;  // there blocks begin
  uint64_t pc = request.guest_pc;
  absl::Span<const uint8_t> rest = request.bytes;
  while (source.control == Control::kNone &&
         source.instructions.size() < request.max_instructions &&
         !absl::c_linear_search(exit_targets, pc)) {
    GuestInstruction& instruction = source.instructions.emplace_back();
    if (!DecodeGuest(pc, rest, &instruction)) {
      source.instructions.pop_back();
      source.undecodable = IsInvalid(rest);
      break;
    }
    source.control =
        source.size() - 1 == refused_at ? Control::kRefused : ControlFor(request, instruction);
    pc = instruction.next();
    rest.remove_prefix(instruction.decoded.length);
    if (MayChangeCode(request, instruction)) break;
    if (MayGoOn(request, instruction, source.control, side_exits.size())) {
      side_exits.push_back(source.size() - 1);
      exit_targets.push_back(BranchTarget(instruction));
      source.control = Control::kNone;
    }
  }
  EndAtSideExit(&side_exits, &source);
  if (source.instructions.empty()) return source;
  int begin = 0;
  for (const int side_exit : side_exits) {
    source.parts.push_back({.begin = begin, .end = side_exit + 1});
    begin = side_exit + 1;
  }
  source.parts.push_back({.begin = begin, .end = source.counted()});
  return source;
}

using Targets = absl::InlinedVector<uint64_t, 2>;

// Where `instruction` leads, which is left by `control`. Empty: one cannot tell.
Targets TargetsOf(const GuestInstruction& instruction, Control control) {
  switch (control) {
    case Control::kNone:
      return {instruction.next()};
    case Control::kJump:
    case Control::kCall:
      return {BranchTarget(instruction)};
    case Control::kConditional:
    case Control::kLoop:
      return {BranchTarget(instruction), instruction.next()};
    default:
      return {};
  }
}

uint32_t FlagsReadAtEnd(const TranslateRequest& request, BlockSource* source) {
  if (source->undecodable) return kStatusFlags;
  const GuestInstruction& last = source->instructions.back();
  Targets targets = TargetsOf(last, source->control);
  // Blocks before this one do not know that it could not be written.
  const bool refused = source->control == Control::kRefused;
  if (refused && IsLookedThrough(ControlOf(last))) targets = {last.pc};
  if (targets.empty()) return kStatusFlags;
  uint32_t read = 0;
  for (const uint64_t pc : targets) read |= FlagsReadFrom(pc, request.code_at, &source->relied_on);
  return read;
}

// Backwards, as flags are read.
void FindFlags(const TranslateRequest& request, BlockSource* source) {
  uint32_t read = FlagsReadAtEnd(request, source);
  source->flags_read.resize(source->instructions.size());
  auto part = source->parts.rbegin();
  part->flags_read_after = read;
  for (int i = source->size() - 1; i >= 0; --i) {
    const GuestInstruction& instruction = source->instructions[i];
    if (i < part->begin) {
      ++part;
      read |= FlagsReadFrom(BranchTarget(instruction), request.code_at, &source->relied_on);
      part->flags_read_after = read;
    }
    if (i < source->counted()) {
      const FlagUse use = FlagsOf(instruction);
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

// An indirect branch leads anywhere, so that flags count as read there; they hardly ever are. They
// are put aside, early, and restored where they are read.
void PlaceAside(BlockSource* source) {
  const Control control = source->control;
  if (control != Control::kIndirectJump && control != Control::kIndirectCall &&
      control != Control::kReturn) {
    return;
  }
  int at = source->counted() - 1;
  while (at > 0 && !TouchesFlags(source->instructions[at - 1])) --at;
  source->aside_at = at;
  for (size_t i = static_cast<size_t>(at); i < source->flags_read.size(); ++i) {
    source->flags_read[i] = 0;
  }
}

// Whether what begins at `pc` surely comes to an indirect branch, where the counter is tested, and
// soon. So do calls of other libraries' functions, of which there are many.
bool LeadsToTest(uint64_t pc, const TranslateRequest& request, BlockSource* source) {
  if (!request.code_at) return false;
  CodeRange looked_at = {.pc = pc};
  for (int i = 0; i < kMostInstructionsToTest; ++i) {
    GuestInstruction instruction;
    if (!DecodeGuest(pc, request.code_at(pc), &instruction)) return false;
    looked_at.bytes += instruction.decoded.length;
    const Control control = ControlFor(request, instruction);
    if (control == Control::kIndirectJump) {
      source->relied_on.push_back(looked_at);
      return true;
    }
    if (control != Control::kNone) return false;
    pc = instruction.next();
  }
  return false;
}

bool MustTest(const TranslateRequest& request, BlockSource* source) {
  const GuestInstruction& last = source->instructions.back();
  if (!MayCloseCycle(last, source->control)) return false;
  return source->control != Control::kCall || !LeadsToTest(BranchTarget(last), request, source);
}

}  // namespace

BlockSource ReadBlockSource(const TranslateRequest& request, int refused_at,
                            std::vector<GuestInstruction> memory) {
  BlockSource source = ReadInstructions(request, refused_at, std::move(memory));
  if (source.instructions.empty()) return source;
  FindFlags(request, &source);
  PlaceAside(&source);
  source.must_test = MustTest(request, &source);
  if (source.control == Control::kCall || source.control == Control::kIndirectCall) {
    source.flags_read_at_return = FlagsReadFrom(source.next(), request.code_at, &source.relied_on);
  }
  return source;
}

bool AreReadAfterwards(uint32_t flags, const BlockPart& part, const TranslateRequest& request,
                       BlockSource* source) {
  flags &= part.flags_read_after;
  if (flags == 0) return false;
  const bool at_end = &part == &source->parts.back();
  const Targets targets =
      at_end ? TargetsOf(source->instructions.back(), source->control)
             : Targets{BranchTarget(source->instructions[static_cast<size_t>(part.end) - 1])};
  return absl::c_any_of(targets, [&](uint64_t pc) {
    return FlagsSurelyRead(pc, flags, request.code_at, kBranchesAhead, &source->relied_on) != 0;
  });
}

}  // namespace hindsight

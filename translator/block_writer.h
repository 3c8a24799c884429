// Collects the code of one block: host instructions, the side table, the branches to be linked, and
// the exits, which are placed after the code.
//
// Borrows the request. Not copyable. One thread at a time.

#ifndef HINDSIGHT_TRANSLATOR_BLOCK_WRITER_H_
#define HINDSIGHT_TRANSLATOR_BLOCK_WRITER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "translator/guest/guest_instruction.h"
#include "translator/guest/register_choice.h"
#include "translator/host/assembler.h"
#include "translator/runtime/operation.h"
#include "translator/thread_block.h"
#include "translator/translator.h"

namespace hindsight {

// Numbers of the registers spilled to save[]; HS_NOT_SAVED.
using SavedRegisters = std::array<uint8_t, 4>;
inline constexpr SavedRegisters kNoneSaved = {HS_NOT_SAVED, HS_NOT_SAVED, HS_NOT_SAVED,
                                              HS_NOT_SAVED};

// The guest's state at a place in the code.
struct InstructionPlace {
  uint64_t guest_pc = 0;
  uint32_t length = 0;  // of the instruction
  int32_t adjust = 0;
  uint16_t flags_exact = 0;  // status flags that are the guest's
  bool flags_aside = false;  // all of them are in the thread block
  uint16_t flags_after = 0;  // status flags that are read after the instruction
  // The instruction is an event in the order of threads that WriteOrder is to write, and happens
  // when it begins: it stores.
  bool ordered = false, stores = false;
  // The condition codes of the x87 status are what a replay computes: the exceptions may not be.
  bool x87_conditions_exact = false;
};

// Where a return leads, and which status flags are read there.
struct ReturnPlace {
  uint64_t guest_pc = 0;
  uint32_t flags_read = 0;
};

class BlockWriter {
 public:
  // Of a block of `instructions`.
  BlockWriter(const TranslateRequest& request, absl::Span<const GuestInstruction> instructions);
  BlockWriter(const BlockWriter&) = delete;
  BlockWriter& operator=(const BlockWriter&) = delete;

  Assembler* code() { return &code_; }
  RegisterChoice* choice() { return &choice_; }
  const InstructionPlace& place() const { return place_; }
  // Whether the agent runs HsRunOperation.
  bool has_operations() const { return request_.operations; }
  bool has_fences() const { return request_.operations && request_.order >= MemoryModel::kFence; }
  // Whether translated code may use mask registers where the guest does.
  bool has_masks() const { return request_.masks; }
  // Whether operands are loaded from the view, unchecked: others change them all the time.
  bool trusts_view() const { return request_.trust_view; }
  // Whether memory is accessed by the guest's own instructions, and there is no view.
  bool direct() const { return request_.exclusive; }
  // Whether, if it is direct, loads that are not beside the stack are compared nevertheless.
  bool watches_loads() const { return request_.watches_loads; }
  // After a check that was passed: it fails nevertheless, if it is one of those that do.
  void MayFailCheck(Label* miss);

  // The instruction at `place` begins here.
  void Begin(const InstructionPlace& place);
  // Whether r11 holds the guest's at this instruction's beginning, as it does in the thread block.
  bool r11_is_guests() const { return r11_is_guests_; }
  // It will when this instruction ends.
  void KeepR11() { r11_stays_guests_ = true; }
  // It does so if it does now: the instruction does not change r11.
  void LeaveR11() { r11_stays_guests_ |= r11_is_guests_; }
  // It does not any more.
  void LoseR11() { r11_is_guests_ = r11_stays_guests_ = false; }
  void SetAdjust(int32_t adjust) { place_.adjust = adjust; }
  // Status flags that are not the guest's any more, before the instruction has had all its effects.
  void LoseFlags(uint32_t flags) { place_.flags_exact &= static_cast<uint16_t>(~flags); }
  // The code from here on can fault on behalf of that instruction, with the registers spilled that
  // are so now.
  void MarkFault();

  SavedRegisters* saved() { return &saved_; }
  // All but the one that is kept.
  void ForgetSaved() { saved_ = {kept_, HS_NOT_SAVED, HS_NOT_SAVED, saved_[3]}; }
  // A register that was spilled to the first slot may stay so from one instruction to the next,
  // which then has one to work with. Only where SetMayKeep has said so; never rcx.
  void SetMayKeep(bool may_keep) { may_keep_ = may_keep; }
  bool may_keep() const { return may_keep_; }
  void Keep(int number) { kept_ = static_cast<uint8_t>(number); }
  uint8_t kept() const { return kept_; }  // HS_NOT_SAVED: there is none
  // The instruction at place() begins after what this writes.
  void RestoreKept();
  static int SaveSlot(int number);  // offset from GS

  // Jumps to the translation of guest pc `target`.
  void Branch(uint64_t target);
  void BranchIf(uint8_t condition, uint64_t target);  // low half of jcc's opcode
  // The status flags that are the guest's where the block ends.
  void SetFlagsAtEnd(uint32_t exact) { flags_at_end_ = static_cast<uint16_t>(exact); }
  // Keeps the flags in the thread block. Uses r11.
  void PutFlagsAside();
  // The same for a part of an instruction where rax is free, and back. Exits in between give the
  // agent the flags.
  void KeepFlags();
  void GiveBackFlags();
  // A call of `target`, once the guest's return address has been pushed.
  void BranchFromCall(uint64_t target, const ReturnPlace& return_to);
  // An indirect branch to the guest pc in r11, with the flags aside. `rsp_before`: what to add to
  // rsp to get what it was before the instruction.
  void BranchToR11(int64_t rsp_before);
  void BranchFromCallToR11(int64_t rsp_before, const ReturnPlace& return_to);
  // Says which return it is that will pop now and go to a place by EmitReturn, with the flags
  // aside.
  void TellReturn(int64_t rsp_before);
  // The way from the table of indirect branches to a translation that needs the flags.
  void BranchWithFlagsAside(uint64_t target);

  // The label of an exit at the current place.
  Label* Exit(HsExitKind kind);
  // Of an exit whose operand is at `address`; the agent goes on where the instruction begins.
  // Registers spilled now are restored first; rcx from the slot, if that is not negative.
  Label* Miss(const HostAddress& address, uint16_t bytes, int rcx_slot = -1);
  // Pops into a register and compares what was popped with the view. What follows belongs to the
  // same instruction, with the stack pointer back where it was. Sets flags.
  void PopChecked(int to);
  // Leaves here; the agent does or sees to something and goes on after this.
  void LeaveFor(HsExitKind kind, const HostAddress* address, uint16_t bytes,
                const HsOperation* operation);
  // The same for who jumps to the label. The agent goes on at the next GoOnHere.
  Label* MayLeaveFor(HsExitKind kind, const HostAddress* address, uint16_t bytes,
                     const HsOperation* operation);
  void GoOnHere();

  // Of an instruction that is executed elsewhere, and whose operand is at `address`.
  Label* ExitWith(HsExitKind kind, const HostAddress& address);

  // Everything else of the block is the caller's.
  void Finish(TranslatedBlock* block);

 private:
  struct PendingExit {
    Label label;
    HsExit exit;
    std::optional<HostAddress> address;
    std::optional<HsOperation> operation;
    SavedRegisters saved = kNoneSaved;
    int rcx_slot = -1;
    bool popped = false;       // rsp is to be put back
    bool by_stub = false;      // a stub reads its HsExit, and is all that leads to it
    bool flags_aside = false;  // and are to be restored
  };

  void WriteBranch(uint64_t target, uint16_t flags_exact);
  void StoreFlags();
  void RestoreFlags();
  void TakeFlagsBack();  // after PutFlagsAside, which it is the reverse of
  PendingExit* AddIndirectExit(int64_t rsp_before);
  void FindR11(int64_t rsp_before);
  void TellPlace(const ReturnPlace& return_to, Label* place);
  void WriteReturnPlace(const ReturnPlace& to, Label* place);
  PendingExit* AddExit(HsExitKind kind);
  void AddLink(uint64_t target, uint16_t flags_exact);
  void WriteShortExit(const PendingExit& pending);
  void WriteExit(PendingExit* pending);

  const TranslateRequest& request_;
  RegisterChoice choice_;
  Assembler code_;
  InstructionPlace place_;
  uint64_t begins_at_ = 0;  // host address of the instruction at place_
  uint16_t flags_at_end_ = 0;
  bool r11_is_guests_ = false;
  bool r11_stays_guests_ = false;
  SavedRegisters saved_ = kNoneSaved;
  uint8_t kept_ = HS_NOT_SAVED;
  bool may_keep_ = false;
  std::vector<SideEntry> side_;
  std::vector<Link> links_;
  std::vector<uint32_t> to_exits_;
  std::deque<PendingExit> exits_;
  std::vector<PendingExit*> going_on_;  // those that GoOnHere is for
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_BLOCK_WRITER_H_

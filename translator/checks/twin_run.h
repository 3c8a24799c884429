// The same guest code natively and translated, on the same memory at the same addresses, and what
// differs.
//
// Owns guest memory and code at fixed addresses. One at a time in a process; one thread.

#ifndef HINDSIGHT_TRANSLATOR_CHECKS_TWIN_RUN_H_
#define HINDSIGHT_TRANSLATOR_CHECKS_TWIN_RUN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/checks/random_state.h"
#include "translator/checks/emulated_run.h"
#include "translator/checks/machine.h"
#include "translator/checks/order_check.h"
#include "translator/checks/random_flow.h"
#include "translator/checks/random_form.h"
#include "translator/checks/translated_run.h"
#include "translator/checks/twin_view.h"

namespace hindsight {

// How guest and host addresses lie to each other.
struct TwinPlace {
  const char* name;
  uint64_t memory, code;  // of the guest
  uint64_t arena;
};
// Near, far with guest addresses that fit into a displacement, and far.
std::vector<TwinPlace> TwinPlaces();

struct TwinResult {
  std::string difference;  // empty: none
  std::string description;
  bool refused = false;  // by the translator, before it did anything
};

struct TwinOptions {
  bool operations = true;  // kHsExitOperation is understood
  // After a miss the operand is taken from the view: memory has something else by then.
  bool trust_view = false;
  // Nobody else changes memory: there is no view, and nothing where it would lie.
  bool exclusive = false;
  // With exclusive: there is one, which only loads are compared with.
  bool watches_loads = false;
  // Is replayed as well: by the emulator.
  bool replayed = false;
  MemoryModel order = MemoryModel::kFence;
  // Trials.
  uint32_t max_instructions = 64;
  bool by_any_store = false;
  uint32_t failing_checks = 0, flush_every = 0;
};

class TwinRun {
 public:
  TwinRun(const TwinPlace& place, Flavour flavour, uint64_t seed, TwinOptions options = {});
  ~TwinRun();
  TwinRun(const TwinRun&) = delete;
  TwinRun& operator=(const TwinRun&) = delete;

  std::mt19937_64* random() { return &state_.random(); }

  // One random instruction in one random state.
  TwinResult RunForm(FormKind kind);
  // A random program, for about as many instructions as `limit` says; then also the counts agree.
  TwinResult RunFlow(uint64_t limit) { return RunProgram(FlowUse::kStepped, limit); }
  // The same of programs that show what stepping them changes: compared with the emulator alone.
  // Requires: options.replayed.
  TwinResult RunReplayed(uint64_t limit) { return RunProgram(FlowUse::kReplayed, limit); }
  // The code at registers.rip, until an int3 or a fault, on the memory as it is.
  TwinResult Run(const RegisterFile& registers, uint64_t limit);

  uint64_t code_address() const { return place_.code; }
  absl::Span<uint8_t> code();
  OperandMemory memory() const;
  void FillMemory();
  // Random registers with a stack.
  RegisterFile Registers();

  uint64_t completed() const { return completed_; }
  uint64_t faulted() const { return faulted_; }
  uint64_t refused() const { return refused_; }
  uint64_t steps() const { return steps_; }  // of programs
  // Locked instructions that translated code has executed.
  uint64_t locked() const { return order_.locked(); }
  // Others that are ordered.
  uint64_t ordered() const { return order_.others(); }
  // Requires: options.replayed.
  const EmulatedRun& emulated() const { return *emulated_; }
  const TranslatedRun& translated() const { return *translated_; }
  // Of the last run, in flavour record: whether the view shows what is there.
  bool ViewShows(uint64_t address, uint64_t bytes) const { return view_->Shows(address, bytes); }

 private:
  struct Outcome {
    int signal = 0;  // 0: none, it went as far as wanted
    uint64_t fault_address = 0;
    uint64_t count = 0;
    RegisterFile registers;
    std::vector<uint8_t> memory;
    std::vector<uint64_t> pcs;  // of each instruction, if it was stepped
  };

  std::string CompareFlow(const RegisterFile& registers, const std::vector<uint8_t>& before,
                          const GuestStop& translated);
  std::string CompareReplay(const RegisterFile& registers, const std::vector<uint8_t>& before,
                            const GuestStop& translated);
  std::string CompareOrder(const std::vector<uint64_t>& pcs, uint64_t executed);
  bool InstructionAt(uint64_t pc, GuestInstruction* at) const;
  bool IsRepeatedAt(uint64_t pc) const;
  TwinResult RunProgram(FlowUse use, uint64_t limit);
  void KeepFlagsHarmless(uint64_t stack);
  void Spoil(uint64_t address, uint64_t bytes);
  void Unspoil();
  std::vector<uint8_t> CopyMemory() const;
  void SetMemory(const std::vector<uint8_t>& bytes);
  Outcome RunNatively(const RegisterFile& registers);
  // At most `count` instructions, one by one.
  Outcome StepNatively(const RegisterFile& registers, uint64_t count);
  GuestStop RunTranslated(const RegisterFile& registers, uint64_t limit);
  // Whether the view has all that is read and written.
  bool ViewIsWhole() const { return view_ != nullptr && !exclusive_; }
  bool LeftTheView(const GuestStop& translated) const;
  std::string Compare(const Outcome& native, const GuestStop& translated) const;
  std::string DescribeUnseen(const GuestInstruction& form, const RegisterFile& before) const;
  void HideMxcsrMask(const Outcome& native, std::vector<uint8_t>* memory) const;
  std::string CompareState(const Outcome& native, const GuestStop& translated) const;

  TwinPlace place_;
  RandomState state_;
  Machine machine_;
  std::unique_ptr<TranslatedRun> translated_;
  std::unique_ptr<TwinView> view_;  // null: there is none
  std::unique_ptr<EmulatedRun> emulated_;
  const Flavour flavour_;
  const bool exclusive_;
  OrderCheck order_;
  uint64_t fs_base_ = 0;
  uint64_t open_flags_ = 0;      // that the form leaves to the processor
  uint64_t split_store_at_ = 0;  // operand of the form (host_choices.h)
  uint64_t fxsave_at_ = 0;       // operand of the form, if it is one
  bool elsewhere_ = false;       // an operand of the form is, and may be there
  absl::Span<uint8_t> spoilt_;   // memory that is not what the program has there
  uint64_t completed_ = 0, faulted_ = 0, refused_ = 0, steps_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_CHECKS_TWIN_RUN_H_

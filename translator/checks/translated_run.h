// Runs guest code as its translation, in this process: what the agent and the recorder do, as
// little of it as tests need. Every exit is looked at, every block translated when it is first
// reached.
//
// Owns the thread block, the table and the arena, at fixed addresses. Borrows the machine. One at a
// time; one thread.

#ifndef HINDSIGHT_TRANSLATOR_CHECKS_TRANSLATED_RUN_H_
#define HINDSIGHT_TRANSLATOR_CHECKS_TRANSLATED_RUN_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "translator/checks/machine.h"
#include "translator/thread_block.h"
#include "translator/translator.h"

namespace hindsight {

// Before an instruction that shows what processors and replays compute differently: the state.
struct ToldState {
  uint64_t count = 0;
  uint16_t flags_exact = 0;
  RegisterFile registers;
};

// How a run ended, in terms of the guest.
struct GuestStop {
  enum Kind {
    kSignal,       // a fault, with the registers and the count before the instruction
    kInstruction,  // at an instruction that is not executed in translated code
    kSyscall,
    kCounter,
    kBroken,  // none of these: `what` says why
  };
  Kind kind = kBroken;
  int signal = 0;
  uint64_t fault_address = 0;
  uint64_t count = 0;
  uint16_t flags_exact = 0;
  bool pushed = false;  // the word below rsp is not what it would be
  RegisterFile registers;
  std::string what;
};

class TranslatedRun {
 public:
  struct Options {
    uint64_t arena = 0;     // where translated code goes
    uint64_t distance = 0;  // GS base
    Flavour flavour = Flavour::kPlain;
    uint32_t max_instructions = 64;
    CodeAt code_at;  // guest code; needed
    bool operations = true;
    MemoryModel order = MemoryModel::kFence;
    LeftToAgent left_to_agent;
    bool by_any_store = false;  // as in TranslateRequest
    bool exclusive = false;     // nobody else changes memory: there is no view
    bool watches_loads = false;
    uint32_t failing_checks = 0;
    uint32_t flush_every = 0;  // times that a block is looked for; 0: never
  };
  // What to do at a miss: makes memory and view agree. False: the run is broken.
  using OnMiss = std::function<bool(uint64_t address, uint64_t bytes)>;

  TranslatedRun(Machine* machine, Options options);
  ~TranslatedRun();
  TranslatedRun(const TranslatedRun&) = delete;
  TranslatedRun& operator=(const TranslatedRun&) = delete;

  void set_on_miss(OnMiss on_miss) { on_miss_ = std::move(on_miss); }
  // After a miss the instruction is to be translated alone, and to take its operands from the view.
  // `begin` is called before it is executed, with its operand; `end` whenever translated code has
  // been left.
  void TrustView(std::function<void(uint64_t address, uint64_t bytes)> begin,
                 std::function<void()> end) {
    begin_trust_ = std::move(begin);
    end_trust_ = std::move(end);
  }

  // Runs the guest from `registers`, whose GS base is the guest's, until it stops or has executed
  // `limit` instructions (and then up to the next test of the counter).
  GuestStop Run(const RegisterFile& registers, uint64_t limit);
  // Forgets all translations.
  void Flush();

  uint64_t blocks() const { return blocks_; }
  uint64_t misses() const { return misses_; }
  uint64_t operations() const { return operations_; }
  // Locked ones that were left to the agent when memory had been changed.
  uint64_t locked_left() const { return locked_left_; }
  // Of the last run.
  const std::vector<ToldState>& told() const { return told_; }
  // The counts of what translated code has written to the ring, which is small.
  // The others that are ordered are among them, however they were.
  std::vector<uint64_t> LockedCounts() const;

 private:
  struct HostBlock {
    uint64_t guest_pc = 0;
    uint32_t bytes = 0;
    std::vector<SideEntry> side;
  };

  uint64_t HostOf(uint64_t guest_pc);
  uint64_t HostAfterBranch();
  void Tell(const RegisterFile& registers);
  uint64_t TranslateAt(uint64_t guest_pc, bool trust_view);
  uint64_t Place(uint64_t guest_pc, const TranslatedBlock& made);
  uint64_t HostOfIndirect(uint64_t guest_pc, uint64_t host);
  void EnterInTable(uint64_t guest_pc, uint64_t host);
  uint64_t HostAfterMiss(RegisterFile* registers);
  GuestStop AtExit(const RegisterFile& registers);
  GuestStop AtFault(const MachineStop& stop);
  void LinkTo(uint64_t guest_pc, uint64_t host);
  bool GoOn(RegisterFile* registers);
  bool RunOperation(RegisterFile* registers);
  void Reserve(RegisterFile* registers);
  void Restore(RegisterFile* registers) const;
  HsThreadBlock* block() const;
  HsTableEntry* table() const;

  Machine* machine_;
  Options options_;
  OnMiss on_miss_;
  std::function<void(uint64_t, uint64_t)> begin_trust_;
  std::function<void()> end_trust_;
  uint16_t entry_flags_ = 0;  // the status flags that were the guest's when it was entered
  StubAddresses stubs_;
  uint64_t trap_ = 0;  // host address of the breakpoint that is the agent
  uint64_t next_host_ = 0;
  int operation_signal_ = 0;
  uint64_t operation_fault_ = 0;
  uint64_t next_guest_ = 0;                  // where the guest was about to go on
  std::map<uint64_t, uint64_t> translated_;  // guest pc to host address
  std::map<uint64_t, HostBlock> host_blocks_;
  std::multimap<uint64_t, uint64_t> branches_;  // not linked: guest target to address of the rel32
  std::vector<HsTableEntry*> table_used_;
  std::vector<ToldState> told_;
  std::array<uint64_t, 64> ring_ = {};
  uint64_t looked_for_ = 0, flushed_ = 0;
  std::vector<uint64_t> ordered_left_;  // counts of kHsOrder
  uint64_t blocks_ = 0, misses_ = 0, misses_here_ = 0, operations_ = 0, locked_left_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_CHECKS_TRANSLATED_RUN_H_

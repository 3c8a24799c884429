// The Unicorn engines of one Cpu, and the thread's registers, which move between the engine in use
// and a register file here, from which instructions outside Unicorn are executed:
//
//                        registers()                       MarkChanged()
//     kInEngine  ------------------------>  kInBoth  ------------------------>  kHere
//         ^  ^                              |    ^                                |
//         |  +------------ Start() ---------+    +-------- SyncEngine() ----------+
//         +--------------------------- Set() from anywhere
//
// Moving them costs some 0.3 microseconds, so it is put off until the other side needs them.
//
// There are two engines, since one that reports every memory access is slower: the second is made
// when watchpoints are first set.
//
// Not copyable, not movable. One thread at a time.

#ifndef HINDSIGHT_EMULATOR_CPU_ENGINE_REGISTERS_H_
#define HINDSIGHT_EMULATOR_CPU_ENGINE_REGISTERS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "emulator/code/translated_code.h"
#include "emulator/unicorn/unicorn_engine.h"
#include "emulator/view/view.h"
#include "isa/registers.h"

namespace hindsight {

class EngineRegisters final : public TranslationDropper {
 public:
  // `view` and `client` are borrowed.
  EngineRegisters(View* view, EngineClient* client, UnicornEngine::BlockHook block_hook)
      : view_(view), client_(client), block_hook_(block_hook) {}
  EngineRegisters(const EngineRegisters&) = delete;
  EngineRegisters& operator=(const EngineRegisters&) = delete;

  // Uses the engine that reports accesses (`watch`), or the one that does not, from now on; makes
  // it if need be. Must be called before all others.
  absl::Status Select(bool watch);
  // Replaces the engine in use by a new one, with no translations. On error the old one stays.
  void Renew();

  const RegisterFile& registers();
  void Set(const RegisterFile& registers);
  uint64_t pc() const { return pc_; }

  // The registers, to execute instructions on: a caller that changes them calls MarkChanged().
  // Valid until the engine is used.
  RegisterFile* Borrow() {
    registers();
    return &registers_;
  }
  void MarkChanged() {
    state_ = State::kHere;
    pc_ = registers_.rip;
  }
  // Whether the engine's registers are out of date.
  bool engine_is_behind() const { return state_ == State::kHere; }
  // Gives the engine the registers, if they are newer here.
  void SyncEngine() {
    if (state_ != State::kHere) return;
    engine_->Store(registers_);
    state_ = State::kInBoth;
  }

  // The engine in use. Its registers are current after SyncEngine().
  UnicornEngine* engine() { return engine_; }
  // Runs it from pc(), with the registers.
  UnicornEngine::Exit Start();
  // Takes back what Start() did since UnicornEngine::SaveContext(), when pc was `pc`.
  void Restore(uint64_t pc);
  // Executes one instruction with the trap flag set. False: it faults or `faulted` has become true;
  // the registers are as before. `kept_gpr`: see upper_half.h.
  bool TrapStep(uint8_t kept_gpr, const bool& faulted);

  void DropTranslations(uint64_t begin, uint64_t end) override;
  void Unmap(uint64_t base) override;

 private:
  enum class State : uint8_t { kInEngine, kInBoth, kHere };

  View* const view_;
  EngineClient* const client_;
  const UnicornEngine::BlockHook block_hook_;
  std::unique_ptr<UnicornEngine> quick_;
  std::unique_ptr<UnicornEngine> watching_;  // made when first needed
  UnicornEngine* engine_ = nullptr;          // the one in use
  RegisterFile registers_;                   // selectors always; the rest unless kInEngine
  State state_ = State::kInEngine;
  uint64_t pc_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPU_ENGINE_REGISTERS_H_

#include "emulator/cpu/engine_registers.h"

#include <utility>

#include "base/status_macros.h"
#include "emulator/code/upper_half.h"
#include "isa/operand_address.h"

namespace hindsight {

absl::Status EngineRegisters::Select(bool watch) {
  std::unique_ptr<UnicornEngine>& wanted = watch ? watching_ : quick_;
  if (wanted == nullptr) {
    ASSIGN_OR_RETURN(wanted, UnicornEngine::Create(view_, client_, block_hook_, watch));
  }
  if (wanted.get() == engine_) return absl::OkStatus();
  if (engine_ == nullptr) {
    engine_ = wanted.get();
    return absl::OkStatus();
  }
  const RegisterFile current = registers();
  engine_ = wanted.get();
  Set(current);
  return absl::OkStatus();
}

void EngineRegisters::Renew() {
  auto& place = engine_ == quick_.get() ? quick_ : watching_;
  auto fresh = UnicornEngine::Create(view_, client_, block_hook_, /*watch=*/&place == &watching_);
  if (!fresh.ok()) return;
  const RegisterFile current = registers();
  place = *std::move(fresh);
  engine_ = place.get();
  Set(current);
}

const RegisterFile& EngineRegisters::registers() {
  if (state_ == State::kInEngine) {
    engine_->Load(&registers_);
    state_ = State::kInBoth;
  }
  registers_.rip = pc_;
  return registers_;
}

void EngineRegisters::Set(const RegisterFile& registers) {
  engine_->Store(registers);
  registers_ = registers;
  // To be read back from the engine: bits that it does not keep must not appear and vanish.
  state_ = State::kInEngine;
  pc_ = registers.rip;
}

UnicornEngine::Exit EngineRegisters::Start() {
  SyncEngine();
  const UnicornEngine::Exit exit = engine_->Start(pc_);
  state_ = State::kInEngine;
  pc_ = engine_->pc();
  return exit;
}

void EngineRegisters::Restore(uint64_t pc) {
  engine_->RestoreContext();
  state_ = State::kInEngine;
  pc_ = pc;
}

// Translations made under the trap flag are kept apart from the others by Unicorn, which does not
// hold for uc_emu_start's count.
bool EngineRegisters::TrapStep(uint8_t kept_gpr, const bool& faulted) {
  constexpr uint64_t kTrapFlag = 0x100, kZeroFlag = 0x40;
  const uint64_t start = pc_;
  SyncEngine();
  const uint64_t kept = kept_gpr != kNoGpr ? engine_->ReadGpr(kept_gpr) : 0;
  engine_->SaveContext();
  engine_->WriteFlags(engine_->ReadFlags() | kTrapFlag);
  const UnicornEngine::Exit exit = Start();
  // Unicorn jumps to addresses that are not canonical, the hardware does not.
  if (faulted || exit != UnicornEngine::Exit::kTrap || !IsCanonical(pc_)) {
    Restore(start);
    return false;
  }
  const uint64_t flags = engine_->ReadFlags();
  engine_->WriteFlags(flags & ~kTrapFlag);
  if (kept_gpr != kNoGpr && (flags & kZeroFlag) != 0) engine_->WriteGpr(kept_gpr, kept);
  return true;
}

void EngineRegisters::DropTranslations(uint64_t begin, uint64_t end) {
  for (UnicornEngine* engine : {quick_.get(), watching_.get()}) {
    if (engine != nullptr) engine->DropTranslations(begin, end - begin);
  }
}

void EngineRegisters::Unmap(uint64_t base) {
  for (UnicornEngine* engine : {quick_.get(), watching_.get()}) {
    if (engine != nullptr) engine->Unmap(base);
  }
}

}  // namespace hindsight

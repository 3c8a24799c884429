#include "server/diversion.h"

#include "absl/types/span.h"
#include "server/target_description.h"

namespace hindsight {
namespace {

std::string AllRegisters(SessionState& state) {
  std::string all;
  const ThreadRef thread = state.SelectedThread();
  const size_t count = Registers(state.target->register_set()).size();
  for (size_t number = 0; number < count; ++number) {
    all += state.target->ReadRegister(thread, static_cast<int>(number)).value_or("");
  }
  return all;
}

absl::Span<const uint8_t> Bytes(absl::string_view bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace

Diversion::Diversion(SessionState* state) : state_(state) {
  if (state_->target->InDiversion()) return;
  resumed_ = state_->target->ResumeDiversion();
  state_->registers_before_diversion = AllRegisters(*state_);
  state_->diversion_changed_registers = false;
}

Diversion::~Diversion() {
  if (!state_->target->InDiversion()) return;
  if (AllRegisters(*state_) != state_->registers_before_diversion) {
    state_->diversion_changed_registers = true;
  } else if (state_->diversion_changed_registers || (resumed_ && !wrote_memory_)) {
    state_->target->SuspendDiversion();
  }
}

absl::Status Diversion::WriteRegister(int number, absl::string_view bytes) {
  return state_->target->WriteRegister(state_->SelectedThread(), number, Bytes(bytes));
}

absl::Status Diversion::WriteMemory(uint64_t address, absl::string_view bytes) {
  wrote_memory_ = true;
  return state_->target->WriteMemory(state_->SelectedThread(), address, Bytes(bytes));
}

}  // namespace hindsight

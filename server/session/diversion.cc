#include "server/session/diversion.h"

#include <algorithm>

#include "absl/types/span.h"
#include "server/target/target_description.h"

namespace hindsight {
namespace {

std::string AllRegisters(SessionState& state, ThreadRef thread) {
  std::string all;
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
  state_->diversion.threads.clear();
  Choose(state_->SelectedThread());
}

Diversion::~Diversion() {
  std::vector<DivertedThread>& diverted = state_->diversion.threads;
  if (!state_->target->InDiversion()) {
    diverted.clear();
    return;
  }
  while (!diverted.empty()) {
    DivertedThread& last = diverted.back();
    if (AllRegisters(*state_, last.thread) != last.registers) {
      last.changed = true;
      return;
    }
    // Where it began it goes on until there is a reason to think that it is over.
    const bool over = last.changed || (resumed_ && !wrote_memory_);
    if (diverted.size() == 1 && !over) return;
    diverted.pop_back();
  }
  state_->target->SuspendDiversion();
}

void Diversion::Choose(ThreadRef thread) {
  std::vector<DivertedThread>& diverted = state_->diversion.threads;
  const auto known = std::find_if(diverted.begin(), diverted.end(),
                                  [&](const DivertedThread& one) { return one.thread == thread; });
  if (known == diverted.end()) {
    diverted.push_back({.thread = thread, .registers = AllRegisters(*state_, thread)});
  } else {
    std::rotate(known, known + 1, diverted.end());
  }
}

absl::Status Diversion::WriteRegister(int number, absl::string_view bytes) {
  const ThreadRef thread = state_->SelectedThread();
  Choose(thread);
  return state_->target->WriteRegister(thread, number, Bytes(bytes));
}

absl::Status Diversion::WriteMemory(uint64_t address, absl::string_view bytes) {
  wrote_memory_ = true;
  return state_->target->WriteMemory(state_->SelectedThread(), address, Bytes(bytes));
}

}  // namespace hindsight

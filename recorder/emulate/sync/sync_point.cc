#include "recorder/emulate/sync/sync_point.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "emulator/cpu/register_patch.h"

namespace hindsight {
namespace {

// Tries to reach a state a second time. Each may fault in another block than the one before.
constexpr int kMaxTries = 1000;

}  // namespace

void SyncPoint::Start(Cpu* cpu, MemoryModel model) {
  cpu_ = cpu;
  cpu_->LogOrderable(model, &orderable_);
  StartAgain();
}

void SyncPoint::StartAgain() {
  registers_ = cpu_->registers();
  count_ = reached_ = cpu_->count();
  orderable_.clear();
  pager_->set_count(count_);
}

bool SyncPoint::Advance(bool others_store) {
  const bool written = pager_->WriteBack(others_store);
  count_ = cpu_->count();
  registers_ = cpu_->registers();
  Reach(count_);
  return written;
}

absl::Span<const uint64_t> SyncPoint::OrderableSince(uint64_t first) const {
  const auto begin =
      std::lower_bound(orderable_.begin(), orderable_.end(), std::max(first, reached_));
  return {orderable_.data() + (begin - orderable_.begin()),
          static_cast<size_t>(orderable_.end() - begin)};
}

void SyncPoint::Reach(uint64_t count) {
  pager_->set_count(count);
  const absl::Span<const uint64_t> fresh = OrderableSince(reached_);
  if (!fresh.empty()) log_->OrderRun(count, fresh);
  orderable_.clear();
  reached_ = count;
}

void SyncPoint::Transition(RegisterFile after, RecordBody body) {
  const RegisterFile before = cpu_->registers();
  const uint64_t count = cpu_->count();
  std::visit(
      [&](auto& record) {
        using T = std::decay_t<decltype(record)>;
        if constexpr (std::is_same_v<T, SideEffect> || std::is_same_v<T, Discontinuity>) {
          record.register_hash = Hash(before);
          record.registers = Difference(before, after);
        }
      },
      body);
  log_->Append(count, std::move(body));
  cpu_->SetRegisters(after);
  cpu_->set_count(count + 1);
  pager_->set_count(count + 1);
  count_ = count + 1;
  registers_ = cpu_->registers();
}

void SyncPoint::LogHash() {
  if (hashed_count_ == cpu_->count()) return;
  hashed_count_ = cpu_->count();
  hashed_registers_ = cpu_->registers();
  Reach(hashed_count_);
  log_->Append(hashed_count_, RegisterHash{Hash(hashed_registers_)});
}

bool SyncPoint::GoBack() {
  if (!pager_->Rollback()) return false;
  cpu_->SetRegisters(registers_);
  cpu_->set_count(count_);
  orderable_.clear();
  return true;
}

absl::StatusOr<bool> SyncPoint::RunBackTo(uint64_t count) {
  for (int tries = 0; tries < kMaxTries; ++tries) {
    if (!GoBack()) return false;
    RunOptions run;
    run.limit = count;
    run.skip_first_breakpoint = true;  // there is none later: the thread was synced there
    const RunResult result = cpu_->Run(run);
    if (result.stop != Stop::kFault) return cpu_->count() == count;
    // The block of state `count` faults as a whole: run to its start, and step.
    if (!GoBack()) return false;
    run.limit = result.block_count;
    if (cpu_->Run(run).stop == Stop::kFault) continue;
    while (cpu_->count() < count) {
      if (cpu_->Step().stop != Stop::kLimit) return false;
    }
    return true;
  }
  const absl::Status error = absl::InternalError(
      absl::StrCat("thread ", log_->thread(), ": the emulator does not get to instruction ", count,
                   " a second time, at ", absl::Hex(cpu_->pc())));
  GoBack();
  return error;
}

void SyncPoint::GoToLastLogged() {
  const bool hashed = hashed_count_ > count_;
  cpu_->SetRegisters(hashed ? hashed_registers_ : registers_);
  cpu_->set_count(hashed ? hashed_count_ : count_);
  orderable_.clear();
}

}  // namespace hindsight

#include "emulator/cpu/cpu.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "emulator/cpu/cpu_impl.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr uint64_t kAlignmentCheck = 1 << 18;  // in RFLAGS

}  // namespace

absl::Status Cpu::Impl::Open() { return registers_.Select(/*watch=*/false); }

void Cpu::Impl::Recycle(Pager* pager) {
  memory_.SetPager(pager);
  code_.DropAllRights();
  SetBreakpoints({});
  memory_.watchpoints().Set({});
  orderable_.Stop();
  progress_.TakeStopRequest();
  progress_.set_count(0);
  assist_.executor().ForgetUsed();
}

void Cpu::Impl::SetRegisters(const RegisterFile& registers) {
  registers_.Set(registers);
  NoteControl(registers);
}

// Of the thread's registers: what decides how instructions are executed.
void Cpu::Impl::NoteControl(const RegisterFile& registers) {
  alignment_.of_all = (registers.rflags & kAlignmentCheck) != 0;
  assist_.NoteFloatControl(registers);
  filter_.SetFloatsOutside(assist_.floats_outside());
}

void Cpu::Impl::SetBreakpoints(const absl::flat_hash_set<uint64_t>& addresses) {
  code_.SetBreakpoints(addresses);
  assist_.Invalidate();
}

void Cpu::Impl::LogOrderable(MemoryModel model, std::vector<uint64_t>* counts) {
  if (counts == nullptr) {
    orderable_.Stop();
    return;
  }
  if (orderable_.model() != model) assist_.Invalidate();
  orderable_.Start(model, counts);
  code_.blocks().SetMemoryModel(model);
}

void Cpu::Impl::CheckAlignment() {
  alignment_.checked = true;
  code_.blocks().CheckAlignment();
}

void Cpu::Impl::ContentsChanged(uint64_t page, uint64_t lines) {
  const bool settled = code_.IsSettled(page);
  if (lines == 0 || !code_.HasCode(page)) return;
  if (mode_ == Mode::kIdle) {
    if (settled) code_.DropLines(page, lines);  // else they are compared before they are executed
    return;
  }
  if (settled) {
    code_.DropLater(page, lines);
    progress_.ForceExit();
  }
  if (mode_ == Mode::kBlocks && progress_.IsOnPage(page)) FailBlock();
}

std::optional<Instruction> Cpu::Impl::Decode(uint64_t pc) {
  constexpr uint64_t kLongest = 15;
  if (const Instruction* const known = code_.Known(pc)) return *known;
  const uint64_t page = PageOf(pc);
  if (pc >= View::kAddressLimit || !memory_.ObtainForExecution(page)) return std::nullopt;
  ApplyPending();
  if (code_.TakeMuchGarbage()) registers_.Renew();
  code_.Settle(page, progress_.work());
  const uint64_t here = std::min(kLongest, page + kPageBytes - pc);
  uint8_t bytes[kLongest];
  if (!memory_.view().ReadHeld(pc, absl::MakeSpan(bytes, here))) return std::nullopt;
  const Instruction instruction = Classify(absl::MakeSpan(bytes, here));
  const bool crosses = instruction.length == 0 && here < kLongest;
  if (!crosses) {
    code_.Remember(pc, instruction);
    return instruction;
  }
  if (!memory_.ObtainForExecution(page + kPageBytes) ||
      !memory_.view().ReadHeld(pc + here, absl::MakeSpan(bytes + here, kLongest - here))) {
    return std::nullopt;
  }
  ApplyPending();
  code_.Settle(page + kPageBytes, progress_.work());
  return Classify(bytes);
}

Cpu::Cpu(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Cpu::~Cpu() = default;

absl::StatusOr<std::unique_ptr<Cpu>> Cpu::Create(Pager* pager) {
  auto impl = std::make_unique<Impl>(pager);
  RETURN_IF_ERROR(impl->Open());
  return std::unique_ptr<Cpu>(new Cpu(std::move(impl)));
}

const RegisterFile& Cpu::registers() { return impl_->registers_.registers(); }
void Cpu::SetRegisters(const RegisterFile& registers) { impl_->SetRegisters(registers); }
uint64_t Cpu::pc() { return impl_->registers_.pc(); }
uint64_t Cpu::count() const { return impl_->progress_.count(); }
void Cpu::set_count(uint64_t count) { impl_->progress_.set_count(count); }
uint8_t* Cpu::HostPage(uint64_t page) { return impl_->memory_.view().HostPage(page); }
PageRights Cpu::rights(uint64_t page) const { return impl_->memory_.view().rights(page); }
void Cpu::SetRights(uint64_t page, PageRights rights) { impl_->code_.SetRights(page, rights); }
void Cpu::ProtectWrites(absl::Span<const uint64_t> pages) {
  impl_->memory_.view().ProtectWrites(pages);
}
void Cpu::DropRights(absl::Span<const uint64_t> pages) { impl_->code_.DropRights(pages); }
void Cpu::Release(absl::Span<const uint64_t> pages) { impl_->code_.Release(pages); }
void Cpu::ReleaseChunk(uint64_t base) { impl_->code_.ReleaseChunk(base); }
void Cpu::ContentsChanged(uint64_t page, uint64_t lines) { impl_->ContentsChanged(page, lines); }
bool Cpu::ReadHeld(uint64_t address, absl::Span<uint8_t> out) const {
  return impl_->memory_.view().ReadHeld(address, out);
}
void Cpu::Recycle(Pager* pager) { impl_->Recycle(pager); }
RunResult Cpu::Run(const RunOptions& options) { return impl_->Run(options); }
RunResult Cpu::Step() { return impl_->Step(); }
std::optional<Instruction> Cpu::next() { return impl_->Decode(impl_->registers_.pc()); }
void Cpu::RequestStop() { impl_->progress_.RequestStop(); }
void Cpu::SetBreakpoints(const absl::flat_hash_set<uint64_t>& addresses) {
  impl_->SetBreakpoints(addresses);
}
void Cpu::SetWatchpoints(const std::vector<Watchpoint>& watchpoints) {
  impl_->memory_.watchpoints().Set(watchpoints);
  impl_->quiet_.clear();
}
void Cpu::LogOrderable(MemoryModel model, std::vector<uint64_t>* counts) {
  impl_->LogOrderable(model, counts);
}
void Cpu::CheckAlignment() { impl_->CheckAlignment(); }
void Cpu::SetQuiet(std::vector<QuietStores> quiet) { impl_->quiet_ = std::move(quiet); }
const Watchpoints::Hit& Cpu::watch_hit() const { return impl_->hit_; }
const std::vector<Watchpoints::Hit>& Cpu::stores() const { return impl_->stores_; }

HostFeatures Cpu::features_used() const { return impl_->assist_.executor().used(); }
HostFeatures Cpu::features_lacking() const { return impl_->lacking_; }
void Cpu::LeaveBridgesToUnicorn() { impl_->assist_.DisableBridges(); }
void Cpu::SetHostFeatures(HostFeatures features) {
  impl_->assist_.executor().SetHostFeatures(features);
}

std::unique_ptr<Cpu::SavedState> Cpu::Save() {
  auto state = std::make_unique<SavedState>();
  state->registers = impl_->registers_.registers();
  state->count = impl_->progress_.count();
  return state;
}

void Cpu::Restore(const SavedState& state) {
  impl_->SetRegisters(state.registers);
  impl_->progress_.set_count(state.count);
}

}  // namespace hindsight

// Runs: blocks in an engine, what is between them outside it.

#include "emulator/cpu/cpu_impl.h"

namespace hindsight {

RunResult Cpu::Impl::Fault(uint64_t block_count) {
  memory_.RestorePoisoned([this](uint64_t page, bool gone) {
    code_.DropPage(page);  // garbage may have been translated
    if (gone) code_.Forget(page);
  });
  stop_.fault = false;
  orderable_.DropFrom(block_count);
  return {
      .stop = Stop::kFault, .block_count = block_count, .fault_address = memory_.fault_address()};
}

RunResult Cpu::Impl::Run(const RunOptions& options) {
  if (!registers_.Select(!memory_.watchpoints().empty()).ok()) return Fault(progress_.count());
  FaultScope scope(this);
  log_ = options.log_hits;
  progress_.set_exact(options.exact_limit);
  filter_.Start({.logs_hits = log_ != nullptr,
                 .floats_outside = assist_.floats_outside(),
                 .checks_alignment = alignment_.checked,
                 .logs_orderable = orderable_.active()});
  memory_.set_fault_address(0);
  if (options.skip_first_breakpoint && log_ == nullptr && progress_.count() < options.limit &&
      code_.breakpoints().contains(registers_.pc())) {
    const RunResult step = StepOne();
    if (step.stop != Stop::kLimit) return step;
  }
  for (;;) {
    if (progress_.count() >= options.limit || progress_.TakeStopRequest()) return {};
    if (std::optional<RunResult> result = RunBlocks(options)) return *result;
  }
}

// One uc_emu_start, and the block it was stopped at. nullopt: go on.
std::optional<RunResult> Cpu::Impl::RunBlocks(const RunOptions& options) {
  ApplyPending();
  if (checks_accesses()) return StepThrough(Block{.address = registers_.pc()}, options);
  if (RunOutside(options)) return std::nullopt;
  ApplyPending();
  if (const Block* block = BlockToStep()) return StepThrough(*block, options);
  stop_ = {};
  takeover_ = {};
  progress_.StartEngine(options.limit);
  registers_.SyncEngine();
  mode_ = Mode::kBlocks;
  const UnicornEngine::Exit exit = registers_.Start();
  mode_ = Mode::kIdle;
  return AfterBlocks(exit, options);
}

std::optional<RunResult> Cpu::Impl::AfterBlocks(UnicornEngine::Exit exit,
                                                const RunOptions& options) {
  const bool dropped = code_.has_pending();
  ApplyPending();
  if (exit == UnicornEngine::Exit::kNewChunk) {
    stop_.recheck = true;
    exit = UnicornEngine::Exit::kStopped;
  }
  if (stop_.fault || exit != UnicornEngine::Exit::kStopped) {
    return Fault(progress_.block_start_count());
  }
  if (takeover_.taken) {
    if (!FinishRep()) return Fault(progress_.block_start_count());
    return std::nullopt;
  }
  if (stop_.recheck) {
    if (!Decode(registers_.pc()).has_value()) return Fault(progress_.count());
    return std::nullopt;
  }
  // Stopped, but not by us: an instruction Unicorn rejects, though we thought it would not.
  if (stop_.blocked == nullptr) return Fault(progress_.block_start_count());
  if (dropped) return std::nullopt;  // perhaps the block as well
  if (progress_.count() >= options.limit || progress_.stop_requested()) return std::nullopt;
  return StepThrough(*stop_.blocked, options);
}

// Executes the block at pc, which must not be run through, instruction by instruction; and what
// follows it as long as that is quicker than moving the registers to the engine and back.
std::optional<RunResult> Cpu::Impl::StepThrough(const Block& block, const RunOptions& options) {
  // The block may be forgotten while stepping.
  const uint64_t begin = block.address, end = block.address + block.size;
  uint32_t left = block.instructions == 0 ? 1 : block.instructions;
  for (uint32_t bridges = 0;;) {
    if (progress_.count() >= options.limit) return RunResult{};
    if (std::optional<RunResult> result = StepAndLog()) return result;
    if (code_.has_pending() || progress_.stop_requested()) break;
    if (left > 0) --left;
    const uint64_t pc = registers_.pc();
    if (left > 0 && pc >= begin && pc < end) continue;
    left = 0;
    if (!registers_.engine_is_behind() || UsesRuns() || !StepsOutside(&bridges)) break;
  }
  return std::nullopt;
}

void HitLog::AddWatchHit(CountRange block) {
  ++watch_hits;
  last_watch_block_count = block.from;
  last_watch_block_end = block.to;
  if (watch_blocks == nullptr) return;
  std::vector<CountRange>& blocks = *watch_blocks;
  while (!blocks.empty() && blocks.back().from >= block.from) blocks.pop_back();
  // The more there are, the less it matters where each is.
  const uint64_t close = 64 + blocks.size();
  if (!blocks.empty() && blocks.back().to + close >= block.from) {
    blocks.back().to = std::max(blocks.back().to, block.to);
  } else {
    blocks.push_back(block);
  }
}

// One instruction of a run, with its hits of breakpoints and watchpoints. nullopt: go on.
std::optional<RunResult> Cpu::Impl::StepAndLog() {
  const uint64_t before = progress_.count();
  if (code_.breakpoints().contains(registers_.pc())) {
    if (log_ == nullptr) return RunResult{.stop = Stop::kBreakpoint};
    ++log_->breakpoint_hits;
    log_->last_breakpoint_count = before;
  }
  const RunResult step = StepOne();
  if (step.stop == Stop::kLimit) return std::nullopt;
  if (step.stop != Stop::kWatch) return step;
  if (log_ == nullptr) return Fault(before);
  log_->AddWatchHit({before, progress_.count()});
  return std::nullopt;
}

RunResult Cpu::Impl::Step() {
  if (!registers_.Select(!memory_.watchpoints().empty()).ok()) return Fault(progress_.count());
  FaultScope scope(this);
  log_ = nullptr;
  return StepOne();
}

}  // namespace hindsight

#include "server/target/scratch_process.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

// Instructions between two polls of the interrupt flag: some milliseconds.
constexpr uint64_t kChunkInstructions = 1'000'000;

}  // namespace

absl::StatusOr<std::unique_ptr<ScratchProcess>> ScratchProcess::Create(
    ThreadRef thread, const RegisterFile& registers, std::vector<MapRegion> maps,
    ScratchMachine::MemorySource source) {
  ASSIGN_OR_RETURN(std::unique_ptr<ScratchMachine> machine,
                   ScratchMachine::Create(std::move(maps), std::move(source)));
  machine->cpu().SetRegisters(registers);
  return std::unique_ptr<ScratchProcess>(new ScratchProcess(thread, std::move(machine)));
}

std::string ScratchProcess::TakeText() { return std::exchange(text_, ""); }

RunStop ScratchProcess::Event(StopKind kind, int signal) const {
  return {.kind = kind, .thread = thread_.tid, .signal = signal};
}

RunStop ScratchProcess::Refuse(const std::string& what, int signal) {
  absl::StrAppendFormat(&text_, "hindsight: %s at %#x cannot be run in a copy of the recording\n",
                        what, cpu().pc());
  return Event(StopKind::kSignal, signal);
}

bool ScratchProcess::AtBreakpoint(const RunRequest& request) {
  uint64_t pc = cpu().pc();
  if (!breakpoint_addresses_.contains(pc)) return false;
  return std::any_of(request.breakpoints.begin(), request.breakpoints.end(),
                     [this, pc](const BreakpointSpec& breakpoint) {
                       return breakpoint.address == pc &&
                              (!breakpoint.condition || breakpoint.condition(thread_.tid));
                     });
}

// One instruction. Unset: done.
std::optional<RunStop> ScratchProcess::Step() {
  RunResult result = cpu().Step();
  switch (result.stop) {
    case Stop::kLimit:
    case Stop::kWatch:
    case Stop::kBreakpoint:
      return std::nullopt;
    case Stop::kSpecial: {
      std::optional<Instruction> instruction = cpu().next();
      if (instruction) return Special(*instruction);
      [[fallthrough]];
    }
    case Stop::kFault:
      return Event(StopKind::kSignal, SIGSEGV);
  }
  return std::nullopt;
}

// After an inexact stop: back to where the chunk began, and step by step to the fault.
std::optional<RunStop> ScratchProcess::StepThroughFault(uint64_t block_count) {
  machine_->RollBack();
  const bool moved = cpu().count() < block_count;
  if (moved) {
    cpu().SetBreakpoints({});
    RunResult result = cpu().Run({.limit = block_count});
    cpu().SetBreakpoints(breakpoint_addresses_);
    if (result.stop != Stop::kLimit) return Event(StopKind::kSignal, SIGSEGV);
  }
  // The longest block that Unicorn makes: after it the fault has not occurred again.
  constexpr int kMaxBlockInstructions = 4096;
  for (int i = 0; i < kMaxBlockInstructions; ++i) {
    // Also one in memory that cannot be executed: where a function called by gdb returns to.
    if ((moved || i > 0) && breakpoint_addresses_.contains(cpu().pc())) break;
    if (std::optional<RunStop> event = Step()) return event;
  }
  return std::nullopt;
}

// Runs for a while. Unset: nothing stopped it but perhaps a breakpoint.
std::optional<RunStop> ScratchProcess::RunChunk(bool skip_first_breakpoint) {
  machine_->Checkpoint();
  RunResult result = cpu().Run({.limit = cpu().count() + kChunkInstructions,
                                .exact_limit = false,
                                .skip_first_breakpoint = skip_first_breakpoint});
  switch (result.stop) {
    case Stop::kLimit:
    case Stop::kWatch:
    case Stop::kBreakpoint:
      return std::nullopt;
    case Stop::kSpecial:
      return Step();
    case Stop::kFault:
      return StepThroughFault(result.block_count);
  }
  return std::nullopt;
}

RunStop ScratchProcess::Resume(const RunRequest& request) {
  breakpoint_addresses_.clear();
  for (const BreakpointSpec& breakpoint : request.breakpoints) {
    breakpoint_addresses_.insert(breakpoint.address);
  }
  cpu().SetBreakpoints(breakpoint_addresses_);
  for (bool first = true;; first = false) {
    if (request.interrupt != nullptr && request.interrupt->load()) {
      return Event(StopKind::kInterrupted);
    }
    // gdb steps off a breakpoint by itself, so one at the start counts; when stepping it does not.
    if (!(first && request.step) && AtBreakpoint(request)) return Event(StopKind::kBreakpoint);
    if (request.step) {
      uint64_t pc = cpu().pc();
      if (!first && (pc < request.range_start || pc >= request.range_end)) {
        return Event(StopKind::kStep);
      }
      machine_->Checkpoint();
      if (std::optional<RunStop> event = Step()) return *event;
    } else if (std::optional<RunStop> event = RunChunk(/*skip_first_breakpoint=*/true)) {
      return *event;
    }
  }
}

}  // namespace hindsight

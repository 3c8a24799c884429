#include "server/target/scratch_process.h"

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

// Instructions between two looks at the interrupt flag: some milliseconds.
constexpr uint64_t kChunkInstructions = 1'000'000;
// How far below its lowest page known a stack may grow, as Linux lets it.
constexpr uint64_t kStackGrowthBytes = uint64_t{8} << 20;

uint64_t PageOf(uint64_t address) { return address & ~(kPageBytes - 1); }

}  // namespace

absl::StatusOr<std::unique_ptr<ScratchProcess>> ScratchProcess::Create(
    ThreadRef thread, const RegisterFile& registers, std::vector<MapRegion> maps,
    MemorySource source) {
  auto process = std::unique_ptr<ScratchProcess>(
      new ScratchProcess(thread, std::move(maps), std::move(source)));
  ASSIGN_OR_RETURN(process->cpu_, Cpu::Create(process.get()));
  process->cpu_->SetRegisters(registers);
  return process;
}

const MapRegion* ScratchProcess::RegionOf(uint64_t address) const {
  for (const MapRegion& region : maps_) {
    uint64_t growth = region.name == "[stack]" ? std::min(kStackGrowthBytes, region.start) : 0;
    if (address >= region.start - growth && address < region.end) return &region;
  }
  return nullptr;
}

// Copies `page` from the recording. Memory that was never a file's nor written to by anyone whom
// the recording knows of is zero, as the kernel would have given it.
bool ScratchProcess::Fetch(uint64_t page) {
  std::vector<uint8_t> bytes(kPageBytes);
  size_t known = source_(page, absl::MakeSpan(bytes));
  if (known < kPageBytes) {
    const MapRegion* region = RegionOf(page);
    bool anonymous = region != nullptr && region->inode == 0 && !region->shared &&
                     (region->protection & PROT_WRITE);
    if (!anonymous) return false;
    std::fill(bytes.begin() + known, bytes.end(), 0);
    for (uint64_t line = known / kLineBytes * kLineBytes; line < kPageBytes; line += kLineBytes) {
      source_(page + line, absl::MakeSpan(bytes).subspan(line, kLineBytes));
    }
  }
  std::memcpy(cpu_->HostPage(page), bytes.data(), kPageBytes);
  cpu_->SetRights(page, PageRights::kRead);
  cpu_->ContentsChanged(page);
  return true;
}

bool ScratchProcess::OnMissing(uint64_t page, Access access) {
  if (const MapRegion* region = RegionOf(page)) {
    uint32_t needed = access == Access::kWrite     ? PROT_WRITE
                      : access == Access::kExecute ? PROT_EXEC
                                                   : PROT_READ;
    if ((region->protection & needed) == 0) return false;
  }
  if (!Fetch(page)) return false;
  if (access != Access::kWrite) return true;
  if (!OnFirstWrite(page)) return false;
  cpu_->SetRights(page, PageRights::kReadWrite);
  return true;
}

bool ScratchProcess::OnFirstWrite(uint64_t page) {
  const MapRegion* region = RegionOf(page);
  if (region != nullptr && (region->protection & PROT_WRITE) == 0) return false;
  const uint8_t* bytes = cpu_->HostPage(page);
  old_pages_.try_emplace(page, bytes, bytes + kPageBytes);
  return true;
}

size_t ScratchProcess::ReadMemory(uint64_t address, absl::Span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    uint64_t at = address + done;
    size_t size = std::min<uint64_t>(out.size() - done, PageOf(at) + kPageBytes - at);
    absl::Span<uint8_t> part = out.subspan(done, size);
    if (cpu_->rights(PageOf(at)) == PageRights::kNone) {
      size_t known = source_(at, part);
      done += known;
      if (known < size) break;
    } else if (cpu_->ReadHeld(at, part)) {
      done += size;
    } else {
      break;
    }
  }
  return done;
}

absl::Status ScratchProcess::WriteMemory(uint64_t address, absl::Span<const uint8_t> bytes) {
  // All or nothing: first all pages, then the bytes.
  if (bytes.empty()) return absl::OkStatus();
  if (address + (bytes.size() - 1) < address) {
    return absl::NotFoundError("there is no memory after the end of the address space");
  }
  for (uint64_t page = PageOf(address), last = PageOf(address + bytes.size() - 1);;
       page += kPageBytes) {
    if (cpu_->rights(page) == PageRights::kNone && !Fetch(page)) {
      return absl::NotFoundError(absl::StrFormat("there is no memory at %#x", page));
    }
    if (page == last) break;
  }
  while (!bytes.empty()) {
    uint64_t page = PageOf(address);
    size_t size = std::min<uint64_t>(bytes.size(), page + kPageBytes - address);
    std::memcpy(cpu_->HostPage(page) + (address - page), bytes.data(), size);
    cpu_->ContentsChanged(page);
    address += size;
    bytes.remove_prefix(size);
  }
  return absl::OkStatus();
}

std::string ScratchProcess::TakeText() { return std::exchange(text_, ""); }

StopEvent ScratchProcess::Event(StopKind kind, int signal) const {
  return {.kind = kind, .thread = thread_, .signal = signal};
}

StopEvent ScratchProcess::Refuse(const std::string& what, int signal) {
  absl::StrAppendFormat(&text_, "hindsight: %s at %#x cannot be run in a copy of the recording\n",
                        what, cpu_->pc());
  return Event(StopKind::kSignal, signal);
}

void ScratchProcess::BeginChunk() {
  std::vector<uint64_t> written;
  for (const auto& [page, contents] : old_pages_) written.push_back(page);
  cpu_->ProtectWrites(written);
  old_pages_.clear();
  chunk_start_ = cpu_->Save();
}

void ScratchProcess::UndoChunk() {
  std::vector<uint64_t> written;
  for (const auto& [page, contents] : old_pages_) {
    std::memcpy(cpu_->HostPage(page), contents.data(), kPageBytes);
    cpu_->ContentsChanged(page);
    written.push_back(page);
  }
  cpu_->ProtectWrites(written);
  old_pages_.clear();
  cpu_->Restore(*chunk_start_);
}

bool ScratchProcess::AtBreakpoint(const ResumeRequest& request) {
  uint64_t pc = cpu_->pc();
  if (request.breakpoints == nullptr || !breakpoint_addresses_.contains(pc)) return false;
  return std::any_of(request.breakpoints->begin(), request.breakpoints->end(),
                     [this, pc](const BreakpointSpec& breakpoint) {
                       return breakpoint.address == pc &&
                              (!breakpoint.condition || breakpoint.condition(thread_));
                     });
}

// One instruction. Unset: done.
std::optional<StopEvent> ScratchProcess::Step() {
  RunResult result = cpu_->Step();
  switch (result.stop) {
    case Stop::kLimit:
    case Stop::kWatch:
    case Stop::kBreakpoint:
      return std::nullopt;
    case Stop::kSpecial: {
      std::optional<Instruction> instruction = cpu_->next();
      if (instruction) return Special(*instruction);
      [[fallthrough]];
    }
    case Stop::kFault:
      return Event(StopKind::kSignal, SIGSEGV);
  }
  return std::nullopt;
}

// After an inexact stop: back to where the chunk began, and step by step to what happened.
std::optional<StopEvent> ScratchProcess::StepThroughFault(uint64_t block_count) {
  UndoChunk();
  const bool moved = cpu_->count() < block_count;
  if (moved) {
    cpu_->SetBreakpoints({});
    RunResult result = cpu_->Run({.limit = block_count});
    cpu_->SetBreakpoints(breakpoint_addresses_);
    if (result.stop != Stop::kLimit) return Event(StopKind::kSignal, SIGSEGV);
  }
  // The longest block that Unicorn makes; behind it the fault did not come again.
  constexpr int kMaxBlockInstructions = 4096;
  for (int i = 0; i < kMaxBlockInstructions; ++i) {
    // Also one in memory that cannot be executed: where a function called by gdb returns to.
    if ((moved || i > 0) && breakpoint_addresses_.contains(cpu_->pc())) break;
    if (std::optional<StopEvent> event = Step()) return event;
  }
  return std::nullopt;
}

// Runs for a while. Unset: nothing stopped it but perhaps a breakpoint.
std::optional<StopEvent> ScratchProcess::RunChunk(bool skip_first_breakpoint) {
  BeginChunk();
  RunResult result = cpu_->Run({.limit = cpu_->count() + kChunkInstructions,
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

StopEvent ScratchProcess::Resume(const ResumeRequest& request) {
  breakpoint_addresses_.clear();
  if (request.breakpoints != nullptr) {
    for (const BreakpointSpec& breakpoint : *request.breakpoints) {
      breakpoint_addresses_.insert(breakpoint.address);
    }
  }
  cpu_->SetBreakpoints(breakpoint_addresses_);
  for (bool first = true;; first = false) {
    if (request.interrupt != nullptr && request.interrupt->load()) {
      return Event(StopKind::kInterrupted);
    }
    // gdb steps off a breakpoint by itself, so one at the start counts; when stepping it does not.
    if (!(first && request.step) && AtBreakpoint(request)) return Event(StopKind::kBreakpoint);
    if (request.step) {
      uint64_t pc = cpu_->pc();
      if (!first && (pc < request.range_start || pc >= request.range_end)) {
        return Event(StopKind::kStep);
      }
      BeginChunk();
      if (std::optional<StopEvent> event = Step()) return *event;
    } else if (std::optional<StopEvent> event = RunChunk(/*skip_first_breakpoint=*/true)) {
      return *event;
    }
  }
}

}  // namespace hindsight

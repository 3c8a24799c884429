#include "recorder/emulate/thread_engine.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/waiting_calls.h"
#include "emulator/cpu/register_patch.h"
#include "recorder/emulate/recording.h"
#include "recorder/process/rseq.h"
#include "recorder/process/scheduling.h"

namespace hindsight {
namespace {

// Instructions between two sync points of a program that makes no system calls: bounds what a
// fault costs (they are done again, in about 0.1 s).
constexpr uint64_t kMaxSyncDistance = 16'000'000;

constexpr uint64_t kSchedulingIntervalNs = 10'000'000;

// Pages whose contents are hashed at the end of a segment.
constexpr size_t kPagesSampled = 32;

}  // namespace

ThreadEngine::ThreadEngine(Recording* recording, RecordedProcess* process,
                           std::unique_ptr<Tracee> tracee, int32_t maker)
    : recording_(recording),
      process_(process),
      tracee_(std::move(tracee)),
      maker_(maker),
      log_(process->writer(), tracee_->thread(), recording->sequence()),
      pager_(tracee_.get(), &process->modules(), &log_, &process->witnesses()),
      memory_hashes_(tracee_.get(), &pager_, &log_),
      scheduling_(process->pid(), tracee_->thread()),
      affinity_(tracee_->thread()),
      probe_random_(recording->options().seed) {
  // It may be killed before it has had a turn: then this is all that is known of it.
  if (!tracee_->GetRegisters(/*vectors=*/true, &sync_registers_)) sync_registers_ = {};
}

ThreadEngine::~ThreadEngine() {
  if (cpu_ == nullptr) return;
  pager_.Leave();
  recording_->GiveBack(std::move(cpu_));
}

bool ThreadEngine::wants_turn() const {
  if (state_ == State::kEnded) return false;  // whatever it was stopped for before
  if (pending_status_.has_value()) return true;
  return state_ == State::kReady && !process_->stopped;
}

std::string ThreadEngine::Name() const {
  return scheduling_.Read().value_or(SchedulingNote{}).name;
}

void ThreadEngine::NoteSlice() {
  const uint64_t now = recording_->NowNs();
  // A look at the scheduler costs as much as some turns take.
  if (now - scheduling_read_ns_ >= kSchedulingIntervalNs || scheduling_read_ns_ == 0) {
    scheduling_read_ns_ = now;
    const std::optional<SchedulingNote> note = scheduling_.Read();
    const uint64_t cpu = note.has_value() ? static_cast<uint64_t>(note->cpu) : host_cpu_;
    if (host_cpu_ != kUnknownCpu && cpu != host_cpu_) {
      log_.Event({.kind = EventKind::kSchedule,
                  .count = cpu_->count(),
                  .arguments = {now, cpu, host_cpu_}});
    }
    host_cpu_ = cpu;
  }
  log_.Event({.kind = EventKind::kSlice,
              .sequence = log_.NextSequence(),
              .count = cpu_->count(),
              .arguments = {now, process_->last_turn_end_ns(), host_cpu_}});
}

// The thread's first turn.
void ThreadEngine::Begin() {
  RegisterFile registers;
  absl::StatusOr<std::unique_ptr<Cpu>> cpu = recording_->TakeCpu(&pager_);
  recording_->Keep(cpu.status());
  if (!cpu.ok()) return;
  cpu_ = *std::move(cpu);
  pager_.set_cpu(cpu_.get());
  tracee_->UseCommitArea(process_->commit_area());
  if (process_->many_threads()) pager_.BeCareful();
  pager_.SetSpace(process_->space());
  if (recording_->scheduler().chaos()) {
    pager_.set_note_writes(ProcessPager::NoteWrites::kShared);
  }
  pager_.set_bulk_bytes(recording_->options().bulk_bytes);
  if (tracee_->GetRegisters(/*vectors=*/true, &registers)) cpu_->SetRegisters(registers);
  cpu_->set_count(0);
  cpu_->LogOrderable(recording_->memory_model(), &ordered_);
  sync_registers_ = cpu_->registers();
  log_.BeginSegment(0, sync_registers_);
  ScheduleCheck();
  if (recording_->options().light_keyframe_interval != 0) {
    next_light_keyframe_ = recording_->options().light_keyframe_interval;
  }
}

void ThreadEngine::BeginTurn() {
  const bool first = cpu_ == nullptr;
  if (first) Begin();
  if (cpu_ == nullptr) return;
  if (recording_->binds_threads()) affinity_.Follow();
  process_->FollowForeignMappings();
  pager_.SetSpace(process_->space());
  pager_.set_count(cpu_->count());
  if (process_->StartsSlice(this)) {
    NoteSlice();
  }
  if (first) {
    // A launched program's first thread begins the recording: nothing is before it.
    const bool ordered = process_->many_threads() || process_->manifest().parent_pid != 0;
    log_.Event({.kind = EventKind::kThreadStart,
                .sequence = ordered ? log_.NextSequence() : 0,
                .count = cpu_->count(),
                .number = maker_,
                .text = name_ = Name()});
    rseq_ = RseqOf(thread());
    if (process_->full_keyframes() == 0) {
      // A child's memory is its parent's at first.
      recording_->Keep(process_->WriteFullKeyframe(this, process_->manifest().parent_pid == 0));
    }
    if (tid_at_birth_ != 0) Resync({.written = {{tid_at_birth_, sizeof(pid_t)}}});
  } else if (process_->SharesMemory()) {
    FollowOthers();
  } else if (!pending_status_.has_value() && pager_.has_shared_pages()) {
    pager_.ResyncShared();
  }
  if (process_->TakeKeyframeWanted()) {
    recording_->Keep(process_->WriteFullKeyframe(this, /*with_memory=*/true));
  }
  process_->NoteTurn(this);
}

void ThreadEngine::Appear() {
  if (cpu_ != nullptr) return;
  BeginTurn();
  process_->NoteTurnEnd(recording_->NowNs());
}

// Timers that count processor time are the kernel's, and so is that time: the thread uses up
// natively what it was emulated for.
void ThreadEngine::PayTime() {
  constexpr uint64_t kSmallest = 1'000'000, kLargest = 10'000'000;
  const std::optional<uint64_t> loop = process_->vdso_loop();
  if (owed_ns_ < kSmallest || !loop.has_value()) return;
  if (rseq_ != 0) LeaveSequence();
  Sync();
  const uint64_t paid = std::min(owed_ns_, tracee_->UseTime(*loop, std::min(owed_ns_, kLargest)));
  owed_ns_ -= paid;
  emulated_ns_ -= paid;
  process_->emulated_ns -= paid;
  Resync({});
}

void ThreadEngine::OnLimit() {
  Reach(cpu_->count());
  if (process_->limits_time) PayTime();
  if (SignalIsDue()) {
    RunOneNatively();
    return;
  }
  if (process_->full_keyframe_due()) {
    Sync();
    recording_->Keep(process_->WriteFullKeyframe(this, /*with_memory=*/true));
  } else if (cpu_->count() >= next_light_keyframe_) {
    LightKeyframe();
  } else if (process_->asynchronous_writes) {
    Sync();
    Resync({});
  } else if (pager_.has_shared_pages()) {
    Sync();
    pager_.ResyncShared();
  } else if (cpu_->count() - sync_count_ >= kMaxSyncDistance) {
    Sync();
  }
}

// Which is what makes the kernel deliver a pending signal, or store what it owes.
void ThreadEngine::RunOneNatively() {
  const Instruction instruction = cpu_->next().value_or(Instruction{});
  if (instruction.policy == Policy::kSyscall) {
    RunSystemCall();
  } else {
    StepNatively(instruction, /*reload_map=*/false);
  }
}

// The hash makes the states up to here part of the segment should nothing follow.
void ThreadEngine::LogStateHash() {
  if (hashed_count_ == cpu_->count()) return;
  hashed_count_ = cpu_->count();
  hashed_registers_ = cpu_->registers();
  Reach(hashed_count_);
  log_.Append(hashed_count_, RegisterHash{Hash(hashed_registers_)});
}

void ThreadEngine::AwaitCommit() {
  if (state_ == State::kReady && begun()) {
    tracee_->Park();
  } else if (state_ == State::kWaiting && call_.has_value() && call_->inside) {
    tracee_->ParkIfCallEnded();
  }
}

// Whether another thread of the process may be storing something, or has and the view does not show
// it yet.
bool ThreadEngine::OthersMayStore() const {
  if (!process_->SharesMemory()) return false;
  if (process_->SharesMemoryWithProcess() || process_->asynchronous_writes ||
      process_->has_written()) {
    return true;
  }
  const auto& threads = process_->threads();
  return std::any_of(threads.begin(), threads.end(), [this](const auto& other) {
    return other.get() != this && other->MayStore();
  });
}

bool ThreadEngine::MayStore() const {
  switch (state_) {
    case State::kReady:
      return !begun();  // the kernel stores its id as it is made
    case State::kWaiting:
      return !call_.has_value() || !call_->inside ||
             !StoresNothing(call_->number, call_->arguments);
    case State::kNative:
      return true;
    case State::kEnded:
      return false;
  }
  return true;
}

void ThreadEngine::Sync() {
  if (process_->commit_area() != nullptr && pager_.has_changes()) {
    for (const auto& other : process_->threads()) {
      if (other.get() != this) other->AwaitCommit();
    }
  }
  if (!pager_.WriteBack(OthersMayStore()) && tracee_->IsStopped()) {
    log_.Keep(absl::InternalError("cannot write to the program's memory"));
  }
  sync_count_ = cpu_->count();
  sync_registers_ = cpu_->registers();
  Reach(sync_count_);
}

// Imports are of state `count` from now on: what was executed before it is logged before them.
void ThreadEngine::Reach(uint64_t count) {
  pager_.set_count(count);
  // What is done again after a fault is not numbered again.
  const auto first = std::lower_bound(ordered_.begin(), ordered_.end(), ordered_until_);
  const absl::Span<const uint64_t> fresh(ordered_.data() + (first - ordered_.begin()),
                                         ordered_.end() - first);
  if (!fresh.empty()) log_.OrderRun(count, fresh);
  ordered_.clear();
  ordered_until_ = count;
}

void ThreadEngine::ToProcess() {
  Sync();
  tracee_->SetRegisters(sync_registers_);  // false if it is gone: resuming it will tell
}

void ThreadEngine::LightKeyframe() {
  Sync();
  NewSegment();
}

TraceWriter::ThreadState ThreadEngine::NewSegment() {
  memory_hashes_.OfSomePages(kPagesSampled, sync_count_);
  log_.EndSegment(sync_count_, sync_registers_);
  if (recording_->options().light_keyframe_interval != 0) {
    next_light_keyframe_ = sync_count_ + LightKeyframeInterval();
  }
  pager_.StartSegment();
  log_.BeginSegment(sync_count_, sync_registers_);
  return {.thread = log_.thread(),
          .count = sync_count_,
          .segment = log_.segments() - 1,
          .registers = ToWords(sync_registers_)};
}

// A segment imports once more all that the thread uses: where that is much, segments are longer.
uint64_t ThreadEngine::LightKeyframeInterval() const {
  constexpr uint64_t kInstructionsPerPage = 80'000;  // 0.05 bytes an instruction
  constexpr uint64_t kLongest = 16;                  // times what was asked for
  const uint64_t shortest = recording_->options().light_keyframe_interval;
  if (!recording_->options().adapt_light_keyframes) return shortest;
  return std::clamp(pager_.segment_pages() * kInstructionsPerPage, shortest, kLongest * shortest);
}

void ThreadEngine::Refresh(absl::Span<const uint64_t> pages) {
  if (cpu_ != nullptr) pager_.ResyncPages(pages);
}

HostFeatures ThreadEngine::features_used() const {
  return cpu_ == nullptr ? HostFeatures() : cpu_->features_used();
}

void ThreadEngine::BeCareful() {
  if (cpu_ != nullptr) pager_.BeCareful();
}

// Logs the transition (a SideEffect or Discontinuity that lacks hash and registers) and makes it.
// Requires: the present state is the sync point, and the process has made the transition or need
// not.
void ThreadEngine::Transition(RegisterFile after, RecordBody body) {
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
  log_.Append(count, std::move(body));
  cpu_->SetRegisters(after);
  cpu_->set_count(count + 1);
  pager_.set_count(count + 1);
  sync_count_ = count + 1;
  sync_registers_ = cpu_->registers();
}

}  // namespace hindsight

#include "recorder/emulate/thread_engine.h"

#include <algorithm>
#include <utility>

#include "base/waiting_calls.h"
#include "recorder/emulate/emulate_engine.h"
#include "recorder/process/rseq.h"
#include "recorder/process/scheduling.h"
#include "recorder/ptrace/thread_facts.h"

namespace hindsight {
namespace {

// Instructions between two sync points of a program that makes no system calls: bounds what a
// fault costs (they are executed again, in about 0.1 s).
constexpr uint64_t kMaxSyncDistance = 16'000'000;

// Pages whose contents are hashed at the end of a segment.
constexpr size_t kPagesSampled = 32;

// It may be killed before it has had a turn: then this is all that is known of it.
RegisterFile RegistersOf(Tracee* tracee) {
  RegisterFile registers;
  return tracee->GetRegisters(/*vectors=*/true, &registers) ? registers : RegisterFile{};
}

}  // namespace

ThreadEngine::ThreadEngine(EmulateEngine* engine, RecordedProcess* process,
                           std::unique_ptr<Tracee> tracee, int32_t maker)
    : engine_(engine),
      process_(process),
      tracee_(std::move(tracee)),
      maker_(maker),
      log_(process->log().writer(), tracee_->thread(), engine->session().sequence()),
      pager_(tracee_.get(), &process->log().modules(), &log_, &process->witnesses()),
      memory_hashes_(tracee_.get(), &pager_, &log_),
      sync_(&pager_, &log_, RegistersOf(tracee_.get())),
      clock_(&engine->scheduler(), engine->session().options().quantum),
      scheduling_(process->pid(), tracee_->thread()),
      notes_(&log_, &scheduling_),
      affinity_(tracee_->thread()),
      writers_(engine, process, this),
      memory_(tracee_.get(), &pager_, &kernel_words_, &writers_, engine->session().options().seed),
      stops_(tracee_.get(), &scheduling_),
      transitions_(&notes_, &sync_),
      disturbed_(tracee_.get()),
      chaos_(&engine->scheduler(), &clock_, &pager_, &sync_),
      checks_(engine->session().options().self_checks_per_million),
      segments_(engine->session().options().light_keyframe_interval,
                engine->session().options().adapt_light_keyframes) {}

ThreadEngine::~ThreadEngine() {
  if (cpu_ == nullptr) return;
  pager_.Leave();
  engine_->cpus().GiveBack(std::move(cpu_));
}

bool ThreadEngine::wants_turn() const {
  if (state_ == State::kEnded) return false;  // a stop may have been reported before
  return stops_.reported() || state_ == State::kReady;
}

// The thread's first turn.
void ThreadEngine::Begin() {
  RegisterFile registers;
  absl::StatusOr<std::unique_ptr<Cpu>> cpu = engine_->cpus().Take(&pager_);
  engine_->session().Keep(cpu.status());
  if (!cpu.ok()) return;
  cpu_ = *std::move(cpu);
  pager_.set_cpu(cpu_.get());
  tracee_->UseCommitArea(process_->image().commit_area());
  if (process_->sharing().many_threads()) pager_.NoteSiblings();
  pager_.SetSpace(process_->image().space());
  chaos_.Start();
  pager_.set_bulk_bytes(engine_->session().options().bulk_bytes);
  if (tracee_->GetRegisters(/*vectors=*/true, &registers)) cpu_->SetRegisters(registers);
  cpu_->set_count(0);
  after_call_ = engine_->session().attached();  // a signal may wait that comes first
  sync_.Start(cpu_.get(), engine_->session().memory_model());
  log_.BeginSegment(0, sync_.registers());
  checks_.Schedule(cpu_->count());
  segments_.Begin(0, /*pages=*/0);
}

void ThreadEngine::BeginSliceIfDue() {
  if (!process_->StartsSlice(this)) return;
  notes_.Slice(cpu_->count(), engine_->session().NowNs(), process_->last_turn_end_ns());
}

bool ThreadEngine::WaitsForChild() const {
  return state_ == State::kWaiting && call_.has_value() && call_->HasVforked() &&
         !stops_.reported();
}

void ThreadEngine::BeginTurn() {
  const bool first = cpu_ == nullptr;
  if (first) Begin();
  if (cpu_ == nullptr) return;
  if (engine_->binds_threads()) affinity_.Follow();
  process_->image().FollowForeignMappings();
  pager_.SetSpace(process_->image().space());
  pager_.set_count(cpu_->count());
  BeginSliceIfDue();
  if (first) {
    // A launched program's first thread begins the recording: nothing is before it.
    const bool orderable =
        process_->sharing().many_threads() || process_->log().manifest().parent_pid != 0;
    notes_.Start(cpu_->count(), maker_, orderable);
    kernel_words_.set_rseq(RseqOf(thread()));
    if (process_->log().full_keyframes() == 0) {
      engine_->session().Keep(
          process_->WriteFullKeyframe(this, process_->log().HasOwnMemoryAtBirth()));
    }
    if (const auto word = kernel_words_.AtStart()) memory_.Resync({.written = {*word}});
  } else if (process_->sharing().shared()) {
    // If the call that it waited in has returned, that is to be logged first.
    memory_.TakeChanges(stops_.reported());
  } else if (!stops_.reported() && pager_.has_shared_pages()) {
    pager_.ResyncShared();
  }
  if (process_->TakeKeyframeWanted()) {
    engine_->session().Keep(process_->WriteFullKeyframe(this, /*with_memory=*/true));
  }
  process_->NoteTurn(this);
}

void ThreadEngine::StartWithoutTurn() {
  if (cpu_ != nullptr) return;
  BeginTurn();
  process_->NoteTurnEnd(engine_->session().NowNs());
}

// The kernel runs the timers that count processor time, and counts that time: the thread spends
// natively the time that it was emulated for.
void ThreadEngine::UseOwedTime() {
  constexpr uint64_t kSmallest = 1'000'000, kLargest = 10'000'000;
  const std::optional<uint64_t> loop = process_->image().vdso_loop();
  const uint64_t owed_ns = time_.owed_ns();
  if (owed_ns < kSmallest || !loop.has_value()) return;
  LeaveSequence();
  Sync();
  const uint64_t paid = std::min(owed_ns, tracee_->UseTime(*loop, std::min(owed_ns, kLargest)));
  time_.Pay(paid);
  process_->time().Subtract(paid);
  memory_.Resync({});
}

void ThreadEngine::OnLimit() {
  sync_.Reach(cpu_->count());
  if (process_->time().limited()) UseOwedTime();
  if (chaos_.SignalIsDue(tracee_->signals().HasDeliverable(), cpu_->count(), [this] { Sync(); })) {
    RunOneNatively();
    return;
  }
  if (process_->snapshot_due()) {
    Sync();
    SnapshotIfDue();
  } else if (process_->full_keyframe_due()) {
    Sync();
    engine_->session().Keep(process_->WriteFullKeyframe(this, /*with_memory=*/true));
  } else if (cpu_->count() >= segments_.next()) {
    LightKeyframe();
  } else if (process_->sharing().asynchronous()) {
    Sync();
    memory_.Resync({});
  } else if (pager_.has_shared_pages()) {
    Sync();
    pager_.ResyncShared();
  } else if (cpu_->count() - sync_.count() >= kMaxSyncDistance) {
    Sync();
  }
}

// The kernel then delivers a pending signal, and stores what it has to for the thread (struct
// rseq).
void ThreadEngine::RunOneNatively() {
  const Instruction instruction = cpu_->next().value_or(Instruction{});
  if (instruction.policy == Policy::kSyscall) {
    RunSystemCall();
  } else {
    StepNatively(instruction, /*reload_map=*/false);
  }
}

void ThreadEngine::ParkForCommit() {
  if (state_ == State::kReady && begun()) {
    tracee_->Park();
  } else if (state_ == State::kWaiting && call_.has_value() && call_->inside()) {
    tracee_->ParkIfCallEnded();
  }
}

// Whether another thread of the process may be storing to memory, or has and the view does not show
// it yet.
bool ThreadEngine::OthersMayStore() const {
  if (!process_->sharing().shared()) return false;
  if (process_->sharing().with_process() || process_->sharing().asynchronous() ||
      process_->sharing().has_written()) {
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
      return !call_.has_value() || !call_->inside() ||
             !StoresNothing(call_->number(), {call_->arguments(), 6});
    case State::kNative:
      return true;
    case State::kEnded:
      return false;
  }
  return true;
}

void ThreadEngine::Sync() {
  if (process_->image().commit_area() != nullptr && pager_.has_changes()) {
    for (const auto& other : process_->threads()) {
      if (other.get() != this) other->ParkForCommit();
    }
  }
  if (!sync_.Advance(OthersMayStore()) && tracee_->IsStopped()) {
    log_.Keep(absl::InternalError("cannot write to the program's memory"));
  }
}

void ThreadEngine::CommitToProcess() {
  Sync();
  tracee_->SetRegisters(sync_.registers());  // false if it is gone: resuming it reports that
}

void ThreadEngine::LightKeyframe() {
  Sync();
  NewSegment();
}

TraceWriter::ThreadState ThreadEngine::NewSegment() {
  memory_hashes_.LogSomePages(kPagesSampled, sync_.count());
  log_.EndSegment(sync_.count(), sync_.registers());
  segments_.Begin(sync_.count(), pager_.segment_pages());
  pager_.StartSegment();
  log_.BeginSegment(sync_.count(), sync_.registers());
  return {.thread = log_.thread(),
          .count = sync_.count(),
          .segment = log_.segments() - 1,
          .registers = ToWords(sync_.registers())};
}

void ThreadEngine::ReloadMap(std::optional<MemoryRange> range) {
  engine_->session().Keep(process_->image().ReloadMap(tracee_.get(), &log_, cpu_->count(), range));
  pager_.SetSpace(process_->image().space());
}

void ThreadEngine::ResyncPages(absl::Span<const uint64_t> pages) {
  if (cpu_ != nullptr) pager_.ResyncPages(pages);
}

HostFeatures ThreadEngine::features_used() const {
  return cpu_ == nullptr ? HostFeatures() : cpu_->features_used();
}

void ThreadEngine::OnManyThreads() {
  if (cpu_ != nullptr) pager_.NoteSiblings();
}

}  // namespace hindsight

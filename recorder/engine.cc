#include "recorder/engine.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "recorder/full_keyframe.h"
#include "recorder/process_facts.h"
#include "recorder/vdso.h"

namespace hindsight {
namespace {

// What is older than this reaches the disk: what a killed recorder may lose.
constexpr std::chrono::milliseconds kFlushInterval(900);
constexpr std::chrono::milliseconds kProgressInterval(250);

// Instructions between two sync points of a program that makes no system calls: bounds what a
// fault costs (they are done again, in about 0.1 s).
constexpr uint64_t kMaxSyncDistance = 16'000'000;

}  // namespace

Engine::Engine(const RecordOptions& options, std::string program, Tracee* tracee,
               TraceWriter* writer)
    : options_(options),
      program_(std::move(program)),
      tracee_(tracee),
      writer_(writer),
      log_(writer, tracee->pid()),
      modules_(writer, tracee->ProcPath("root"), options.max_module_bytes),
      pager_(tracee, &modules_, &log_) {}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const RecordOptions& options,
                                                       std::string program, Tracee* tracee,
                                                       TraceWriter* writer) {
  std::unique_ptr<Engine> engine(new Engine(options, std::move(program), tracee, writer));
  ASSIGN_OR_RETURN(engine->cpu_, Cpu::Create(&engine->pager_));
  engine->pager_.set_cpu(engine->cpu_.get());
  return engine;
}

absl::StatusOr<RecordResult> Engine::Run() {
  RETURN_IF_ERROR(Start());
  while (!ended_ && log_.status().ok()) Turn();
  RETURN_IF_ERROR(log_.status());
  result_.instructions = cpu_->count();
  result_.events = log_.sequence();
  result_.light_keyframes = log_.segments();
  result_.full_keyframes = full_keyframes_;
  result_.seconds = Progress().seconds;
  return result_;
}

absl::Status Engine::Start() {
  start_time_ = last_flush_ = last_progress_ = Clock::now();
  RegisterFile registers;
  if (!tracee_->GetRegisters(/*vectors=*/true, &registers)) {
    return absl::AbortedError("the program was killed before it started");
  }
  cpu_->SetRegisters(registers);
  cpu_->set_count(0);
  OpenImage();
  log_.Event({.kind = EventKind::kThreadStart});
  log_.BeginSegment(0, cpu_->registers());
  sync_registers_ = cpu_->registers();
  if (options_.light_keyframe_interval != 0)
    next_light_keyframe_ = options_.light_keyframe_interval;
  WriteFullKeyframe();
  log_.Keep(writer_->Flush());
  return log_.status();
}

void Engine::OpenImage() {
  auxv_ = AuxiliaryVector(tracee_->pid());
  ReloadMap();
  log_.Keep(PatchVdso(pager_.map(), tracee_));
}

void Engine::ReloadMap() {
  MemoryMap map = MemoryMap::OfProcess(tracee_->ProcPath("maps"));
  if (map.regions().empty()) return;  // gone: the next stop will tell
  log_.Keep(modules_.Register(&map));
  if (map == pager_.map()) return;
  log_.Event({.kind = EventKind::kMapChange, .count = cpu_->count(), .maps = map.regions()});
  pager_.SetMap(std::move(map));
}

void Engine::Turn() {
  // A signal that the call raised, or let through, comes before the next instruction.
  if (std::exchange(after_call_, false) && tracee_->HasDeliverableSignal()) {
    TakeSignal();
    KeepHouse();
    return;
  }
  const uint64_t now = cpu_->count();
  RunOptions run;
  run.limit = std::min({now + options_.quantum, next_light_keyframe_, next_full_keyframe_});
  run.exact_limit = false;
  const RunResult result = cpu_->Run(run);
  switch (result.stop) {
    case Stop::kSpecial:
      OnSpecial();
      break;
    case Stop::kFault:
      OnFault(result.block_count);
      break;
    default:
      OnLimit();
      break;
  }
  KeepHouse();
}

void Engine::OnLimit() {
  pager_.set_count(cpu_->count());
  if (tracee_->HasDeliverableSignal()) {
    TakeSignal();
    return;
  }
  if (cpu_->count() >= std::min(next_light_keyframe_, next_full_keyframe_)) {
    LightKeyframe();
  } else if (asynchronous_writes_) {
    Sync();
    pager_.Resync();
  } else if (pager_.has_shared_pages()) {
    Sync();
    pager_.ResyncShared();
  } else if (cpu_->count() - sync_count_ >= kMaxSyncDistance) {
    Sync();
  }
}

// Running on natively is what makes the kernel deliver a pending signal.
void Engine::TakeSignal() {
  const Instruction instruction = cpu_->next().value_or(Instruction{});
  if (instruction.policy == Policy::kSyscall) {
    RunSystemCall();
  } else {
    StepNatively(instruction, /*reload_map=*/false);
  }
}

void Engine::KeepHouse() {
  const Clock::time_point now = Clock::now();
  if (now - last_flush_ >= kFlushInterval) {
    last_flush_ = now;
    // The hash makes the states up to here part of the segment should nothing follow.
    if (!ended_) LogStateHash();
    log_.Keep(writer_->Flush());
  }
  if (options_.progress && now - last_progress_ >= kProgressInterval) {
    last_progress_ = now;
    options_.progress(Progress());
  }
}

void Engine::LogStateHash() {
  if (hashed_count_ == cpu_->count()) return;
  hashed_count_ = cpu_->count();
  hashed_registers_ = cpu_->registers();
  log_.Append(hashed_count_, RegisterHash{Hash(hashed_registers_)});
  pager_.set_count(hashed_count_);
}

RecordProgress Engine::Progress() const {
  return {.instructions = cpu_->count(),
          .events = log_.sequence(),
          .trace_bytes = writer_->bytes_written(),
          .seconds = std::chrono::duration<double>(Clock::now() - start_time_).count()};
}

void Engine::Sync() {
  if (!pager_.WriteBack() && tracee_->IsStopped()) {
    log_.Keep(absl::InternalError("cannot write to the program's memory"));
  }
  sync_count_ = cpu_->count();
  sync_registers_ = cpu_->registers();
  pager_.set_count(sync_count_);
}

void Engine::ToProcess() {
  Sync();
  tracee_->SetRegisters(sync_registers_);  // false if it is gone: resuming it will tell
}

void Engine::LightKeyframe() {
  Sync();
  log_.EndSegment(sync_count_, sync_registers_);
  pager_.StartSegment();
  log_.BeginSegment(sync_count_, sync_registers_);
  if (options_.light_keyframe_interval != 0) {
    next_light_keyframe_ = sync_count_ + options_.light_keyframe_interval;
  }
  if (sync_count_ >= next_full_keyframe_) WriteFullKeyframe();
}

// Requires: a segment has just begun.
void Engine::WriteFullKeyframe() {
  const TraceWriter::ThreadState state = {.thread = log_.thread(),
                                          .count = cpu_->count(),
                                          .segment = log_.segments() - 1,
                                          .registers = ToWords(cpu_->registers())};
  log_.Keep(writer_->BeginFullKeyframe(++full_keyframes_, log_.sequence(), {state},
                                       pager_.map().regions(), auxv_));
  log_.Keep(AddProcessMemory(*tracee_, pager_.map(), modules_, writer_));
  log_.Keep(writer_->FinishFullKeyframe());
  log_.Event({.kind = EventKind::kFullKeyframe,
              .count = cpu_->count(),
              .number = static_cast<int64_t>(full_keyframes_)});
  if (options_.full_keyframe_interval != 0) {
    next_full_keyframe_ = cpu_->count() + options_.full_keyframe_interval;
  }
}

// Logs the transition (a SideEffect or Discontinuity that lacks hash and registers) and makes it.
// Requires: the present state is the sync point, and the process has made the transition or need
// not.
void Engine::Transition(RegisterFile after, RecordBody body) {
  const RegisterFile before = cpu_->registers();
  const uint64_t count = cpu_->count();
  uint64_t sequence = 0;
  std::visit(
      [&](auto& record) {
        using T = std::decay_t<decltype(record)>;
        if constexpr (std::is_same_v<T, SideEffect> || std::is_same_v<T, Discontinuity>) {
          record.register_hash = Hash(before);
          record.registers = Difference(before, after);
          sequence = record.sequence;
        }
      },
      body);
  log_.Append(count, std::move(body));
  cpu_->SetRegisters(after);
  cpu_->set_count(count + 1);
  pager_.set_count(count + 1);
  sync_count_ = count + 1;
  sync_registers_ = cpu_->registers();
  if (sequence != 0) sequence_count_ = count + 1;
}

std::string Engine::Position() const {
  return absl::StrFormat("%X:%X", log_.sequence(), cpu_->count() - sequence_count_);
}

}  // namespace hindsight

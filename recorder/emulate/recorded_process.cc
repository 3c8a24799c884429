#include "recorder/emulate/recorded_process.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "recorder/emulate/recording.h"
#include "recorder/emulate/thread_engine.h"
#include "recorder/log/full_keyframe.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/process_memory.h"
#include "recorder/process/vdso.h"
#include "recorder/ptrace/attach.h"
#include "recorder/ptrace/remote_call.h"
#include "recorder/ptrace/thread_stop.h"

namespace hindsight {
namespace {

// The whole map is logged again when the changes logged have as many regions as so many maps.
constexpr size_t kChangesPerMap = 4;

}  // namespace

RecordedProcess::RecordedProcess(Recording* recording, std::unique_ptr<TraceWriter> writer,
                                 Manifest manifest, std::unique_ptr<Tracee> first)
    : recording_(recording),
      writer_(std::move(writer)),
      manifest_(std::move(manifest)),
      program_(manifest_.program),
      modules_(writer_.get(), first->ProcPath("root"), recording->options().max_module_bytes,
               recording->module_files()),
      space_(MakeSpace()) {
  recording->Keep(OpenImage(first.get()));
  AddThread(std::move(first), /*maker=*/0);
}

RecordedProcess::~RecordedProcess() = default;

ThreadEngine* RecordedProcess::Find(pid_t thread) const {
  for (const auto& engine : threads_) {
    if (engine->thread() == thread) return engine.get();
  }
  return nullptr;
}

ThreadEngine* RecordedProcess::AddThread(std::unique_ptr<Tracee> tracee, int32_t maker) {
  if (!threads_.empty() && !many_threads_) {
    many_threads_ = true;
    witnesses_.Enable();
    for (const auto& engine : threads_) engine->OnManyThreads();
  }
  ++threads_made;
  threads_.push_back(std::make_unique<ThreadEngine>(recording_, this, std::move(tracee), maker));
  return threads_.back().get();
}

void RecordedProcess::RemoveEnded() {
  for (auto it = threads_.begin(); it != threads_.end();) {
    if ((*it)->state() != ThreadEngine::State::kEnded) {
      ++it;
      continue;
    }
    Count(**it);
    if (last_thread_ == it->get()) last_thread_ = nullptr;
    writer_->CloseThread((*it)->thread());
    if (ended_) witnesses_.Clear();
    it = threads_.erase(it);
  }
}

void RecordedProcess::Count(const ThreadEngine& engine) {
  instructions += engine.count();
  segments += engine.log().segments();
  manifest_.ordered_kernel_events += engine.log().kernel_events();
  manifest_.ordered_instructions += engine.log().ordered_instructions();
  features_.Add(engine.features_used());
}

absl::Status RecordedProcess::UnpatchVdso(ThreadEngine* by) {
  std::vector<uint64_t> pages;
  for (const VdsoPatch& patch : vdso_patches_) pages.push_back(patch.address & ~(kPageBytes - 1));
  ProcMemFile memory(by->thread());
  RETURN_IF_ERROR(RestoreVdso(vdso_patches_, &memory));
  for (const auto& engine : threads_) engine->Refresh(pages);
  vdso_patches_.clear();
  return absl::OkStatus();
}

absl::Status RecordedProcess::OpenImage(Tracee* tracee) {
  auxv_ = AuxiliaryVector(tracee->thread());
  RETURN_IF_ERROR(ReloadMap(tracee, nullptr, 0));
  ProcMemFile memory(tracee->thread());
  ASSIGN_OR_RETURN(std::vector<VdsoPatch> patches, PatchVdso(space_->map(), &memory));
  if (!patches.empty()) vdso_patches_ = std::move(patches);
  if (recording_->options().attach_pid == 0) return absl::OkStatus();
  InstallCommitArea(tracee->thread());
  return ReloadMap(tracee, nullptr, 0);
}

// A process that was launched dies with its recorder; one that was there before shall live.
void RecordedProcess::InstallCommitArea(pid_t thread) {
  // After vfork the memory is the parent's.
  const pid_t parent = manifest_.parent_pid;
  if (parent != 0 && hindsight::SharesMemory(parent, thread, /*otherwise=*/true)) return;
  absl::StatusOr<std::unique_ptr<CommitArea>> area =
      absl::UnavailableError("there is no room for that in its vdso");
  if (const auto call = FindVdsoCall(vdso_patches_)) area = CommitArea::Install(thread, *call);
  if (area.ok()) {
    commit_area_ = *std::move(area);
    return;
  }
  std::fprintf(stderr,
               "hindsight: %s (process %d) may crash if this recorder is killed with SIGKILL: %s\n",
               program_.c_str(), pid(), std::string(area.status().message()).c_str());
}

// All of it without a range. Without regions: the process is gone, or nothing is mapped there.
MapPart RecordedProcess::ReadMap(Tracee* tracee, std::optional<MemoryRange> range) const {
  const std::string path = tracee->ProcPath("maps");
  // What shares its memory may have changed more.
  const bool alone = !shares_memory_ && !lends_memory_ && !borrows_memory_;
  if (range.has_value() && alone && space_->region_count() > 0) {
    const auto [start, end] = space_->Around(range->address, range->address + range->size);
    if (auto regions = ReadRegions(path, start, end)) return {start, end, *std::move(regions)};
  }
  return {0, ~uint64_t{0}, MemoryMap::OfProcess(path).regions()};
}

absl::Status RecordedProcess::ReloadMap(Tracee* tracee, ThreadLog* log, uint64_t count,
                                        std::optional<MemoryRange> range) {
  MapPart part = ReadMap(tracee, range);
  const bool whole = part.start == 0 && part.end == ~uint64_t{0};
  if (whole && part.regions.empty()) return absl::OkStatus();  // gone: the next stop will tell
  RETURN_IF_ERROR(modules_.Register(absl::MakeSpan(part.regions)));
  RETURN_IF_ERROR(NoteChangedFiles());
  recording_->foreign_mappings().Update(part.regions, pid(), recording_->NowNs());
  if (space_->Trim(&part)) {
    space_->Replace(part);
    LogMap(part, log, count);
    const std::vector<uint64_t> stops = recording_->StopPlaces(tracee->thread(), *space_);
    stop_places_ = absl::flat_hash_set<uint64_t>(stops.begin(), stops.end());
  }
  FollowForeignMappings();
  return absl::OkStatus();
}

// Readers have a whole map to begin with, and never many changes to make to one. Who does not log
// a change writes a full keyframe; but that may be lost.
void RecordedProcess::LogMap(const MapPart& part, ThreadLog* log, uint64_t count) {
  if (log == nullptr) {
    logged_regions_ = kNoWholeMap;
    return;
  }
  if (logged_regions_ >= kChangesPerMap * space_->region_count()) {
    LogWholeMap(log, count);
    return;
  }
  logged_regions_ += part.regions.size() + 1;
  log->Event({.kind = EventKind::kMapPart,
              .count = count,
              .arguments = {part.start, part.end},
              .maps = part.regions});
}

void RecordedProcess::LogWholeMap(ThreadLog* log, uint64_t count) {
  logged_regions_ = 0;
  log->Event({.kind = EventKind::kMapChange, .count = count, .maps = space_->map().regions()});
}

std::shared_ptr<AddressSpace> RecordedProcess::MakeSpace() const {
  const ForeignMappings& foreign = recording_->foreign_mappings();
  return std::make_shared<AddressSpace>(
      [&foreign](const MapRegion& region) { return foreign.MayWrite(region); });
}

void RecordedProcess::FollowForeignMappings() {
  if (!space_->has_shared()) return;
  ForeignMappings& foreign = recording_->foreign_mappings();
  if (foreign.IsDue(recording_->NowNs())) {
    foreign.Update(space_->map().regions(), pid(), recording_->NowNs());
  }
  if (foreign.version() == foreign_version_) return;
  foreign_version_ = foreign.version();
  space_->AskElsewhere();
}

bool RecordedProcess::TrustsOutputs() const {
  const RecordOptions& options = recording_->options();
  const bool from_birth =
      options.attach_pid == 0 && options.start_at.empty() && options.stop_at.empty();
  // Whoever has blocks checked wants to know what goes wrong, not to be quick.
  return trusts_outputs_ && from_birth && options.self_checks_per_million == 0 &&
         !recording_->writes_memory_files() && !SharesMemory() && !WrittenElsewhere() &&
         !borrows_memory_;
}

void RecordedProcess::OnExec() {
  const pid_t any = threads_.empty() ? pid() : threads_.front()->thread();
  program_ = ExecutablePath(any);
  asynchronous_writes = false;
  shares_memory_ = lends_memory_ = false;
  witnesses_.Clear();
  space_ = MakeSpace();
  logged_regions_ = kNoWholeMap;
  vdso_patches_.clear();
  for (const auto& engine : threads_) engine->tracee().UseCommitArea(nullptr);
  commit_area_.reset();
}

absl::Status RecordedProcess::WriteFullKeyframe(ThreadEngine* by, bool with_memory) {
  KeyframeHead head = {
      .number = ++full_keyframes_, .sequence = recording_->sequence()->last, .auxv = auxv_};
  for (const auto& engine : threads_) {
    const ThreadEngine::State state = engine->state();
    if (engine->begun() &&
        (state == ThreadEngine::State::kReady || state == ThreadEngine::State::kWaiting)) {
      head.threads.push_back(engine->NewSegment());
    }
  }
  if (with_memory) {
    RETURN_IF_ERROR(
        hindsight::WriteFullKeyframe(head, by->thread(), space_->map(), modules_, writer_.get()));
  } else {
    RETURN_IF_ERROR(WriteKeyframeAtBirth(head, space_->map(), writer_.get()));
  }
  if (recording_->options().full_keyframe_interval != 0) {
    next_full_keyframe_ = Instructions() + recording_->options().full_keyframe_interval;
  }
  return writer_->AppendEvent({.kind = EventKind::kFullKeyframe,
                               .thread = by->thread(),
                               .count = by->count(),
                               .number = static_cast<int64_t>(full_keyframes_)});
}

uint64_t RecordedProcess::Instructions() const {
  uint64_t sum = instructions;
  for (const auto& engine : threads_) sum += engine->count();
  return sum;
}

bool RecordedProcess::full_keyframe_due() const { return Instructions() >= next_full_keyframe_; }

bool RecordedProcess::StartsSlice(const ThreadEngine* thread) const {
  return many_threads_ && last_thread_ != thread;
}

void RecordedProcess::NoteExit(int wait_status, ThreadEngine* thread) {
  recording_->Remove(thread->thread());
  if (thread->thread() != pid()) return;
  // The first thread's end is told when it is the last.
  ended_ = true;
  exit_status_ = wait_status;
  recording_->Keep(writer_->AppendEvent({.kind = EventKind::kProcessExit,
                                         .thread = pid(),
                                         .count = thread->count(),
                                         .number = wait_status}));
}

void RecordedProcess::NoteNativeExit(int wait_status) {
  for (const auto& engine : threads_) engine->OnExit(wait_status);
  if (ended_) return;
  ended_ = true;
  exit_status_ = wait_status;
}

void RecordedProcess::ReachStop() {
  const std::string reason = absl::StrCat("has reached ", recording_->options().stop_at);
  if (recording_->options().start_at.empty()) {
    LetGo(reason);
    return;
  }
  std::vector<NativeThread> threads;
  for (const auto& engine : threads_) {
    recording_->Remove(engine->thread());
    if (engine->Suspend(reason)) threads.push_back({.thread = engine->thread()});
  }
  recording_->RunSuspended(this, threads);
}

absl::Status RecordedProcess::ResumeRecording(absl::Span<const NativeThread> threads) {
  const std::unique_ptr<Tracee> first = Tracee::Adopt(pid(), threads.front().thread);
  if (const std::string program = ExecutablePath(pid()); program != program_) {
    OnExec();
    RETURN_IF_ERROR(OpenImage(first.get()));
  } else {
    RETURN_IF_ERROR(ReloadMap(first.get(), nullptr, 0));
  }
  for (const NativeThread& thread : threads) {
    ThreadEngine* engine = Find(thread.thread);
    if (engine == nullptr) {
      AddThread(Tracee::Adopt(pid(), thread.thread), 0);
    } else {
      engine->Resume();
    }
  }
  for (const auto& engine : threads_) {
    if (engine->state() == ThreadEngine::State::kNative) engine->OnExit(0);
  }
  last_thread_ = nullptr;
  keyframe_wanted_ = true;
  return absl::OkStatus();
}

void RecordedProcess::LetGo(const std::string& reason) {
  if (ended_) return;
  if (!reason.empty() && !recording_->end_wanted()) {
    std::fprintf(stderr, "hindsight: %s (process %d) %s: its recording ends here, it runs on\n",
                 Printable(program_).c_str(), pid(), Printable(reason).c_str());
  }
  recording_->foreign_mappings().Forget();
  ended_ = true;
  end_reason_ = reason.empty() ? "the trace could not be written" : reason;
  std::vector<ThreadToDetach> detach;
  for (const auto& engine : threads_) {
    engine->LetGo(reason, &detach);
    recording_->Remove(engine->thread());
  }
  for (const ThreadToDetach& thread : detach) {
    if (thread.running || thread.signal != 0) continue;
    if (commit_area_ != nullptr) commit_area_->Remove(thread.thread);
    if (!attached_) RandomizeAddressesAgain(thread.thread).IgnoreError();
    break;
  }
  // What another process has in memory as well stays as it is.
  const absl::Status status =
      DetachFromProcess(pid(), detach, shares_memory_ ? std::vector<VdsoPatch>() : vdso_patches_);
  if (!status.ok()) recording_->Keep(status);
}

// What the trace holds of them is not what mappings show any more.
absl::Status RecordedProcess::NoteChangedFiles() {
  for (const int32_t module : modules_.TakeChanged()) {
    RETURN_IF_ERROR(
        writer_->AppendEvent({.kind = EventKind::kFileChanged, .thread = pid(), .number = module}));
  }
  return absl::OkStatus();
}

absl::Status RecordedProcess::Finish() {
  RETURN_IF_ERROR(NoteChangedFiles());
  for (const auto& engine : threads_) Count(*engine);
  manifest_.required_features = features_.Names();
  manifest_.state = TraceState::kComplete;
  manifest_.exit_status = end_reason_.empty() ? exit_status_ : -1;
  manifest_.end_reason = end_reason_;
  manifest_.end_sequence = recording_->sequence()->last;
  manifest_.end_time_ns = recording_->NowNs();
  return writer_->Finish(manifest_);
}

}  // namespace hindsight

#include "recorder/translate/translated_recording.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/process_memory.h"
#include "recorder/snapshot/points/recorded_points.h"
#include "recorder/translate/base/layout.h"

namespace hindsight {
namespace {

constexpr uint64_t kRingCapacity = kRingBytes - HS_RING_HEADER_BYTES;

// The agent keeps the program within the windows, and itself and the views out of them. The initial
// stack has been moved; what it was is nothing to the program any more.
std::optional<MapRegion> Show(const MapRegion& region) {
  const bool kernels = region.start >= uint64_t{1} << 63;
  if (!kernels && !InWindows(region.start, region.end)) return std::nullopt;
  MapRegion shown = region;
  if (region.end == kStackEnd) shown.name = "[stack]";
  return shown;
}

const char* TextOf(HsEndReason reason) {
  switch (reason) {
    case HS_END_EXIT:
      return "";
    case HS_END_THREAD:
      return "has more threads at once than engine translate can record (300)";
    case HS_END_EXEC:
      return "executes a program that engine translate cannot record";
    case HS_END_INSTRUCTION:
      return "executes an instruction that engine translate does not record yet";
    case HS_END_CODE:
      return "executes memory that it can write to, which engine translate does not record yet";
    case HS_END_CALL:
      return "makes a system call that engine translate does not record yet";
    case HS_END_MEMORY:
      return "uses more memory than engine translate can record";
    case HS_END_TRAP_FLAG:
      return "has itself trapped after each instruction (trap flag), which is not recorded";
    case HS_END_TASK:
      return "makes a process that shares its memory and its signal handlers, which engine "
             "translate does not record";
    case HS_END_TRACED:
      return "is going to be traced by another process (ptrace)";
    case HS_END_ADDRESS:
      return "maps memory where engine translate cannot record it (engine emulate can)";
  }
  return "does what engine translate does not record yet";
}

// By number.
std::vector<HsRing*> RingsOf(const MemoryFile& file) {
  std::vector<HsRing*> rings(kLastThread + 1);
  for (uint64_t i = kFirstThread; i <= kLastThread; ++i) rings[i] = file.ring(i);
  return rings;
}

// By SIGKILL, or otherwise without a word: all other ends are told of.
constexpr int kKilled = SIGKILL;

}  // namespace

RecordedMemory MakeRecordedMemory(std::shared_ptr<MemoryFile> file,
                                  std::shared_ptr<const ExecutedPages> code) {
  auto rings = std::make_shared<RingSet>(RingsOf(*file), kRingCapacity, file);
  return {std::move(file), std::move(rings), std::move(code)};
}

TranslatedRecording::TranslatedRecording(RecordingSession* session, ProcessLog* log,
                                         StreamMerger* merger, const GuestPlaces* places,
                                         TranslatedProcess::OnMade on_made)
    : session_(session),
      log_(log),
      pidfd_(static_cast<int>(syscall(SYS_pidfd_open, log->pid(), 0))),
      namespace_(log->pid()),
      process_(log, &Show, std::move(on_made),
               [places](uint64_t host) {
                 const std::optional<GuestPlace> place = places->At(host);
                 return place.has_value() ? std::optional(place->adjust) : std::nullopt;
               }),
      clock_(ReadTsc(), session->NowNs()),
      threads_(&process_, log, session->sequence(), &clock_, merger,
               /*has_maker=*/log->manifest().parent_pid != 0),
      snapshots_seen_(session->SnapshotsSeen()) {
  process_.SetSnapshots(
      [this](const StreamedProcess::Stop& stop, pid_t thread) { return ReasonOf(stop, thread); });
}

void TranslatedRecording::AskForSnapshots() {
  if (!attached() || closed_ || memory_.borrowed) return;
  const std::optional<SnapshotReason> due = session_->SnapshotDue(&snapshots_seen_);
  if (!due.has_value()) return;
  __atomic_store_n(&memory_.file->control()->snapshot_wanted, due->trigger, __ATOMIC_RELEASE);
}

// Requires: the process stands still.
std::optional<SnapshotReason> TranslatedRecording::ReasonOf(const StreamedProcess::Stop& stop,
                                                            pid_t thread) {
  SnapshotTriggers& triggers = session_->triggers();
  if (triggers.IsEnough()) {
    __atomic_store_n(&memory_.file->control()->snapshots_over, 1, __ATOMIC_RELEASE);
    return std::nullopt;
  }
  SnapshotReason reason = {.trigger = static_cast<uint32_t>(stop.trigger)};
  if (stop.trigger == HS_STAND_SIGNAL) {
    reason = SnapshotTriggers::OfSignal(static_cast<int>(stop.detail));
  } else if (stop.trigger == HS_STAND_POINT) {
    const auto read = [thread](uint64_t address, absl::Span<uint8_t> out) {
      return ProcessVmMemory(thread).Read(address, out);
    };
    const std::optional<Point> point = RecordedPointAt(stop.detail, read);
    if (!point.has_value()) return std::nullopt;
    reason = SnapshotTriggers::OfPoint(*point);
  }
  if (reason.trigger != kTimerTrigger && reason.trigger != kOutsideTrigger) reason.thread = thread;
  reason.time_ns = session_->NowNs();
  triggers.NoteTaken();
  return reason;
}

// Of the program that it executes.
void TranslatedRecording::CountMissedSnapshots() {
  if (!attached() || memory_.borrowed) return;
  uint32_t* const missed = &memory_.file->control()->snapshots_missed;
  session_->NoteMissedSnapshots(__atomic_exchange_n(missed, 0, __ATOMIC_ACQ_REL));
}

absl::Status TranslatedRecording::Attach(RecordedMemory memory, uint64_t ring) {
  memory_ = std::move(memory);
  process_.SetProgram(log_->manifest().program, memory_.code);
  process_.SetMapReads(memory_.file->map_reads());
  return threads_.OpenFirst(memory_.rings, ring);
}

void TranslatedRecording::AttachNothing() {
  process_.SetProgram(log_->manifest().program, nullptr);
}

absl::Status TranslatedRecording::Replace(RecordedMemory memory, uint64_t ring) {
  CountMissedSnapshots();
  // What its threads have told is of the program that they executed, and of its code.
  RETURN_IF_ERROR(threads_.DrainLast());
  memory_ = std::move(memory);
  process_.SetProgram(ExecutablePath(pid()), memory_.code);
  process_.SetMapReads(memory_.file->map_reads());
  return threads_.OpenProgram(memory_.rings, ring);
}

void TranslatedRecording::Settle() {
  clock_.Update(ReadTsc(), session_->NowNs());
  if (!closed_) threads_.Settle();
  // Of borrowed rings those that are nobody's may be of a process that has just been made. Looking
  // at all rings makes memory of each.
  if (closed_ && !memory_.borrowed && !IsGone()) threads_.SkipOthers();
  if (!closed_ && attached() && log_->writer()->WantsFullKeyframe()) AskForKeyframe();
}

// A process may be in a state in which not all of its threads can be stopped: it is asked again.
void TranslatedRecording::AskForKeyframe() {
  constexpr uint64_t kLeastNs = 10'000'000, kMostNs = 2'000'000'000;
  const uint64_t now = session_->NowNs(), keyframes = log_->full_keyframes();
  if (keyframes != asked_at_) patience_ns_ = 0;
  if (now - asked_ns_ < patience_ns_) return;
  patience_ns_ = std::clamp(2 * patience_ns_, kLeastNs, kMostNs);
  asked_ns_ = now;
  asked_at_ = keyframes;
  __atomic_add_fetch(&memory_.file->control()->keyframe_wanted, 1, __ATOMIC_RELEASE);
}

bool TranslatedRecording::IsGone() const {
  pollfd entry = {.fd = pidfd_.get(), .events = POLLIN};
  return !pidfd_.valid() || poll(&entry, 1, 0) > 0;
}

bool TranslatedRecording::HasChildrenToCome() const {
  return attached() && __atomic_load_n(&memory_.file->control()->unborn, __ATOMIC_ACQUIRE) != 0;
}

int TranslatedRecording::StatusAtEnd() const { return process_.wait_status().value_or(kKilled); }

absl::Status TranslatedRecording::Finish(std::optional<int> wait_status) {
  if (closed_) return absl::OkStatus();
  const absl::Status drained = threads_.DrainLast();
  const std::string reason = ReasonLeft();
  if (!reason.empty()) {
    Abandon(reason);
    return drained;
  }
  CountMissedSnapshots();
  closed_ = true;
  threads_.Finish();
  RETURN_IF_ERROR(drained);
  return log_->LogExit(threads_.first_count(), wait_status.value_or(StatusAtEnd()));
}

std::string TranslatedRecording::ReasonLeft() const {
  const std::string text = TextOf(process_.left());
  const std::string& before = process_.left_before();
  return before.empty() ? text : absl::StrCat(text, " (", before, ")");
}

void TranslatedRecording::Abandon(const std::string& reason) {
  if (std::exchange(closed_, true)) return;
  CountMissedSnapshots();
  threads_.Leave(reason);
  log_->NoteEndReason(reason);
}

}  // namespace hindsight

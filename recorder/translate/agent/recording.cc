#include "recorder/translate/agent/recording.h"

#include <linux/mman.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "recorder/syscalls/map_calls.h"
#include "recorder/translate/agent/boot.h"
#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/client.h"
#include "recorder/translate/agent/direct_memory.h"
#include "recorder/translate/agent/entry.h"
#include "recorder/translate/agent/float_state.h"
#include "recorder/translate/agent/orders.h"
#include "recorder/translate/base/system.h"
#include "recorder/translate/view/dropped_pages.h"
#include "recorder/translate/view/entry_writer.h"
#include "recorder/translate/view/kept_views.h"
#include "recorder/translate/view/known_lines.h"
#include "recorder/translate/view/segment_pace.h"
#include "recorder/translate/view/thread_view.h"

namespace hindsight::agent {
namespace {

static_assert(offsetof(HsRing, head) == HS_LOCKED_HEAD &&
              offsetof(HsRing, writing) == HS_LOCKED_WRITING);
static_assert(sizeof(HsLockedEntry) == sizeof(HsEntry) && HS_LOCKED_KIND == HS_ENTRY_LOCKED);
static_assert(offsetof(HsLockedEntry, kind) == offsetof(HsEntry, kind) &&
              offsetof(HsLockedEntry, count) == offsetof(HsEntry, count) &&
              offsetof(HsLockedEntry, time) == offsetof(HsEntry, time));

struct Recording {
  uint32_t on;
  uint64_t locked_time;  // of TakeLocked; 0: not called
  uint64_t announced;    // 1: by ExpectLocked
  uint64_t dropped;      // the first of dropped_pages.h that the view does not know of
  SegmentPace pace;
  uint64_t direct_pages;  // that the segment began with
  EntryWriter writer;
  ThreadView view;
};

Recording recordings[kLastThread + 1];
uint64_t last_recording;  // of those that were ever used

// Of the process, at the ends of segments: since its recording began, and when the next full
// keyframe is due.
uint64_t executed;
uint64_t next_full_keyframe;
uint32_t keyframe_seen;  // of Control()->keyframe_wanted

ViewMemory::Shared view_memory;
KeptViews kept_views;

Recording& Of(const Thread& thread) { return recordings[thread.number]; }

constexpr ViewWindow kViewWindows[] = {{kLowWindow.start, kLowWindow.end},
                                       {kLibraryWindow.start, kLibraryWindow.end},
                                       {kPieWindow.start, kPieWindow.end}};
constexpr int kViewWindowCount = 3;

int64_t Reserve(uint64_t address, uint64_t bytes, int protection) {
  const int64_t result =
      Call(SYS_mmap, address, bytes, static_cast<uint64_t>(protection),
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, ~uint64_t{0});
  if (IsError(result)) return result;
  // Children are not recorded, and cores are the program's.
  Call(SYS_madvise, address, bytes, MADV_DONTFORK);
  Call(SYS_madvise, address, bytes, MADV_DONTDUMP);
  return 0;
}

// Of this image: a function of others is reached through a table, which there is none of.
bool ReadGuest(void* to, const void* from, uint64_t bytes) { return CopyGuest(to, from, bytes); }
uint64_t ViewDistance(uint64_t number) { return DistanceOf(number); }
bool IsNobodyReading() { return IsAbandoned(); }
bool IsShared(uint64_t address) { return IsInSharedMap(address); }

hindsight::GuestCall ToEntry(const Thread& thread, const GuestCall& call, int64_t result) {
  hindsight::GuestCall entry = {};
  entry.number = call.words[0];
  for (int i = 0; i < 6; ++i) entry.arguments[i] = call.argument(i);
  entry.result = static_cast<uint64_t>(result);
  constexpr uint64_t kSyscallBytes = 2;
  entry.next_rip = thread.pc + kSyscallBytes;
  entry.rflags = thread.flags;
  return entry;
}

// Another thread's tables and view may go away while they are looked at.
bool HoldsPage(uint64_t number, uint64_t index) {
  uint8_t bits = 0;
  return (recordings[number].on != 0 || kept_views.Has(number)) &&
         ReadGuest(&bits, PointerTo<const void>(ViewTablesOf(number) + index / 8), 1) &&
         (bits >> index % 8 & 1) != 0;
}

bool IsChanging(uint64_t number) {
  uint32_t at = 0;
  return ReadGuest(&at, &PointerTo<HsRing>(RingOf(number))->writing, 4) && at == HS_ACCESSING;
}

ThreadView::Known KnownLines(const ThreadView& own, uint64_t page, uint64_t lines,
                             const uint8_t* bytes) {
  const OtherViews others = {.first = kFirstThread,
                             .last = __atomic_load_n(&last_recording, __ATOMIC_RELAXED),
                             .distance = &ViewDistance,
                             .holds = &HoldsPage,
                             .is_changing = &IsChanging,
                             .read = &ReadGuest};
  return KnownToOthers(others, own, page, lines, bytes);
}

// Nobody would read the ring. (What a program asks for itself is not kept.)
void EndWithRecorder(bool end) { Call(SYS_prctl, PR_SET_PDEATHSIG, end ? SIGKILL : 0); }

// What the processor has computed and a replay may compute otherwise, set right.
void Correct(Thread* thread, const GuestState& state) {
  Of(*thread).writer.Correction(thread->count++, state);
}

struct ReservedRanges {
  struct Range {
    uint64_t start, bytes;
    int protection;
  } of[kViewWindowCount + 1];
};

// Of the views and their tables, nothing that a child inherits or a core dump shows.
ReservedRanges RangesOf(uint64_t number) {
  ReservedRanges ranges;
  for (int i = 0; i < kViewWindowCount; ++i) {
    const ViewWindow& window = kViewWindows[i];
    ranges.of[i] = {window.start + DistanceOf(number), window.end - window.start, PROT_NONE};
  }
  ranges.of[kViewWindowCount] = {ViewTablesOf(number), kViewTablesBytes, PROT_READ | PROT_WRITE};
  return ranges;
}

void ReleaseView(uint64_t number) {
  recordings[number].view.GiveUp();
  for (const auto& range : RangesOf(number).of) Call(SYS_munmap, range.start, range.bytes);
}

void SetLockedRoom(const Thread& thread, const EntryWriter::LockedRoom& room) {
  thread.block->locked_limit = room.limit;
  thread.block->locked_bias = room.bias;
}

void SetUpRecording(const Thread& thread) {
  Recording& recording = Of(thread);
  const uint64_t tables = ViewTablesOf(thread.number);
  constexpr uint64_t kBits = kViewTablesBytes / 4;
  auto* ring = PointerTo<HsRing>(RingOf(thread.number));
  ring->capacity = kRingBytes - HS_RING_HEADER_BYTES;
  recording = {};
  uint64_t last = __atomic_load_n(&last_recording, __ATOMIC_RELAXED);
  while (last < thread.number &&
         !__atomic_compare_exchange_n(&last_recording, &last, thread.number, false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  recording.writer.Init(ring, &IsNobodyReading, &Control()->attention);
  thread.block->locked_ring = AddressOf(ring);
  ForgetInheritedGuards(thread);
  SetLockedRoom(thread, {});
  recording.view.Init(DistanceOf(thread.number), kViewWindows, kViewWindowCount,
                      {.held = PointerTo<uint8_t>(tables),
                       .in_segment = PointerTo<uint8_t>(tables + kBits),
                       .pages = PointerTo<uint64_t>(tables + 2 * kBits),
                       .max_pages = 2 * kBits / sizeof(uint64_t),
                       .shared = &view_memory},
                      {&ReadGuest, &AgentIsSame}, &recording.writer, &KnownLines, &IsShared);
}

}  // namespace

bool IsRecorded(const Thread& thread) { return Of(thread).on != 0; }
bool IsGapRecorded(uint64_t number) {
  return __atomic_load_n(&recordings[number].on, __ATOMIC_SEQ_CST) != 0;
}

int64_t ReserveRecording(const Thread& thread) {
  kept_views.GiveBack(thread.number, &ReleaseView);
  for (const ReservedRanges::Range& range : RangesOf(thread.number).of) {
    const int64_t reserved = Reserve(range.start, range.bytes, range.protection);
    if (reserved == 0) continue;
    ReleaseRecording(thread);
    return reserved;
  }
  return 0;
}

void ReleaseRecording(const Thread& thread) { ReleaseView(thread.number); }

void KeepEndedView(const Thread& thread) {
  kept_views.Keep(thread.number, Of(thread).view.page_count(), &ReleaseView);
}

bool IsEndedViewKept(uint64_t number) { return kept_views.Has(number); }
bool IsSegmentLarge(const Thread& thread) {
  return IsRecorded(thread) &&
         (Of(thread).writer.IsLarge(Of(thread).pace.start()) || HasMappedMuch(thread));
}
bool IsViewFull(const Thread& thread) { return IsRecorded(thread) && Of(thread).view.is_full(); }
int32_t OwnFile() { return __atomic_load_n(&view_memory.file, __ATOMIC_ACQUIRE); }

void BeginRecording(Thread* thread) {
  SetUpRecording(*thread);
  Recording& recording = Of(*thread);
  recording.dropped = DroppedCount();
  recording.pace.Begin(thread->count, Boot().segment_instructions);
  __atomic_store_n(&recording.on, 1, __ATOMIC_SEQ_CST);
  GuestState state;
  TakeState(thread, &state);
  recording.writer.State(HS_ENTRY_BEGIN, thread->count, state);
}

void BeginProcessRecording(Thread* thread) {
  if (thread->alone == 0) {
    executed = 0;
    next_full_keyframe = Boot().full_keyframe_instructions;
    keyframe_seen = 0;
  }
  BeginRecording(thread);
  Of(*thread).writer.AwaitRecorder();
  Of(*thread).direct_pages = TellFirstMemory(thread);
}

int64_t StartRecording(Thread* thread) {
  const int64_t reserved = ReserveRecording(*thread);
  if (reserved != 0) return reserved;
  const int32_t recorder = Control()->recorder_process;
  if (recorder != 0 && Call(SYS_getppid) == recorder) EndWithRecorder(true);
  BeginProcessRecording(thread);
  return 0;
}

void EndRecording(Thread* thread, uint16_t reason) {
  Recording& recording = Of(*thread);
  if (recording.on == 0) return;
  if (reason != HS_END_EXIT) EndWithRecorder(false);
  TellUsedMemory(thread);
  GuestState state;
  TakeState(thread, &state);
  Correct(thread, state);
  recording.writer.End(thread->count, reason, state);
  __atomic_store_n(&recording.on, 0, __ATOMIC_SEQ_CST);
}

void RecordStatus(Thread* thread, uint64_t status) {
  if (IsRecorded(*thread)) Of(*thread).writer.Status(thread->count, status);
}

void ForgetRecording(Thread* thread) { Of(*thread).on = 0; }

void ForgetAllRecordings() {
  for (Recording& recording : recordings) recording.on = 0;
  if (OwnFile() > 0) Call(SYS_close, static_cast<uint64_t>(OwnFile()));
  view_memory = {};
  kept_views.Forget();
}

uint64_t InstructionsLeft(const Thread& thread) {
  // A thread looks now and then whether recording is over.
  const uint64_t most = Boot().look_instructions;
  const Recording& recording = Of(thread);
  const uint64_t left =
      recording.pace.next() > thread.count ? recording.pace.next() - thread.count : 1;
  return left < most ? left : most;
}

void BeginSegment(Thread* thread) {
  Recording& recording = Of(*thread);
  __atomic_add_fetch(&executed, thread->count - recording.pace.start(), __ATOMIC_SEQ_CST);
  recording.pace.Begin(thread->count, Boot().segment_instructions);
  recording.view.BeginSegment(thread->count);
  ForgetGuards(*thread);
  recording.direct_pages = TellNextMemory(thread);
}

// Only where the segment ends anyway. One that cannot be is tried again after a while.
bool IsFullKeyframeDue(const Thread& thread) {
  const uint64_t interval = Boot().full_keyframe_instructions;
  if (interval == 0 || thread.alone != 0) return false;
  const uint64_t now =
      __atomic_load_n(&executed, __ATOMIC_SEQ_CST) + thread.count - Of(thread).pace.start();
  if (now < __atomic_load_n(&next_full_keyframe, __ATOMIC_SEQ_CST)) return false;
  __atomic_store_n(&next_full_keyframe, now + interval, __ATOMIC_SEQ_CST);
  return true;
}

bool IsFullKeyframeWanted(const Thread& thread) {
  const uint32_t wanted = __atomic_load_n(&Control()->keyframe_wanted, __ATOMIC_RELAXED);
  return wanted != __atomic_load_n(&keyframe_seen, __ATOMIC_RELAXED) && thread.alone == 0 &&
         __atomic_exchange_n(&keyframe_seen, wanted, __ATOMIC_SEQ_CST) != wanted;
}

void EndSegmentIfDue(Thread* thread) {
  Recording& recording = Of(*thread);
  if (recording.on && IsFullKeyframeWanted(*thread) && StandStill(thread, {})) return;
  const uint64_t each = Boot().segment_per_page;
  const uint64_t worthwhile =
      SegmentPace::Worth(recording.view.page_count(), each, /*of_view=*/true) +
      SegmentPace::Worth(recording.direct_pages, each, /*of_view=*/false);
  if (!recording.on || (!recording.pace.IsDue(thread->count, kLargestBlock, worthwhile) &&
                        !IsSegmentLarge(*thread))) {
    return;
  }
  if (IsFullKeyframeDue(*thread) && StandStill(thread, {})) return;
  TellUsedMemory(thread);
  GuestState state;
  TakeState(thread, &state);
  Correct(thread, state);
  // Who looks at the next segment alone is to see what memory had when it began.
  recording.view.Refresh(thread->count);
  recording.writer.State(HS_ENTRY_SEGMENT, thread->count, state);
  BeginSegment(thread);
}

void RecordStanding(Thread* thread, const Stood& stood) {
  Recording& recording = Of(*thread);
  DropWhatOthersDropped(thread);
  TellUsedMemory(thread);
  GuestState state;
  TakeState(thread, &state);
  Correct(thread, state);
  recording.view.CompareAll(thread->count);
  const StandReason& reason = stood.reason;
  recording.writer.Standing(thread->count, state, {stood.began, reason.trigger, reason.detail});
  if (stood.began != 0) recording.writer.AwaitRecorder();
}

void BeginStandingSegment(Thread* thread) {
  BeginSegment(thread);
  // What the segment begins with is what the keyframe has: what others store from now on enters the
  // view in a later state.
  RecordCorrection(thread);
}

uint64_t DirectPagesOf(const Thread& thread) { return Of(thread).direct_pages; }
EntryWriter& WriterOf(const Thread& thread) { return Of(thread).writer; }
ThreadView& ViewOf(const Thread& thread) { return Of(thread).view; }

void DropWhatOthersDropped(Thread* thread) {
  Recording& recording = Of(*thread);
  if (recording.on == 0) return;
  for (const uint64_t count = DroppedCount(); recording.dropped != count; ++recording.dropped) {
    const DroppedRange range = DroppedAt(recording.dropped);
    recording.view.Drop(range.start, range.end);
    ForgetGuards(*thread);
  }
}

void DropInAllViews(Thread* thread, uint64_t start, uint64_t end) {
  Recording& recording = Of(*thread);
  if (recording.on == 0) return;
  DropWhatOthersDropped(thread);
  recording.view.Drop(start, end);
  ForgetGuards(*thread);
  if (AddDropped({start, end}) == recording.dropped) ++recording.dropped;
}

void TakeOld(Thread* thread, uint64_t address, uint64_t bytes, const void* old) {
  Of(*thread).view.TouchAll(address, bytes, thread->count);
  Of(*thread).view.TakeOld(address, bytes, old, Of(*thread).locked_time, thread->count);
}

void ExpectLocked(Thread* thread) {
  Of(*thread).announced = 1;
  Of(*thread).writer.AnnounceTime();
}

void TakeLocked(Thread* thread) {
  Recording& recording = Of(*thread);
  recording.locked_time =
      recording.announced != 0 ? recording.writer.TakeAnnouncedTime() : recording.writer.TakeTime();
}

void TakeLockedAt(Thread* thread, uint64_t time) { Of(*thread).locked_time = time; }

void RecordCorrection(Thread* thread) {
  GuestState state;
  TakeBaseState(*thread, &state);
  ShowGuestPointers(thread, &state);
  if (Of(*thread).on) Correct(thread, state);
}

void RecordReached(Thread* thread, bool timed) {
  if (IsRecorded(*thread)) Of(*thread).writer.Reached(thread->count, timed);
}

void HoldBackEntries(const Thread& thread) {
  if (IsRecorded(thread)) Of(thread).writer.HoldBack();
}

void PublishEntries(const Thread& thread) {
  if (IsRecorded(thread)) Of(thread).writer.Publish();
}

void RecordCall(Thread* thread, const GuestCall& call, int64_t result, const CallEffects& effects) {
  Recording& recording = Of(*thread);
  if (!recording.on) return;
  const HsChange base = {HS_WORD_FS_BASE, thread->block->fs_base};
  hindsight::GuestCall entry = ToEntry(*thread, call, result);
  entry.clone_flags = effects.clone_flags;
  entry.ring = static_cast<uint16_t>(effects.ring);
  entry.map_read = effects.changed_map.number;
  entry.time = effects.changed_map.time;
  recording.writer.Call(thread->count, entry, &base, 1);
  // What is executed from now on the recorder may meet as soon as it is: it has to be where it is.
  const bool waits = effects.changed_map.executable || effects.code_changed;
  const bool is_read = !MayChangeMap(call.number()) || entry.map_read != 0;
  if (waits || !is_read) recording.writer.AwaitRecorder();
}

void RecordExec(Thread* thread, const GuestCall& call) {
  if (IsRecorded(*thread)) Of(*thread).writer.Exec(thread->count, ToEntry(*thread, call, 0));
}

void RecordReturnFromSignal(Thread* thread, const GuestCall& call) {
  Recording& recording = Of(*thread);
  if (!recording.on) return;
  GuestState state;
  TakeState(thread, &state);
  recording.writer.CallTo(thread->count, ToEntry(*thread, call, 0), state);
}

void RecordSignal(Thread* thread, const PendingSignal& signal) {
  Recording& recording = Of(*thread);
  if (!recording.on) return;
  GuestState state;
  TakeState(thread, &state);
  recording.writer.Signal(thread->count, signal.info[0],
                          reinterpret_cast<const uint8_t*>(signal.info), state);
  ++thread->count;
}

void RecordStep(Thread* thread, const uint64_t* before) {
  Recording& recording = Of(*thread);
  if (!recording.on) return;
  GuestState state;
  TakeState(thread, &state);
  recording.writer.Step(thread->count, state, before);
}

void RecordPart(Thread* thread, uint64_t start, uint64_t end) {
  Recording& recording = Of(*thread);
  if (!recording.on) return;
  const uint64_t* r = thread->registers;
  const HsChange changes[] = {{kRax, r[kRax]},
                              {kRcx, r[kRcx]},
                              {kRsi, r[kRsi]},
                              {kRdi, r[kRdi]},
                              {HS_WORD_RFLAGS, thread->flags}};
  recording.writer.Patch(HS_ENTRY_CORRECTION, thread->count++, changes, 5);
  if (IsDirect(*thread)) {
    TellStored(thread, start, end - start);
  } else {
    recording.view.Drop(start & ~uint64_t{4095}, end);
    ForgetGuards(*thread);
  }
}

void RecordInstruction(Thread* thread) {
  Recording& recording = Of(*thread);
  if (!recording.on) return;
  const uint64_t* r = thread->registers;
  const HsChange changes[] = {{kRax, r[kRax]},
                              {kRcx, r[kRcx]},
                              {kRdx, r[kRdx]},
                              {kRbx, r[kRbx]},
                              {HS_WORD_RIP, thread->pc}};
  recording.writer.Patch(HS_ENTRY_INSTRUCTION, thread->count, changes, 5);
}

void RecordLocked(Thread* thread) {
  Recording& recording = Of(*thread);
  const bool announced = recording.announced != 0;
  recording.announced = 0;
  if (recording.locked_time == 0) {
    if (announced) recording.writer.CancelTime();
    return;
  }
  recording.writer.Locked(thread->count, recording.locked_time);
  recording.locked_time = 0;
  // With delays drawn at random each one comes to the agent.
  if (Boot().chaos_seed == 0) SetLockedRoom(*thread, recording.writer.RoomForLocked());
}

}  // namespace hindsight::agent

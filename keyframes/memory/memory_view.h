// What memory reads answer at a moment.
//
// The thread that runs is asked first: a page that its view holds is read there, unless others may
// have written to it since, or a system call has replaced it (page_replacements.h) and
// the thread has not used it again. (One that enters the view later in the segment is not known
// yet.) Else
// a page's bytes are, in this order:
//   1. the newest that any thread had: those in its view, or those at the end of an earlier
//      segment, back to where the page's origin (memory_origin.h) says that knowledge begins. Where
//      several threads know the page and differ, each byte is that of the thread that learned or
//      wrote it last (newest_bytes.h). A page that has left a view is not known any more, unless a
//      thread has seen it since, nor is one that was replaced;
//   2. those of its origin: zeros, the bytes of the file mapped there, those in a full keyframe,
//      those of the page that mremap has moved there, or, of a process made by another one, those
//      that it was born with, which the other's trace has.
// Else it is not known. Where the trace has not all threads (ProcessState::IsWhole) only the view
// of the thread that is asked about counts: what it read or wrote itself in its present segment.
// For all but the view the memory map must have the page at the moment, if
// the trace has a map at all: what was unmapped cannot be read. After a gap nothing from before
// counts.
//
// A read is one question asked of one source after the other, so the steps of it stay together;
// where memory comes from that no thread has touched is MemoryOrigins' part.
//
// Borrows the trace and the process state. Not copyable, not movable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_MEMORY_MEMORY_VIEW_H_
#define HINDSIGHT_KEYFRAMES_MEMORY_MEMORY_VIEW_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "keyframes/memory/newest_bytes.h"
#include "keyframes/memory/page_replacements.h"
#include "keyframes/memory/thread_views.h"
#include "keyframes/replay/segment_replay.h"
#include "keyframes/state/memory_origin.h"
#include "keyframes/state/process_state.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class MemoryView {
 public:
  MemoryView(const TraceReader* trace, const ProcessState* process, ThreadViews* views,
             uint64_t cache_bytes)
      : trace_(trace),
        process_(process),
        views_(views),
        cache_bytes_(cache_bytes),
        origins_(trace, process),
        touched_(trace),
        replacements_(trace, process, &origins_, &touched_),
        newest_(process, views) {}
  MemoryView(const MemoryView&) = delete;
  MemoryView& operator=(const MemoryView&) = delete;

  // Reads as many bytes of `out` as are known from its start, and returns how many. kNotFound if
  // the first is not. `interrupt` (polled, may be null): kCancelled.
  absl::StatusOr<size_t> Read(int32_t thread, uint64_t moment, uint64_t address,
                              absl::Span<uint8_t> out, const std::atomic<bool>* interrupt);
  // The same for a few bytes that are asked for once: the rest of their page, of which it may be
  // much work to say which thread knows it best, is left alone.
  absl::StatusOr<size_t> ReadFew(int32_t thread, uint64_t moment, uint64_t address,
                                 absl::Span<uint8_t> out, const std::atomic<bool>* interrupt);
  // Whether the page of `address` is memory of no file that nobody has touched since it was mapped:
  // it is zeros because the memory map says so. False for pages that are not known.
  absl::StatusOr<bool> IsUntouched(int32_t thread, uint64_t moment, uint64_t address,
                                   const std::atomic<bool>* interrupt);
  // `wanted` bytes of the page as they were known at `moment`, before segment `number` of `thread`
  // touched it; kNotFound if it was not known. `out`: a page; its other bytes may be old.
  absl::Status ReadBefore(int32_t thread, uint64_t number, uint64_t moment, uint64_t page,
                          const PageBits& wanted, absl::Span<uint8_t> out);
  // Whether bytes of [address, address + length) come into the view of `thread` in segment
  // `number`: if not, it neither executes nor accesses them there. Known from the records, without
  // a replay.
  absl::StatusOr<bool> Touches(int32_t thread, uint64_t number, uint64_t address, uint64_t length);
  // Since when a page has not been known that is not known at `moment`; `moment` itself if that
  // cannot be said.
  uint64_t UnknownSince(uint64_t moment, uint64_t page) const {
    return std::min(moment, origins_.Of(moment, page).moment);
  }
  // Saves a replay: `bytes` are those of `page` at the end of segment `number`.
  void Remember(int32_t thread, uint64_t number, uint64_t page, absl::Span<const uint8_t> bytes);

 private:
  using Page = std::array<uint8_t, kPageBytes>;
  // A state of a segment's replay: its end, or the state of a thread at some moment.
  struct StateKey {
    SegmentKey segment;
    uint64_t count = kEnd;
    bool before_turn = false;

    static constexpr uint64_t kEnd = ~uint64_t{0};
    bool operator==(const StateKey&) const = default;
  };
  // Pages in such a state.
  struct Ending {
    StateKey key;
    absl::flat_hash_map<uint64_t, size_t> offset;  // of a page in `bytes`
    std::vector<uint8_t> bytes;
  };
  using Knowledge = ThreadPage;
  // What a thread's view has of a page that was replaced while it ran: nothing but what it has
  // learned or written since counts.
  struct Outdated {
    Knowledge knowledge;
    SeenReplacement replaced;
  };
  // What is asked: of a page, by `thread` at `moment`.
  struct Question {
    int32_t thread = 0;
    uint64_t number = 0;   // its segment
    bool ask_own = false;  // what it has in that segment counts, too
    uint64_t moment = 0;
    uint64_t page = 0;
    bool is_own = false;     // the thread makes the next transition, and has the page
    uint64_t since = 0;      // what was known before does not matter
    uint64_t floor = 0;      // segments that ended before do not count
    uint64_t origin = 0;     // nor does what was known before
    bool searching = false;  // its replay is in the middle of a search, and must stay there
    const PageBits* wanted = nullptr;  // of its bytes; null: all
    int moves = 0;  // that have led to this page and moment from those that were asked for
    const std::atomic<bool>* interrupt = nullptr;
  };
  // What the threads have of it.
  struct Findings {
    std::vector<Knowledge> known;
    std::vector<Outdated> outdated;
    std::optional<uint64_t> lost;  // the last moment at which one that knew it no longer did
  };
  // The page's bytes are what threads know of it; if none does, those of its origin; but for what
  // is newer in outdated views.
  struct Answer {
    std::vector<Knowledge> known;
    MemoryOrigin origin;
    std::vector<Outdated> outdated;
  };

  static absl::Status PageNotKnown(uint64_t page);
  // Finds what knows the page: threads, or else its origin. kNotFound: nothing does.
  static bool IsZerosByMap(const Segment& segment, uint64_t page, uint64_t count);
  static bool IsZeros(const SegmentReplay& replay, uint64_t page);
  absl::StatusOr<Answer> Ask(Question* question);
  absl::StatusOr<std::vector<Knowledge>> AskOwn(const Question& question);
  absl::Status Find(const Question& question, absl::Span<uint8_t> out);
  struct Merged;
  absl::StatusOr<bool> HasSeenOthers(const SegmentKey& key, uint64_t from, uint64_t to);
  absl::StatusOr<Merged> Merge(const Question& question, const Page& own);
  absl::Status ReadMerged(const Question& question, const Page& own, uint64_t offset,
                          absl::Span<uint8_t> out);
  absl::Status ReadOrigin(const MemoryOrigin& origin, const Question& question,
                          absl::Span<uint8_t> out);
  absl::Status ReadMoved(const MemoryOrigin& origin, const Question& question,
                         absl::Span<uint8_t> out);
  static absl::Status TakeAgreed(const std::vector<Knowledge>& known, uint64_t page,
                                 absl::Span<uint8_t> out);
  absl::StatusOr<bool> ReadPresent(const Question& question, int32_t thread, Knowledge* knowledge,
                                   bool* before_turn);
  absl::StatusOr<Findings> AskThreads(const Question& question);
  absl::StatusOr<bool> AskPresent(const Question& question, int32_t thread, Findings* findings);
  absl::Status AskEarlier(const Question& question, int32_t thread, uint64_t number,
                          Findings* findings);
  absl::StatusOr<bool> LosesInTurnToCome(const SegmentKey& key, bool waits,
                                         const Question& question, Findings* findings);
  absl::StatusOr<bool> HasOwn(const SegmentReplay& present, int32_t thread, uint64_t moment,
                              uint64_t address, absl::Span<uint8_t> out);
  static void Add(Knowledge knowledge, const std::optional<SeenReplacement>& replaced,
                  Findings* findings);
  absl::StatusOr<Knowledge> WithoutOld(const Outdated& outdated, const Question& question,
                                       absl::Span<const uint8_t> others);
  uint64_t BeginOfLateWrites(int32_t thread, uint64_t since) const;
  absl::StatusOr<std::optional<uint64_t>> MayBeOldSince(int32_t thread, uint64_t number,
                                                        uint64_t moment, uint64_t page);
  uint64_t NewestMoment(const Knowledge& knowledge, uint64_t moment) const;
  uint64_t VerifiedMoment(const Knowledge& knowledge, uint64_t moment) const;
  uint64_t EndCountOf(const SegmentKey& key) const;
  bool HasRunSince(int32_t thread, const Question& question) const;
  uint64_t FirstCountOf(const Question& question, int32_t thread) const;
  absl::Status ReadModule(uint64_t moment, uint64_t page, absl::Span<uint8_t> out);
  uint64_t KeyframeMoment(uint64_t moment) const;
  bool HasEnded(int32_t thread, uint64_t moment) const;
  bool WaitsAt(int32_t thread, uint64_t moment) const;
  bool IsNewest(int32_t thread, uint64_t moment) const;
  absl::StatusOr<bool> IsMapped(const Question& question);

  absl::StatusOr<const Ending*> EndingOf(const StateKey& key, const std::atomic<bool>* interrupt);

  const TraceReader* const trace_;
  const ProcessState* const process_;
  ThreadViews* const views_;
  const uint64_t cache_bytes_;
  const MemoryOrigins origins_;
  TouchedSegments touched_;
  const PageReplacements replacements_;
  const NewestBytes newest_;
  std::list<Ending> endings_;  // most recently used first
  uint64_t ending_bytes_ = 0;
  absl::flat_hash_map<std::pair<SegmentKey, uint64_t>, std::vector<uint8_t>> remembered_;
  std::unique_ptr<SegmentReplay> side_;  // replays earlier segments; made when first needed
  // Pages found for the last (thread, moment) asked about.
  std::pair<int32_t, uint64_t> found_at_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Page>> found_;
  // Pages of a thread that runs, where others have written to them; of one slice: thread, segment,
  // slice.
  struct Merged {
    uint64_t moment = 0;  // at which this was looked up
    Page bytes;
    PageBits others;  // those that are not the thread's own
  };
  std::tuple<int32_t, uint64_t, size_t> merged_at_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Merged>> merged_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_MEMORY_MEMORY_VIEW_H_

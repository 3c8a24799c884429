// What memory held before anything that the recording knows of touched it, as the kernel
// guarantees it:
// known from system calls that map memory, the memory map, and full keyframes, without a replay.
//
// Memory that is mapped afresh (mmap, brk, the grown part of mremap, MADV_DONTNEED) holds zeros, or
// what its file holds; what mremap has moved holds what it held where it was. Memory that a full
// keyframe looked at holds what that says. Since then it may have been touched: by threads, which
// their segments show; and by others, which leave no trace. Where such may have written, nothing is
// known from before, and the origin says so:
//   - the recorder says that it does not know what was written (kMemoryUnknown);
//   - a child that has the same memory was made (CLONE_VM; vfork, if the child is not recorded);
//   - the kernel writes at times of its own choosing (io_uring, Linux AIO), as long as it can;
//   - shared mappings, unless of a file that never changed;
//   - private mappings of a file that has changed, or may have: of a recording that was cut short
//     only ELF files count as unchanged, and of files that are not in the trace (memfd) those that
//     are executed;
//   - memory given to MADV_FREE, remap_file_pages and the like;
//   - mapped before a gap.
//
// Borrows trace and process state. Immutable after its constructor: any number of host threads.

#ifndef HINDSIGHT_KEYFRAMES_STATE_MEMORY_ORIGIN_H_
#define HINDSIGHT_KEYFRAMES_STATE_MEMORY_ORIGIN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "keyframes/state/process_state.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// Where the contents of a page come from.
struct MemoryOrigin {
  enum class Kind : uint8_t {
    kUnknown,
    kZeros,
    kFile,      // the file mapped there, zeros after its end
    kKeyframe,  // `keyframe`
    kBirth,     // what the process was made with
    kMoved,     // what was at `source` before `moment`
  };
  Kind kind = Kind::kUnknown;
  // The moment of which this is true. What was known of the page before counts no more.
  uint64_t moment = 0;
  const FullKeyframe* keyframe = nullptr;
  uint64_t source = 0;
  bool else_zeros = false;  // the keyframe holds the page, or it is zeros
};

// A system call that put other memory where a page is, or took it away.
struct MemoryReplacement {
  uint64_t moment = 0;  // that it led to
  int32_t thread = 0;   // that made it
  // That thread's view no longer has what it had there. Others' may have it for a while.
  bool is_forgotten = false;
};

class MemoryOrigins {
 public:
  MemoryOrigins(const TraceReader* trace, const ProcessState* process);
  MemoryOrigins(const MemoryOrigins&) = delete;
  MemoryOrigins& operator=(const MemoryOrigins&) = delete;

  // Of the page at `page`, for one who asks at `moment`.
  MemoryOrigin Of(uint64_t moment, uint64_t page) const;
  // The newest replacement of the page that led to a moment in (after, moment].
  std::optional<MemoryReplacement> LastReplacement(uint64_t moment, uint64_t after,
                                                   uint64_t page) const;

 private:
  // A system call that has succeeded.
  struct Call {
    uint64_t moment = 0;  // that it led to
    int32_t thread = 0;
  };
  // What a call made of a range of pages.
  enum class Contents : uint8_t {
    kFresh,    // mapped afresh
    kMoved,    // moved there
    kOther,    // something else, or nothing
    kUnknown,  // maybe what it was
  };
  struct Change {
    uint64_t moment = 0;
    uint64_t start = 0;
    uint64_t end = 0;
    Contents contents = Contents::kUnknown;
    uint64_t source = 0;  // where it was before, if it was moved
    int32_t thread = 0;
    bool is_forgotten = true;
  };
  // Others write at any time from here on, up to the next exec.
  struct Interval {
    uint64_t begin = 0;
    uint64_t end = ~uint64_t{0};
  };

  void AddCall(uint64_t moment, const ProcessEvent& call);
  void AddBrk(const Call& made);
  void AddMremap(const Call& made, const ProcessEvent& call);
  void AddMadvise(const Call& made, const ProcessEvent& call);
  void AddShmdt(const Call& made, uint64_t start);
  void AddFork(uint64_t moment, const ProcessEvent& fork);
  void Add(const Call& made, uint64_t start, uint64_t bytes, Contents contents,
           uint64_t source = 0);
  void IndexChanges();

  const Change* LastChange(uint64_t moment, uint64_t after, uint64_t page) const;
  MemoryOrigin OfMapping(uint64_t moment, uint64_t page, const MapRegion& region) const;
  MemoryOrigin OfKeyframe(uint64_t page, const MapRegion& region, const Snapshot& snapshot,
                          const FullKeyframe* keyframe) const;
  MemoryOrigin WithoutMap(uint64_t moment) const;
  bool OthersWrite(uint64_t moment, const MapRegion& region) const;
  uint64_t LastUnknown(uint64_t moment, uint64_t page) const;
  bool FileIsUnchanged(int32_t module) const;
  bool MayBeRewritten(uint64_t moment, const MapRegion& region) const;

  const TraceReader* const trace_;
  const ProcessState* const process_;
  std::vector<Change> changes_;  // in the order of their moments
  // Changes by the 2 MiB they touch; those of more than a few such are in `large_`. Ascending.
  absl::flat_hash_map<uint64_t, std::vector<uint32_t>> by_place_;
  std::vector<uint32_t> large_;
  std::vector<uint64_t> unknown_;  // moments up to which anything may have been written
  std::vector<Interval> others_write_;
  absl::flat_hash_set<int64_t> changed_files_;  // modules
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_STATE_MEMORY_ORIGIN_H_

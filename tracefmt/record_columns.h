// Records gathered by columns, on their way into a block.
//
// Adding is a few appends to vectors, so that a recorder pays little per record; the message is
// built by Build, later and on another thread. It has a field for each column or group of columns
// of the message (RecordBlock in trace.capnp), and a method for each kind of record.

#ifndef HINDSIGHT_TRACEFMT_RECORD_COLUMNS_H_
#define HINDSIGHT_TRACEFMT_RECORD_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tracefmt/records.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {

// Kinds of records on disk. A reader skips unknown kinds from kFirstIgnorableRecord on, and stops
// at unknown kinds below.
enum class RecordKind : uint8_t {
  kPageImport = 0,
  kLineImport = 1,
  kUncachedRead = 2,
  kSideEffect = 3,
  kDiscontinuity = 4,
  kRegisterHash = 5,
  kSegmentEnd = 6,
  kGap = 7,
  kMappedRange = 8,
  kUsedPages = 9,
  kReferencedPage = 10,
  // Replay is exact without these.
  kOrderRun = 128,
  kPageLeft = 129,
  kMemoryHash = 130,
};
inline constexpr uint8_t kFirstIgnorableRecord = 128;

// Bounds on what loading one segment takes: a reader stops there, a writer refuses to go further.
// A recorder starts a new segment long before.
inline constexpr uint64_t kMaxSegmentRecords = 1 << 25;
// States are numbered below this. A thread would take a year to get there; sums over all threads do
// not overflow.
inline constexpr uint64_t kMaxCount = uint64_t{1} << 56;
inline constexpr uint64_t kMaxSegmentRawBytes = uint64_t{4} << 30;
inline constexpr uint64_t kMaxSegmentOrderedCounts = 1 << 28;
// In UsedPages. Those of 64 GB; 128 MB when loaded.
inline constexpr uint64_t kMaxSegmentUsedPages = 1 << 24;

class RecordColumns {
 public:
  // `first_record`: records of the segment before these; `first_count`: count of the last of them.
  RecordColumns(uint64_t first_record, uint64_t first_count)
      : first_record_(first_record), first_count_(first_count), last_count_(first_count) {}

  // Whether a record at `count` can be added: differences of counts are stored in 32 bits.
  bool Fits(uint64_t count) const { return count - last_count_ <= UINT32_MAX; }
  // Requires: Fits(record.count), count not below the last one, nothing after SegmentEnd or Gap.
  void Add(const Record& record);

  bool empty() const { return kinds_.empty(); }
  size_t size() const { return kinds_.size(); }
  uint64_t last_count() const { return last_count_; }
  uint64_t ordered_counts() const { return order_runs_.total; }
  uint64_t used_pages() const { return used_pages_.total; }
  size_t raw_bytes() const { return raw_bytes_; }  // about what the message will take

  void Build(wire::RecordBlock::Builder block) const;

 private:
  struct Pages {
    std::vector<uint64_t> addresses, line_masks, module_offsets, known_masks, shown_masks;
    std::vector<int32_t> modules, shown_by;
    std::vector<uint8_t> flags, bytes, shown_counts, turns;
  };
  struct Lines {
    std::vector<uint64_t> addresses;
    std::vector<uint8_t> flags, bytes;
  };
  struct UncachedReads {
    std::vector<uint64_t> addresses, values;
    std::vector<uint8_t> sizes;
  };
  struct Patches {
    std::vector<uint16_t> sizes, indices;
    std::vector<uint64_t> values;
    size_t Add(const RegisterPatch& patch);
    void Build(wire::PatchColumns::Builder columns) const;
  };
  struct SideEffects {
    std::vector<uint16_t> kinds;
    std::vector<uint64_t> sequences, register_hashes;
    std::vector<uint8_t> flags;
    Patches patches;
  };
  struct Discontinuities {
    std::vector<uint16_t> kinds;
    std::vector<uint64_t> sequences, register_hashes;
    std::vector<int32_t> signals;
    std::vector<std::string> siginfos;
    Patches patches;
  };

  struct OrderRuns {
    std::vector<uint64_t> first_sequences;
    std::vector<uint32_t> sizes;
    std::vector<uint8_t> counts;
    uint64_t total = 0;
  };

  struct MemoryHashes {
    std::vector<uint64_t> addresses, sizes, hashes;
  };

  struct MappedRanges {
    std::vector<uint64_t> addresses, sizes, module_offsets;
    std::vector<int32_t> modules;
    std::vector<uint8_t> flags;
  };

  struct Used {
    std::vector<uint32_t> sizes;
    std::vector<uint8_t> flags, pages;
    uint64_t total = 0;
  };

  // Each adds the body's columns and returns its kind.
  RecordKind AddBody(const PageImport& body);
  RecordKind AddBody(const LineImport& body);
  RecordKind AddBody(const UncachedRead& body);
  RecordKind AddBody(const SideEffect& body);
  RecordKind AddBody(const Discontinuity& body);
  RecordKind AddBody(const RegisterHash& body);
  RecordKind AddBody(const SegmentEnd& body);
  RecordKind AddBody(const Gap& body);
  RecordKind AddBody(const OrderRun& body);
  RecordKind AddBody(const PageLeft& body);
  RecordKind AddBody(const MemoryHash& body);
  RecordKind AddBody(const MappedRange& body);
  RecordKind AddBody(const UsedPages& body);
  RecordKind AddBody(const ReferencedPage& body);

  void BuildImports(wire::RecordBlock::Builder block) const;
  void BuildTransitions(wire::RecordBlock::Builder block) const;
  void BuildOrder(wire::RecordBlock::Builder block) const;
  void BuildNotes(wire::RecordBlock::Builder block) const;
  void BuildRanges(wire::RecordBlock::Builder block) const;

  uint64_t first_record_;
  uint64_t first_count_;
  uint64_t last_count_;
  size_t raw_bytes_ = 0;
  std::vector<uint8_t> kinds_;
  std::vector<uint32_t> count_deltas_;
  Pages pages_;
  Lines lines_;
  UncachedReads uncached_reads_;
  SideEffects side_effects_;
  Discontinuities discontinuities_;
  std::vector<uint64_t> register_hashes_;
  std::vector<uint64_t> end_registers_;
  std::string gap_reason_;
  OrderRuns order_runs_;
  std::vector<uint64_t> left_pages_;
  std::vector<uint64_t> referenced_pages_;
  MemoryHashes memory_hashes_;
  MappedRanges mapped_ranges_;
  Used used_pages_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_RECORD_COLUMNS_H_

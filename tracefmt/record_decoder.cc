#include "tracefmt/record_decoder.h"

#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tracefmt/import_columns.h"
#include "tracefmt/record_columns.h"
#include "tracefmt/storage/columns.h"
#include "tracefmt/storage/message.h"

namespace hindsight {
namespace {

constexpr const char kUnorderedCount[] = "a count of an ordered instruction is out of order";
constexpr size_t kSiginfoBytes = 128;  // of a siginfo_t
// Asking the budget for every record would take longer than decoding it.
constexpr uint64_t kBytesPerQuestion = 64 << 10;

// The columns of each kind of record: Take reads the next one, and returns what is wrong with it,
// or nullptr.

struct PatchColumns {
  explicit PatchColumns(wire::PatchColumns::Reader columns)
      : sizes(columns.getSizes()), indices(columns.getIndices()), values(columns.getValues()) {}

  const char* Take(size_t register_words, RegisterPatch* out) {
    uint16_t size = 0;
    if (!sizes.Take(&size)) return kShortColumn;
    // Indices ascend, so there are at most as many as registers: checked before reserving.
    if (size > register_words) return "a register patch is larger than the register file";
    out->index.reserve(size);
    out->value.reserve(size);
    for (int i = 0; i < size; ++i) {
      uint16_t index = 0;
      uint64_t value = 0;
      if (!indices.Take(&index) || !values.Take(&value)) return kShortColumn;
      if (index >= register_words || (!out->index.empty() && index <= out->index.back())) {
        return "a register index is out of order or range";
      }
      out->index.push_back(index);
      out->value.push_back(value);
    }
    return nullptr;
  }

  QuarterColumn sizes, indices;
  WordColumn values;
};

struct ReadColumns {
  explicit ReadColumns(wire::UncachedReadColumns::Reader columns)
      : addresses(columns.getAddresses()), values(columns.getValues()), sizes(columns.getSizes()) {}

  const char* Take(UncachedRead* read) {
    if (!addresses.Take(&read->address) || !sizes.Take(&read->size) || !values.Take(&read->value)) {
      return kShortColumn;
    }
    return read->size <= sizeof(read->value) ? nullptr : "an uncached read is too wide";
  }

  WordColumn addresses, values;
  ByteColumn sizes;
};

struct EffectColumns {
  explicit EffectColumns(wire::SideEffectColumns::Reader columns)
      : kinds(columns.getKinds()),
        sequences(columns.getSequences()),
        hashes(columns.getRegisterHashes()),
        flags(columns.getFlags()),
        patches(columns.getPatches()) {}

  const char* Take(size_t register_words, SideEffect* effect) {
    uint16_t kind = 0;
    uint8_t flag = 0;
    if (!kinds.Take(&kind) || !sequences.Take(&effect->sequence) ||
        !hashes.Take(&effect->register_hash) || !flags.Take(&flag)) {
      return kShortColumn;
    }
    effect->kind = static_cast<SideEffectKind>(kind);
    effect->retired = (flag & 1) == 0;
    return patches.Take(register_words, &effect->registers);
  }

  QuarterColumn kinds;
  WordColumn sequences, hashes;
  ByteColumn flags;
  PatchColumns patches;
};

struct JumpColumns {
  explicit JumpColumns(wire::DiscontinuityColumns::Reader columns)
      : kinds(columns.getKinds()),
        sequences(columns.getSequences()),
        hashes(columns.getRegisterHashes()),
        signals(columns.getSignals()),
        siginfos(columns.getSiginfos()),
        patches(columns.getPatches()) {}

  const char* Take(size_t register_words, Discontinuity* jump) {
    uint16_t kind = 0;
    capnp::Data::Reader siginfo;
    if (!kinds.Take(&kind) || !sequences.Take(&jump->sequence) ||
        !hashes.Take(&jump->register_hash) || !signals.Take(&jump->signal) ||
        !siginfos.Take(&siginfo)) {
      return kShortColumn;
    }
    if (siginfo.size() > kSiginfoBytes) return "a siginfo is too large";
    jump->kind = static_cast<DiscontinuityKind>(kind);
    jump->siginfo = AsString(siginfo);
    return patches.Take(register_words, &jump->registers);
  }

  QuarterColumn kinds;
  WordColumn sequences, hashes;
  IntegerColumn signals;
  BlobColumn siginfos;
  PatchColumns patches;
};

// Room for the numbers of `varints`. Each takes a byte or more, so that bounds what a block can
// make us allocate.
absl::Span<uint64_t> RoomFor(const ByteColumn& varints, DecodedLists* lists) {
  if (varints.size() == 0) return {};
  lists->emplace_back(new uint64_t[varints.size()]);
  return absl::MakeSpan(lists->back().get(), varints.size());
}

struct RunColumns {
  RunColumns(wire::OrderRunColumns::Reader columns, DecodedLists* lists)
      : sequences(columns.getFirstSequences()),
        sizes(columns.getSizes()),
        counts(columns.getCounts()),
        ordered(RoomFor(counts, lists)) {}

  // The run is at `count`, the record before at `before`.
  const char* Take(uint64_t before, uint64_t count, OrderRun* run) {
    uint32_t size = 0;
    if (!sequences.Take(&run->first_sequence) || !sizes.Take(&size) || size > ordered.size()) {
      return kShortColumn;
    }
    if (size == 0 || run->first_sequence == 0 || run->first_sequence + size < size) {
      return "impossible order";
    }
    const absl::Span<uint64_t> run_counts = ordered.first(size);
    ordered.remove_prefix(size);
    uint64_t difference = 0;
    if (!counts.TakeVarint(&difference)) return kShortColumn;
    if (difference == 0 || difference > count - before) return kUnorderedCount;
    run_counts[0] = count - difference;
    for (size_t i = 1; i < size; ++i) {
      if (!counts.TakeVarint(&difference)) return kShortColumn;
      if (difference == 0 || difference >= count - run_counts[i - 1]) return kUnorderedCount;
      run_counts[i] = run_counts[i - 1] + difference;
    }
    run->counts = run_counts;
    return nullptr;
  }

  WordColumn sequences;
  HalfColumn sizes;
  ByteColumn counts;
  absl::Span<uint64_t> ordered;  // not handed out yet
};

struct MemoryHashColumns {
  explicit MemoryHashColumns(wire::MemoryHashColumns::Reader columns)
      : addresses(columns.getAddresses()), sizes(columns.getSizes()), hashes(columns.getHashes()) {}

  const char* Take(MemoryHash* memory) {
    if (!addresses.Take(&memory->address) || !sizes.Take(&memory->size_bytes) ||
        !hashes.Take(&memory->hash)) {
      return kShortColumn;
    }
    const bool fits = memory->address + memory->size_bytes >= memory->address;
    return fits ? nullptr : "hashed memory does not fit the address space";
  }

  WordColumn addresses, sizes, hashes;
};

struct MappedRangeColumns {
  explicit MappedRangeColumns(wire::MappedRangeColumns::Reader columns)
      : addresses(columns.getAddresses()),
        sizes(columns.getSizes()),
        module_offsets(columns.getModuleOffsets()),
        modules(columns.getModules()),
        flags(columns.getFlags()) {}

  const char* Take(size_t module_count, MappedRange* range) {
    uint8_t flag = 0;
    if (!addresses.Take(&range->address) || !sizes.Take(&range->bytes) || !flags.Take(&flag)) {
      return kShortColumn;
    }
    if (range->address % kPageBytes != 0) return kUnalignedPage;
    if (range->bytes == 0 || range->bytes % kPageBytes != 0) {
      return "a mapped range is not of whole pages";
    }
    const char* const too_far = "a mapped range does not fit the address space or its file";
    if (range->address + range->bytes < range->address) return too_far;
    if ((flag & 1) == 0) return nullptr;
    if (!modules.Take(&range->module) || !module_offsets.Take(&range->module_offset)) {
      return kShortColumn;
    }
    if (range->module_offset + range->bytes < range->module_offset) return too_far;
    const bool there = range->module >= 0 && static_cast<size_t>(range->module) < module_count;
    return there ? nullptr : kNoSuchModule;
  }

  WordColumn addresses, sizes, module_offsets;
  IntegerColumn modules;
  ByteColumn flags;
};

struct UsedPageColumns {
  UsedPageColumns(wire::UsedPageColumns::Reader columns, DecodedLists* lists)
      : sizes(columns.getSizes()),
        flags(columns.getFlags()),
        pages(columns.getPages()),
        room(RoomFor(pages, lists)) {}

  const char* Take(UsedPages* used) {
    constexpr uint64_t kPageNumbers = ~uint64_t{0} / kPageBytes + 1;
    uint32_t size = 0;
    uint8_t flag = 0;
    if (!sizes.Take(&size) || !flags.Take(&flag) || size > room.size()) return kShortColumn;
    const absl::Span<uint64_t> addresses = room.first(size);
    room.remove_prefix(size);
    uint64_t number = 0;
    for (size_t i = 0; i < size; ++i) {
      uint64_t difference = 0;
      if (!pages.TakeVarint(&difference)) return kShortColumn;
      if ((difference == 0 && i > 0) || difference >= kPageNumbers - number) {
        return "a used page is out of order or range";
      }
      number += difference;
      addresses[i] = number * kPageBytes;
    }
    used->complete = (flag & 1) != 0;
    used->pages = addresses;
    return nullptr;
  }

  HalfColumn sizes;
  ByteColumn flags, pages;
  absl::Span<uint64_t> room;  // not handed out yet
};

class Decoder {
 public:
  Decoder(wire::RecordBlock::Reader block, const RecordLimits& limits, DecodedLists* lists)
      : limits_(limits),
        pages_(block.getPages()),
        lines_(block.getLines()),
        reads_(block.getUncachedReads()),
        effects_(block.getSideEffects()),
        jumps_(block.getDiscontinuities()),
        hashes_(block.getRegisterHashes()),
        end_registers_(block.getEndRegisters()),
        gap_reason_(block.getGapReason()),
        runs_(block.getOrderRuns(), lists),
        left_pages_(block.getLeftPages()),
        memory_hashes_(block.getMemoryHashes()),
        mapped_ranges_(block.getMappedRanges()),
        used_pages_(block.getUsedPages(), lists),
        referenced_pages_(block.getReferencedPages()) {}

  // The record's body; it is at `count`, the record before at `before`. Returns what is wrong,
  // or nullptr.
  const char* Take(RecordKind kind, uint64_t before, uint64_t count, RecordBody* out) {
    switch (kind) {
      case RecordKind::kPageImport:
        return pages_.Take(limits_.module_count, &out->emplace<PageImport>());
      case RecordKind::kLineImport:
        return lines_.Take(&out->emplace<LineImport>());
      case RecordKind::kUncachedRead:
        return reads_.Take(&out->emplace<UncachedRead>());
      case RecordKind::kSideEffect:
        return effects_.Take(limits_.register_words, &out->emplace<SideEffect>());
      case RecordKind::kDiscontinuity:
        return jumps_.Take(limits_.register_words, &out->emplace<Discontinuity>());
      case RecordKind::kRegisterHash:
        return hashes_.Take(&out->emplace<RegisterHash>().hash) ? nullptr : kShortColumn;
      case RecordKind::kSegmentEnd:
        return TakeEnd(&out->emplace<SegmentEnd>());
      case RecordKind::kGap:
        out->emplace<Gap>().reason = AsString(gap_reason_);
        return nullptr;
      case RecordKind::kOrderRun:
        return runs_.Take(before, count, &out->emplace<OrderRun>());
      case RecordKind::kPageLeft:
        return TakePage(&left_pages_, &out->emplace<PageLeft>().address);
      case RecordKind::kMemoryHash:
        return memory_hashes_.Take(&out->emplace<MemoryHash>());
      case RecordKind::kMappedRange:
        return mapped_ranges_.Take(limits_.module_count, &out->emplace<MappedRange>());
      case RecordKind::kUsedPages:
        return used_pages_.Take(&out->emplace<UsedPages>());
      case RecordKind::kReferencedPage:
        return TakePage(&referenced_pages_, &out->emplace<ReferencedPage>().address);
    }
    return "unknown kind";
  }

 private:
  const char* TakeEnd(SegmentEnd* end) {
    if (end_registers_.size() != limits_.register_words) {
      return "the register file at the end is not the size of that at the start";
    }
    end->registers = AsWords(end_registers_);
    return nullptr;
  }

  static const char* TakePage(WordColumn* pages, uint64_t* address) {
    if (!pages->Take(address)) return kShortColumn;
    return *address % kPageBytes == 0 ? nullptr : kUnalignedPage;
  }

  const RecordLimits limits_;
  PageColumns pages_;
  LineColumns lines_;
  ReadColumns reads_;
  EffectColumns effects_;
  JumpColumns jumps_;
  WordColumn hashes_;
  capnp::List<uint64_t>::Reader end_registers_;
  capnp::Data::Reader gap_reason_;
  RunColumns runs_;
  WordColumn left_pages_;
  MemoryHashColumns memory_hashes_;
  MappedRangeColumns mapped_ranges_;
  UsedPageColumns used_pages_;
  WordColumn referenced_pages_;
};

bool IsKnown(uint8_t kind) {
  return kind <= static_cast<uint8_t>(RecordKind::kReferencedPage) ||
         (kind >= static_cast<uint8_t>(RecordKind::kOrderRun) &&
          kind <= static_cast<uint8_t>(RecordKind::kMemoryHash));
}

// Memory the record takes, about: what it points to in the block is not its own.
struct MemoryOf {
  uint64_t operator()(const PageImport& page) const {
    return page.shown.capacity() * sizeof(PageImport::Shown);
  }
  uint64_t operator()(const SideEffect& effect) const { return Patch(effect.registers); }
  uint64_t operator()(const Discontinuity& jump) const {
    return jump.siginfo.size() + Patch(jump.registers);
  }
  uint64_t operator()(const SegmentEnd& end) const {
    return end.registers.size() * sizeof(uint64_t);
  }
  uint64_t operator()(const Gap& gap) const { return gap.reason.size(); }
  template <typename Other>
  uint64_t operator()(const Other&) const {
    return 0;
  }
  static uint64_t Patch(const RegisterPatch& patch) {
    constexpr uint64_t kTwoBlocks = 64;  // of the heap, at least
    return patch.index.empty() ? 0 : kTwoBlocks + patch.index.size() * 10;
  }
};

// Collects what records take before the budget is asked.
class Account {
 public:
  explicit Account(ReadBudget* budget) : budget_(budget) {}
  bool Add(const Record& record) {
    open_ += sizeof(Record) + std::visit(MemoryOf(), record.body);
    return open_ < kBytesPerQuestion || Settle();
  }
  bool Settle() { return budget_->Take(std::exchange(open_, 0)); }

 private:
  ReadBudget* const budget_;
  uint64_t open_ = 0;
};

}  // namespace

absl::Status DecodeRecords(const std::string& path, const RawBlock& block,
                           const RecordLimits& limits, RecordCursor* cursor,
                           std::vector<Record>* out, DecodedLists* lists) {
  return VisitMessage<wire::RecordBlock>(path, block, [&](wire::RecordBlock::Reader message) {
    const auto error = [&](absl::StatusCode code, const std::string& what) {
      return BlockError(code, path, block.offset,
                        absl::StrCat("record ", cursor->record, ": ", what));
    };
    const capnp::Data::Reader kinds = message.getKinds();
    HalfColumn deltas(message.getCountDeltas());
    if (message.getFirstRecord() != cursor->record || message.getFirstCount() < cursor->count ||
        message.getFirstCount() >= kMaxCount) {
      return error(absl::StatusCode::kDataLoss, "the block does not continue the one before");
    }
    const auto too_large = [&] {
      return error(absl::StatusCode::kResourceExhausted, "more records than such a file can hold");
    };
    const uint64_t list_bytes = message.getOrderRuns().getCounts().size() +
                                uint64_t{message.getUsedPages().getPages().size()};
    if (!limits.budget->Take(list_bytes * sizeof(uint64_t))) return too_large();
    uint64_t before = cursor->count;
    cursor->count = message.getFirstCount();
    Account account(limits.budget);
    Decoder decoder(message, limits, lists);
    for (const uint8_t kind : kinds) {
      if (cursor->ended) return error(absl::StatusCode::kDataLoss, "after the segment's end");
      uint32_t delta = 0;
      if (!deltas.Take(&delta)) return error(absl::StatusCode::kDataLoss, kShortColumn);
      if (cursor->count + delta >= kMaxCount) {
        return error(absl::StatusCode::kDataLoss, "the count is too large");
      }
      if (!IsKnown(kind) && kind < kFirstIgnorableRecord) {
        return error(absl::StatusCode::kUnimplemented,
                     absl::StrCat("kind ", kind, " needs a newer version of Hindsight"));
      }
      if (IsKnown(kind)) {
        Record record;
        record.count = cursor->count + delta;
        const char* wrong =
            decoder.Take(static_cast<RecordKind>(kind), before, record.count, &record.body);
        if (wrong == kNoSuchModule) return error(absl::StatusCode::kUnavailable, wrong);
        if (wrong != nullptr) return error(absl::StatusCode::kDataLoss, wrong);
        if (const auto* run = std::get_if<OrderRun>(&record.body)) {
          cursor->ordered += run->counts.size();
        } else if (const auto* used = std::get_if<UsedPages>(&record.body)) {
          cursor->used += used->pages.size();
        }
        if (!account.Add(record)) return too_large();
        out->push_back(std::move(record));
      }
      cursor->count += delta;
      before = cursor->count;
      ++cursor->record;
      cursor->ended = kind == static_cast<uint8_t>(RecordKind::kSegmentEnd) ||
                      kind == static_cast<uint8_t>(RecordKind::kGap);
    }
    return account.Settle() ? absl::OkStatus() : too_large();
  });
}

}  // namespace hindsight

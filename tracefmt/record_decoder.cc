#include "tracefmt/record_decoder.h"

#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tracefmt/record_columns.h"
#include "tracefmt/storage/message.h"

namespace hindsight {
namespace {

// Hands out the elements of a column one after the other.
template <typename List>
class Column {
 public:
  explicit Column(List list) : list_(list) {}

  template <typename T>
  bool Take(T* out) {
    if (next_ >= list_.size()) return false;
    *out = list_[next_++];
    return true;
  }

 private:
  List list_;
  uint32_t next_ = 0;
};

// The same for bytes taken in runs, without copying.
class Bytes {
 public:
  explicit Bytes(capnp::Data::Reader data) : rest_(data.begin(), data.size()) {}

  bool Take(size_t size, absl::Span<const uint8_t>* out) {
    if (size > rest_.size()) return false;
    *out = rest_.first(size);
    rest_.remove_prefix(size);
    return true;
  }
  bool TakeVarint(uint64_t* out) {
    *out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      uint8_t byte = 0;
      if (!Take(&byte) || (shift == 63 && byte > 1)) return false;
      *out |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  size_t size() const { return rest_.size(); }
  bool Take(uint8_t* out) {
    absl::Span<const uint8_t> one;
    if (!Take(1, &one)) return false;
    *out = one[0];
    return true;
  }

 private:
  absl::Span<const uint8_t> rest_;
};

using Words = Column<capnp::List<uint64_t>::Reader>;
using Halves = Column<capnp::List<uint32_t>::Reader>;
using Quarters = Column<capnp::List<uint16_t>::Reader>;
using Integers = Column<capnp::List<int32_t>::Reader>;
using Blobs = Column<capnp::List<capnp::Data>::Reader>;

constexpr const char kShortColumn[] = "a column is too short";
constexpr const char kUnorderedCount[] = "a count of an ordered instruction is out of order";
constexpr const char kUnalignedPage[] = "a page address is not aligned";
constexpr const char kNoSuchModule[] = "a module that is not listed";
constexpr size_t kSiginfoBytes = 128;  // of a siginfo_t
// Asking the budget for every record would take longer than decoding it.
constexpr uint64_t kBytesPerQuestion = 64 << 10;

struct Patches {
  explicit Patches(wire::PatchColumns::Reader columns)
      : sizes(columns.getSizes()), indices(columns.getIndices()), values(columns.getValues()) {}

  // Returns what is wrong, or nullptr.
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

  Quarters sizes, indices;
  Words values;
};

class Decoder {
 public:
  Decoder(wire::RecordBlock::Reader block, const RecordLimits& limits, OrderedCounts* counts)
      : limits_(limits),
        page_addresses_(block.getPages().getAddresses()),
        page_masks_(block.getPages().getLineMasks()),
        page_module_offsets_(block.getPages().getModuleOffsets()),
        page_modules_(block.getPages().getModules()),
        page_flags_(block.getPages().getFlags()),
        page_bytes_(block.getPages().getBytes()),
        page_known_masks_(block.getPages().getKnownMasks()),
        line_addresses_(block.getLines().getAddresses()),
        line_flags_(block.getLines().getFlags()),
        line_bytes_(block.getLines().getBytes()),
        read_addresses_(block.getUncachedReads().getAddresses()),
        read_values_(block.getUncachedReads().getValues()),
        read_sizes_(block.getUncachedReads().getSizes()),
        effect_kinds_(block.getSideEffects().getKinds()),
        effect_sequences_(block.getSideEffects().getSequences()),
        effect_hashes_(block.getSideEffects().getRegisterHashes()),
        effect_flags_(block.getSideEffects().getFlags()),
        effect_patches_(block.getSideEffects().getPatches()),
        jump_kinds_(block.getDiscontinuities().getKinds()),
        jump_sequences_(block.getDiscontinuities().getSequences()),
        jump_hashes_(block.getDiscontinuities().getRegisterHashes()),
        jump_signals_(block.getDiscontinuities().getSignals()),
        jump_siginfos_(block.getDiscontinuities().getSiginfos()),
        jump_patches_(block.getDiscontinuities().getPatches()),
        hashes_(block.getRegisterHashes()),
        end_registers_(block.getEndRegisters()),
        gap_reason_(block.getGapReason()),
        run_sequences_(block.getOrderRuns().getFirstSequences()),
        run_sizes_(block.getOrderRuns().getSizes()),
        run_counts_(block.getOrderRuns().getCounts()),
        left_pages_(block.getLeftPages()),
        memory_addresses_(block.getMemoryHashes().getAddresses()),
        memory_sizes_(block.getMemoryHashes().getSizes()),
        memory_hashes_(block.getMemoryHashes().getHashes()) {
    // Every count takes a byte or more, so that bounds what a block can make us allocate.
    if (run_counts_.size() > 0) {
      counts->emplace_back(new uint64_t[run_counts_.size()]);
      ordered_ = absl::MakeSpan(counts->back().get(), run_counts_.size());
    }
  }

  // The record's body; it is at `count`, the record before at `before`. Returns what is wrong,
  // or nullptr.
  const char* Take(RecordKind kind, uint64_t before, uint64_t count, RecordBody* out) {
    switch (kind) {
      case RecordKind::kPageImport:
        return TakePage(&out->emplace<PageImport>());
      case RecordKind::kLineImport:
        return TakeLine(&out->emplace<LineImport>());
      case RecordKind::kUncachedRead:
        return TakeRead(&out->emplace<UncachedRead>());
      case RecordKind::kSideEffect:
        return TakeEffect(&out->emplace<SideEffect>());
      case RecordKind::kDiscontinuity:
        return TakeJump(&out->emplace<Discontinuity>());
      case RecordKind::kRegisterHash:
        return hashes_.Take(&out->emplace<RegisterHash>().hash) ? nullptr : kShortColumn;
      case RecordKind::kSegmentEnd:
        return TakeEnd(&out->emplace<SegmentEnd>());
      case RecordKind::kGap:
        out->emplace<Gap>().reason = AsString(gap_reason_);
        return nullptr;
      case RecordKind::kOrderRun:
        return TakeRun(before, count, &out->emplace<OrderRun>());
      case RecordKind::kPageLeft:
        return TakeLeft(&out->emplace<PageLeft>());
      case RecordKind::kMemoryHash:
        return TakeMemoryHash(&out->emplace<MemoryHash>());
    }
    return "unknown kind";
  }

 private:
  // Each returns what is wrong, or nullptr.
  const char* TakePage(PageImport* page) {
    uint8_t flags = 0;
    if (!page_addresses_.Take(&page->address) || !page_masks_.Take(&page->line_mask) ||
        !page_flags_.Take(&flags)) {
      return kShortColumn;
    }
    if (page->address % kPageBytes != 0) return kUnalignedPage;
    page->first = (flags & 1) != 0;
    if ((flags & 2) != 0) {
      if (!page_modules_.Take(&page->module) || !page_module_offsets_.Take(&page->module_offset)) {
        return kShortColumn;
      }
      if (page->module < 0 || static_cast<size_t>(page->module) >= limits_.module_count) {
        return kNoSuchModule;
      }
    }
    if ((flags & 4) != 0 && !page_known_masks_.Take(&page->known_mask)) return kShortColumn;
    if (!page_bytes_.Take(std::popcount(page->line_mask) * kLineBytes, &page->lines)) {
      return kShortColumn;
    }
    return nullptr;
  }

  const char* TakeLine(LineImport* line) {
    uint8_t flags = 0;
    if (!line_addresses_.Take(&line->address) || !line_flags_.Take(&flags) ||
        !line_bytes_.Take(kLineBytes, &line->bytes)) {
      return kShortColumn;
    }
    if (line->address % kLineBytes != 0) return "a line address is not aligned";
    line->code = (flags & 1) != 0;
    return nullptr;
  }

  const char* TakeRead(UncachedRead* read) {
    if (!read_addresses_.Take(&read->address) || !read_sizes_.Take(&read->size) ||
        !read_values_.Take(&read->value)) {
      return kShortColumn;
    }
    return read->size <= sizeof(read->value) ? nullptr : "an uncached read is too wide";
  }

  const char* TakeEffect(SideEffect* effect) {
    uint16_t kind = 0;
    uint8_t flags = 0;
    if (!effect_kinds_.Take(&kind) || !effect_sequences_.Take(&effect->sequence) ||
        !effect_hashes_.Take(&effect->register_hash) || !effect_flags_.Take(&flags)) {
      return kShortColumn;
    }
    effect->kind = static_cast<SideEffectKind>(kind);
    effect->retired = (flags & 1) == 0;
    return effect_patches_.Take(limits_.register_words, &effect->registers);
  }

  const char* TakeJump(Discontinuity* jump) {
    uint16_t kind = 0;
    capnp::Data::Reader siginfo;
    if (!jump_kinds_.Take(&kind) || !jump_sequences_.Take(&jump->sequence) ||
        !jump_hashes_.Take(&jump->register_hash) || !jump_signals_.Take(&jump->signal) ||
        !jump_siginfos_.Take(&siginfo)) {
      return kShortColumn;
    }
    if (siginfo.size() > kSiginfoBytes) return "a siginfo is too large";
    jump->kind = static_cast<DiscontinuityKind>(kind);
    jump->siginfo = AsString(siginfo);
    return jump_patches_.Take(limits_.register_words, &jump->registers);
  }

  const char* TakeEnd(SegmentEnd* end) {
    if (end_registers_.size() != limits_.register_words) {
      return "the register file at the end is not the size of that at the start";
    }
    end->registers = AsWords(end_registers_);
    return nullptr;
  }

  const char* TakeRun(uint64_t before, uint64_t count, OrderRun* run) {
    uint32_t size = 0;
    if (!run_sequences_.Take(&run->first_sequence) || !run_sizes_.Take(&size) ||
        size > ordered_.size()) {
      return kShortColumn;
    }
    if (size == 0 || run->first_sequence == 0 || run->first_sequence + size < size) {
      return "impossible order";
    }
    const absl::Span<uint64_t> counts = ordered_.first(size);
    ordered_.remove_prefix(size);
    uint64_t difference = 0;
    if (!run_counts_.TakeVarint(&difference)) return kShortColumn;
    if (difference == 0 || difference > count - before) return kUnorderedCount;
    counts[0] = count - difference;
    for (size_t i = 1; i < size; ++i) {
      if (!run_counts_.TakeVarint(&difference)) return kShortColumn;
      if (difference == 0 || difference >= count - counts[i - 1]) return kUnorderedCount;
      counts[i] = counts[i - 1] + difference;
    }
    run->counts = counts;
    return nullptr;
  }

  const char* TakeLeft(PageLeft* left) {
    if (!left_pages_.Take(&left->address)) return kShortColumn;
    return left->address % kPageBytes == 0 ? nullptr : kUnalignedPage;
  }

  const char* TakeMemoryHash(MemoryHash* memory) {
    if (!memory_addresses_.Take(&memory->address) || !memory_sizes_.Take(&memory->size_bytes) ||
        !memory_hashes_.Take(&memory->hash)) {
      return kShortColumn;
    }
    const bool fits = memory->address + memory->size_bytes >= memory->address;
    return fits ? nullptr : "hashed memory does not fit the address space";
  }

  const RecordLimits limits_;
  Words page_addresses_, page_masks_, page_module_offsets_;
  Integers page_modules_;
  Bytes page_flags_, page_bytes_;
  Words page_known_masks_;
  Words line_addresses_;
  Bytes line_flags_, line_bytes_;
  Words read_addresses_, read_values_;
  Bytes read_sizes_;
  Quarters effect_kinds_;
  Words effect_sequences_, effect_hashes_;
  Bytes effect_flags_;
  Patches effect_patches_;
  Quarters jump_kinds_;
  Words jump_sequences_, jump_hashes_;
  Integers jump_signals_;
  Blobs jump_siginfos_;
  Patches jump_patches_;
  Words hashes_;
  capnp::List<uint64_t>::Reader end_registers_;
  capnp::Data::Reader gap_reason_;
  Words run_sequences_;
  Halves run_sizes_;
  Bytes run_counts_;
  Words left_pages_;
  Words memory_addresses_, memory_sizes_, memory_hashes_;
  absl::Span<uint64_t> ordered_;  // not handed out yet
};

bool IsKnown(uint8_t kind) {
  return kind <= static_cast<uint8_t>(RecordKind::kGap) ||
         (kind >= static_cast<uint8_t>(RecordKind::kOrderRun) &&
          kind <= static_cast<uint8_t>(RecordKind::kMemoryHash));
}

// Memory the record takes, about: what it points to in the block is not its own.
struct MemoryOf {
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
                           std::vector<Record>* out, OrderedCounts* counts) {
  return VisitMessage<wire::RecordBlock>(path, block, [&](wire::RecordBlock::Reader message) {
    const auto error = [&](absl::StatusCode code, const std::string& what) {
      return BlockError(code, path, block.offset,
                        absl::StrCat("record ", cursor->record, ": ", what));
    };
    const capnp::Data::Reader kinds = message.getKinds();
    Halves deltas(message.getCountDeltas());
    if (message.getFirstRecord() != cursor->record || message.getFirstCount() < cursor->count ||
        message.getFirstCount() >= kMaxCount) {
      return error(absl::StatusCode::kDataLoss, "the block does not continue the one before");
    }
    const auto too_large = [&] {
      return error(absl::StatusCode::kResourceExhausted, "more records than such a file can hold");
    };
    if (!limits.budget->Take(message.getOrderRuns().getCounts().size() * sizeof(uint64_t))) {
      return too_large();
    }
    uint64_t before = cursor->count;
    cursor->count = message.getFirstCount();
    Account account(limits.budget);
    Decoder decoder(message, limits, counts);
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

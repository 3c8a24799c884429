#include "tracefmt/segment_file.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tracefmt/ranges/range_expansion.h"
#include "tracefmt/record_columns.h"
#include "tracefmt/record_decoder.h"
#include "tracefmt/storage/message.h"
#include "tracefmt/storage/read_budget.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {
namespace {

std::string SegmentName(int32_t thread, uint64_t number) {
  return absl::StrCat("threads/", thread, "/", number, ".seg");
}

struct Header {
  SegmentInfo info;
  RegisterWords registers;
  uint64_t next_offset = 0;
};

absl::StatusOr<Header> ReadHeader(const BlockFile& file, const std::string& uuid, int32_t thread,
                                  uint64_t number) {
  ASSIGN_OR_RETURN(const RawBlock block, file.Read(0));
  if (!block.Is(BlockKind::kSegmentHeader)) {
    return BlockError(absl::StatusCode::kInvalidArgument, file.path(), 0, "not a segment");
  }
  Header header;
  header.next_offset = block.next_offset;
  RETURN_IF_ERROR(VisitMessage<wire::SegmentHeader>(
      file.path(), block, [&](wire::SegmentHeader::Reader message) {
        if (AsString(message.getUuid()) != uuid) {
          return BlockError(absl::StatusCode::kDataLoss, file.path(), 0,
                            "belongs to another recording");
        }
        if (message.getThread() != thread || message.getNumber() != number) {
          return BlockError(absl::StatusCode::kDataLoss, file.path(), 0,
                            absl::StrCat("is segment ", message.getNumber(), " of thread ",
                                         message.getThread(), ": out of place"));
        }
        if (message.getFirstCount() >= kMaxCount) {
          return BlockError(absl::StatusCode::kDataLoss, file.path(), 0, "impossible count");
        }
        header.info.thread = thread;
        header.info.number = number;
        header.info.first_count = message.getFirstCount();
        header.info.first_sequence = message.getFirstSequence();
        if (message.getReference() > number) {
          return BlockError(absl::StatusCode::kDataLoss, file.path(), 0,
                            "refers to a segment that is not before it");
        }
        if (message.getReference() != 0) header.info.reference = message.getReference() - 1;
        header.registers = AsWords(message.getRegisters());
        return absl::OkStatus();
      }));
  header.info.file_bytes = file.size();
  header.info.path = file.path();
  return header;
}

// The records of a segment, as they are in its file.
class StoredRecords {
 public:
  StoredRecords(const SegmentContext& context, uint64_t first_count, size_t register_words)
      : module_count_(context.module_count), register_words_(register_words) {
    cursor_.count = first_count;
  }

  // Reads the blocks from `offset` on. Called once.
  absl::Status Read(const BlockFile& file, uint64_t offset) {
    uint64_t raw_bytes = 0;
    while (!file.AtEnd(offset)) {
      ASSIGN_OR_RETURN(RawBlock block, file.Read(offset));
      budget_.AddStored(block.next_offset - offset);
      offset = block.next_offset;
      const uint64_t block_bytes = block.word_count * sizeof(uint64_t);
      raw_bytes += block_bytes;
      if (raw_bytes > kMaxSegmentRawBytes || cursor_.record > kMaxSegmentRecords ||
          cursor_.ordered > kMaxSegmentOrderedCounts || cursor_.used > kMaxSegmentUsedPages) {
        return BlockError(absl::StatusCode::kResourceExhausted, file.path(), block.offset,
                          "the segment is too large");
      }
      if (block.kind >= kFirstIgnorableBlockKind) continue;
      if (!block.Is(BlockKind::kRecords)) {
        return BlockError(absl::StatusCode::kUnimplemented, file.path(), block.offset,
                          absl::StrCat("unknown kind of block ", block.kind));
      }
      if (!budget_.Take(block_bytes)) {
        return BlockError(absl::StatusCode::kResourceExhausted, file.path(), block.offset,
                          "holds more than such a file can");
      }
      blocks_.push_back(std::move(block));
      const RecordLimits limits = {module_count_, register_words_, &budget_};
      RETURN_IF_ERROR(
          DecodeRecords(file.path(), blocks_.back(), limits, &cursor_, &records_, &lists_));
    }
    if (cursor_.ended) return absl::OkStatus();
    return BlockError(absl::StatusCode::kOutOfRange, file.path(), offset, "the segment has no end");
  }

  uint64_t stored() const { return cursor_.record; }
  std::vector<Record>& records() { return records_; }
  const std::vector<Record>& records() const { return records_; }
  ReadBudget* budget() { return &budget_; }
  const ReadBudget* budget() const { return &budget_; }

 private:
  const size_t module_count_, register_words_;
  ReadBudget budget_{kSegmentBudgetBytes, kSegmentBudgetMultiple};
  std::vector<RawBlock> blocks_;  // what the spans in records_ point into
  DecodedLists lists_;            // likewise
  std::vector<Record> records_;
  RecordCursor cursor_;
};

class LoadedSegment final : public Segment {
 public:
  LoadedSegment(Header header, const SegmentContext& context)
      : context_(context),
        info_(std::move(header.info)),
        registers_(std::move(header.registers)),
        stored_(context, info_.first_count, registers_.size()),
        end_count_(info_.first_count) {}

  const SegmentInfo& info() const override { return info_; }
  const RegisterWords& registers() const override { return registers_; }
  std::optional<PageImport> ImportOfUnlisted(size_t applied, uint64_t page) const override {
    return unlisted_.ImportOf(applied, page);
  }
  const std::vector<Record>& records() const override { return stored_.records(); }
  uint64_t stored_records() const override { return stored_.stored(); }
  uint64_t end_count() const override { return end_count_; }
  const RegisterWords* end_registers() const override {
    if (records().empty()) return nullptr;
    const SegmentEnd* end = std::get_if<SegmentEnd>(&records().back().body);
    return end == nullptr ? nullptr : &end->registers;
  }
  const absl::Status& damage() const override { return damage_; }
  uint64_t memory_bytes() const override {
    return stored_.budget()->taken() + (reference_ == nullptr ? 0 : reference_->memory_bytes());
  }

  // Reads the blocks from `offset` on. Called once, before the segment is shared.
  void Load(const BlockFile& file, uint64_t offset) {
    info_.file_bytes = file.size();
    damage_ = stored_.Read(file, offset);
    if (damage_.code() == absl::StatusCode::kOutOfRange && context_.may_be_cut_short) {
      damage_ = absl::OkStatus();
    }
    if (HasReferences(stored_.records())) Resolve(file.path());
    const absl::Status expanded = ExpandRanges(stored_.budget(), &stored_.records());
    if (!expanded.ok()) {
      damage_ = absl::Status(expanded.code(), absl::StrCat(file.path(), ": ", expanded.message()));
    }
    unlisted_.Find(&stored_.records());
    FindEnd();
  }

 private:
  void Resolve(const std::string& path) {
    std::string why;
    if (!info_.reference.has_value()) {
      why = "it has none";
    } else if (auto reference = context_.load_reference(*info_.reference); reference.ok()) {
      reference_ = *std::move(reference);
      why = std::string(reference_->damage().message());
    } else {
      why = std::string(reference.status().message());
    }
    static const ReferencePages kNone;
    const absl::Status resolved =
        ResolveReferences(reference_ == nullptr ? kNone : reference_->pages(), &stored_.records());
    if (resolved.ok()) return;
    damage_ = absl::Status(resolved.code(), absl::StrCat(path, ": ", resolved.message(),
                                                         why.empty() ? "" : ": ", why));
  }

  void FindEnd() {
    for (auto record = records().rbegin(); record != records().rend(); ++record) {
      if (const auto* run = std::get_if<OrderRun>(&record->body)) {
        end_count_ = run->counts.back() + 1;
        return;
      }
      const bool transition = std::holds_alternative<SideEffect>(record->body) ||
                              std::holds_alternative<Discontinuity>(record->body);
      const bool state = std::holds_alternative<RegisterHash>(record->body) ||
                         std::holds_alternative<SegmentEnd>(record->body) ||
                         std::holds_alternative<Gap>(record->body);
      if (!transition && !state) continue;
      end_count_ = record->count + (transition ? 1 : 0);
      return;
    }
  }

  const SegmentContext context_;
  SegmentInfo info_;
  RegisterWords registers_;
  StoredRecords stored_;
  UnlistedPages unlisted_;
  std::shared_ptr<const ReferenceSegment> reference_;  // what the spans point into as well
  uint64_t end_count_;
  absl::Status damage_;
};

class LoadedReference final : public ReferenceSegment {
 public:
  LoadedReference(const Header& header, const SegmentContext& context, const BlockFile& file)
      : stored_(context, header.info.first_count, header.registers.size()),
        damage_(stored_.Read(file, header.next_offset)),
        pages_(stored_.records(), stored_.budget()) {}

  const ReferencePages& pages() const override { return pages_; }
  const absl::Status& damage() const override { return damage_; }
  uint64_t memory_bytes() const override { return stored_.budget()->taken(); }

 private:
  StoredRecords stored_;
  const absl::Status damage_;
  const ReferencePages pages_;
};

}  // namespace

absl::StatusOr<SegmentInfo> ReadSegmentInfo(const TraceDirectory& files, const std::string& uuid,
                                            int32_t thread, uint64_t number) {
  ASSIGN_OR_RETURN(const BlockFile file, BlockFile::Open(files, SegmentName(thread, number)));
  ASSIGN_OR_RETURN(Header header, ReadHeader(file, uuid, thread, number));
  return std::move(header.info);
}

absl::StatusOr<uint64_t> FindTornBlock(const TraceDirectory& files, const SegmentInfo& info) {
  ASSIGN_OR_RETURN(const BlockFile file,
                   BlockFile::Open(files, SegmentName(info.thread, info.number)));
  uint64_t offset = 0;
  while (!file.AtEnd(offset)) {
    const absl::StatusOr<BlockHeader> header = file.ReadHeader(offset);
    if (header.status().code() == absl::StatusCode::kOutOfRange) return offset;
    if (!header.ok()) break;
    offset += kBlockHeaderBytes + header->stored_bytes;
  }
  return absl::NotFoundError(file.path());
}

absl::StatusOr<std::shared_ptr<const Segment>> ReadSegment(const TraceDirectory& files,
                                                           const SegmentInfo& info,
                                                           const SegmentContext& context) {
  ASSIGN_OR_RETURN(const BlockFile file,
                   BlockFile::Open(files, SegmentName(info.thread, info.number)));
  ASSIGN_OR_RETURN(Header header, ReadHeader(file, context.uuid, info.thread, info.number));
  header.info.thinned = info.thinned;
  const uint64_t offset = header.next_offset;
  auto segment = std::make_shared<LoadedSegment>(std::move(header), context);
  segment->Load(file, offset);
  return segment;
}

absl::StatusOr<std::shared_ptr<const ReferenceSegment>> ReadReferenceSegment(
    const TraceDirectory& files, const SegmentInfo& info, const SegmentContext& context) {
  ASSIGN_OR_RETURN(const BlockFile file,
                   BlockFile::Open(files, SegmentName(info.thread, info.number)));
  ASSIGN_OR_RETURN(const Header header, ReadHeader(file, context.uuid, info.thread, info.number));
  return std::make_shared<const LoadedReference>(header, context, file);
}

}  // namespace hindsight

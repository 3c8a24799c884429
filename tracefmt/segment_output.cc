#include "tracefmt/segment_output.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tracefmt/storage/message.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {
namespace {

// Of a run or a list of used pages in one record.
constexpr size_t kMaxListed = 32 << 10;

// The state a segment is known to get to with `record`; `before` without it. See
// Segment::end_count.
uint64_t EndWith(const Record& record, uint64_t before) {
  if (const auto* run = std::get_if<OrderRun>(&record.body)) return run->counts.back() + 1;
  if (std::holds_alternative<SideEffect>(record.body) ||
      std::holds_alternative<Discontinuity>(record.body)) {
    return record.count + 1;
  }
  const bool state = std::holds_alternative<RegisterHash>(record.body) ||
                     std::holds_alternative<SegmentEnd>(record.body) ||
                     std::holds_alternative<Gap>(record.body);
  return state ? record.count : before;
}

bool IsValid(const MappedRange& range) {
  return range.address % kPageBytes == 0 && range.bytes != 0 && range.bytes % kPageBytes == 0 &&
         range.address + range.bytes >= range.address &&
         range.module_offset + range.bytes >= range.module_offset;
}

}  // namespace

absl::Status SegmentOutput::Begin(uint64_t number, uint64_t count, uint64_t sequence,
                                  const RegisterWords& registers) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (open_ || number != next_number_) {
    return absl::FailedPreconditionError(
        absl::StrCat("segment ", number, " of thread ", thread_, " cannot begin here"));
  }
  const std::string directory = absl::StrCat("threads/", thread_);
  if (number == 0 && history_ == nullptr) RETURN_IF_ERROR(directory_.MakeDirectory(directory));
  open_ = true;
  next_number_ = number + 1;
  totals_.end_count = count;
  records_ = 0;
  raw_bytes_ = 0;
  large_ = false;
  ordered_counts_ = 0;
  used_pages_ = 0;
  file_ = std::make_shared<std::unique_ptr<AppendFile>>();
  columns_ = std::make_unique<RecordColumns>(0, count);
  auto message = std::make_shared<capnp::MallocMessageBuilder>();
  auto header = message->initRoot<wire::SegmentHeader>();
  header.setUuid(AsData(uuid_));
  header.setThread(thread_);
  header.setNumber(number);
  header.setFirstCount(count);
  header.setFirstSequence(sequence);
  if (history_ == nullptr) {
    const std::optional<uint64_t> reference = references_.BeginSegment(number);
    if (reference.has_value()) header.setReference(*reference + 1);
  }
  FillList(header.initRegisters(registers.size()), registers);
  const std::string name = absl::StrCat(directory, "/", number, ".seg");
  return output_->queue()->Post([this, message, name, number, file = file_]() -> absl::Status {
    if (history_ != nullptr) RETURN_IF_ERROR(history_->BeginSegment(thread_, number));
    ASSIGN_OR_RETURN(*file, AppendFile::Create(directory_, name, output_->bytes_written()));
    RETURN_IF_ERROR(
        AppendMessage(file->get(), BlockKind::kSegmentHeader, output_->encoder(), *message));
    if (history_ != nullptr) history_->AddRecords(thread_, 0, (*file)->size());
    return absl::OkStatus();
  });
}

absl::Status SegmentOutput::Append(const Record& record) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!open_) {
    return absl::FailedPreconditionError(absl::StrCat("thread ", thread_, " has no open segment"));
  }
  if (record.count < columns_->last_count()) {
    return absl::InvalidArgumentError(absl::StrCat("count ", record.count, " of thread ", thread_,
                                                   " is less than that of the record before"));
  }
  if (std::holds_alternative<OrderRun>(record.body)) return AppendRun(record);
  if (std::holds_alternative<UsedPages>(record.body)) return AppendUsed(record);
  const auto* range = std::get_if<MappedRange>(&record.body);
  if (range != nullptr && !IsValid(*range)) {
    return absl::InvalidArgumentError("a mapped range is not of whole pages, or too large");
  }
  const auto* page = std::get_if<PageImport>(&record.body);
  if (page != nullptr && history_ == nullptr && references_.Refers(*page)) {
    return AppendRecord({record.count, ReferencedPage{page->address}});
  }
  return AppendRecord(record);
}

// A long run becomes several records, so that blocks keep their size.
absl::Status SegmentOutput::AppendRun(const Record& record) {
  const OrderRun& run = std::get<OrderRun>(record.body);
  uint64_t next = columns_->last_count();
  for (const uint64_t count : run.counts) {
    if (count < next || count >= record.count) {
      return absl::InvalidArgumentError(
          absl::StrCat("count ", count, " of an ordered instruction is out of order"));
    }
    next = count + 1;
  }
  if (!run.counts.empty()) {
    last_instruction_ = {run.first_sequence + run.counts.size() - 1, run.counts.back() + 1};
  }
  for (size_t done = 0; done < run.counts.size(); done += kMaxListed) {
    const OrderRun part = {run.first_sequence + done, run.counts.subspan(done, kMaxListed)};
    const bool last = done + part.counts.size() == run.counts.size();
    RETURN_IF_ERROR(AppendRecord({last ? record.count : part.counts.back() + 1, part}));
  }
  return absl::OkStatus();
}

// Long lists likewise.
absl::Status SegmentOutput::AppendUsed(const Record& record) {
  const UsedPages& used = std::get<UsedPages>(record.body);
  for (size_t i = 0; i < used.pages.size(); ++i) {
    if (used.pages[i] % kPageBytes != 0 || (i > 0 && used.pages[i] <= used.pages[i - 1])) {
      return absl::InvalidArgumentError("used pages are not pages in ascending order");
    }
  }
  size_t done = 0;
  do {
    const auto part = used.pages.subspan(done, kMaxListed);
    done += part.size();
    const bool last = done == used.pages.size();
    RETURN_IF_ERROR(AppendRecord({record.count, UsedPages{last && used.complete, part}}));
  } while (done < used.pages.size());
  return absl::OkStatus();
}

absl::Status SegmentOutput::AppendRecord(const Record& record) {
  if (!columns_->Fits(record.count)) {
    // A new block has a new base that differences are taken from.
    RETURN_IF_ERROR(PostRecords());
    columns_ = std::make_unique<RecordColumns>(records_, record.count);
  }
  columns_->Add(record);
  ++totals_.records;
  totals_.end_count = EndWith(record, totals_.end_count);
  const bool ends =
      std::holds_alternative<SegmentEnd>(record.body) || std::holds_alternative<Gap>(record.body);
  if (!ends && columns_->raw_bytes() < kBlockBytes) return absl::OkStatus();
  RETURN_IF_ERROR(PostRecords());
  if (ends) {
    open_ = false;
    file_.reset();
    columns_.reset();
  }
  return absl::OkStatus();
}

absl::Status SegmentOutput::PostRecords() {
  if (columns_->empty()) return absl::OkStatus();
  // Events first: without its slices a reader could not order a state among those of other
  // threads.
  RETURN_IF_ERROR(post_events_());
  records_ += columns_->size();
  raw_bytes_ += columns_->raw_bytes();
  ordered_counts_ += columns_->ordered_counts();
  used_pages_ += columns_->used_pages();
  if (records_ > kMaxSegmentRecords || raw_bytes_ > kMaxSegmentRawBytes / 2 ||
      ordered_counts_ > kMaxSegmentOrderedCounts || used_pages_ > kMaxSegmentUsedPages) {
    return absl::ResourceExhaustedError("the segment is too large");
  }
  large_ = records_ > kMaxSegmentRecords / 2 || raw_bytes_ > kMaxSegmentRawBytes / 4 ||
           ordered_counts_ > kMaxSegmentOrderedCounts / 2 || used_pages_ > kMaxSegmentUsedPages / 2;
  std::shared_ptr<RecordColumns> columns = std::move(columns_);
  columns_ = std::make_unique<RecordColumns>(records_, columns->last_count());
  auto block = std::make_shared<std::vector<uint8_t>>();
  return output_->queue()->Post(
      [this, columns, block](size_t thread) -> absl::Status {
        capnp::MallocMessageBuilder message(columns->raw_bytes() / sizeof(capnp::word) + 256);
        columns->Build(message.initRoot<wire::RecordBlock>());
        ASSIGN_OR_RETURN(*block,
                         CompressMessage(BlockKind::kRecords, output_->encoder(thread), message));
        return absl::OkStatus();
      },
      [this, block, records = columns->size(), file = file_] {
        if (history_ != nullptr) history_->AddRecords(thread_, records, block->size());
        return (*file)->Append(std::move(*block));
      });
}

absl::Status SegmentOutput::Post() {
  std::lock_guard<std::mutex> lock(mutex_);
  return open_ ? PostRecords() : absl::OkStatus();
}

ThreadTotals SegmentOutput::totals() const {
  std::lock_guard<std::mutex> lock(mutex_);
  ThreadTotals totals = totals_;
  totals.thread = thread_;
  totals.segments = next_number_;
  return totals;
}

OrderedPoint SegmentOutput::last_instruction() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return last_instruction_;
}

bool SegmentOutput::closed() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return closed_;
}

void SegmentOutput::Reopen() {
  std::lock_guard<std::mutex> lock(mutex_);
  closed_ = false;
}

// Number and totals stay: an exec gives the process's first thread, which may have ended, a new
// life.
void SegmentOutput::Close() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (open_) PostRecords().IgnoreError();  // sticky: the next call returns it
  open_ = false;
  closed_ = true;
  file_.reset();
  columns_.reset();
}

}  // namespace hindsight

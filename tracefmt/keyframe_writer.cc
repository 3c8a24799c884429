#include "tracefmt/keyframe_writer.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tracefmt/event_codec.h"
#include "tracefmt/kernel_state_codec.h"
#include "tracefmt/storage/message.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {
namespace {

// In a page table that is kept: where the page's bytes are may not be said again.
constexpr uint8_t kForgotten = 0xff;

absl::Status AppendEnd(uint64_t page_count, uint64_t stored_pages, BlockEncoder* encoder,
                       AppendFile* file) {
  capnp::MallocMessageBuilder message;
  auto end = message.initRoot<wire::KeyframeEnd>();
  end.setPageCount(page_count);
  end.setStoredPages(stored_pages);
  return AppendMessage(file, BlockKind::kKeyframeEnd, encoder, message);
}

}  // namespace

absl::StatusOr<uint64_t> WriteKeyframeHead(const OutputDirectory& full, uint64_t number,
                                           BlockEncoder* encoder,
                                           std::atomic<uint64_t>* bytes_written) {
  const std::string name = absl::StrCat(number, ".head"), next = name + ".tmp";
  ASSIGN_OR_RETURN(const auto file, AppendFile::Create(full, next, bytes_written));
  RETURN_IF_ERROR(file->AppendFirstOf(absl::StrCat(number)));
  RETURN_IF_ERROR(AppendEnd(0, 0, encoder, file.get()));
  RETURN_IF_ERROR(full.Rename(next, name));
  return file->size();
}

KeyframeWriter::Open::~Open() {
  if (file != nullptr && !finished) directory.Remove(next);
}

absl::Status KeyframeWriter::Begin(uint64_t number, uint64_t sequence,
                                   const std::vector<TraceWriter::ThreadState>& threads,
                                   const std::vector<MapRegion>& maps,
                                   absl::Span<const uint64_t> auxv) {
  if (open_ != nullptr || number != last_number_ + 1 || number > UINT32_MAX) {
    return absl::FailedPreconditionError(
        absl::StrCat("full keyframe ", number, " cannot begin here"));
  }
  auto message = std::make_shared<capnp::MallocMessageBuilder>();
  auto header = message->initRoot<wire::KeyframeHeader>();
  header.setUuid(AsData(uuid_));
  header.setNumber(number);
  header.setSequence(sequence);
  auto states = header.initThreads(threads.size());
  for (size_t i = 0; i < threads.size(); ++i) {
    auto state = states[static_cast<uint32_t>(i)];
    state.setThread(threads[i].thread);
    state.setCount(threads[i].count);
    state.setSegment(threads[i].segment);
    FillList(state.initRegisters(threads[i].registers.size()), threads[i].registers);
  }
  BuildMaps(maps, header.initMaps(maps.size()));
  FillList(header.initAuxv(auxv.size()), auxv);

  open_ = std::make_shared<Open>(directory_, number);
  group_.clear();
  stored_pages_ = 0;
  table_ = Table();
  last_place_ = 0;
  return queue_->Post([this, message, open = open_]() -> absl::Status {
    if (ring_->on()) RETURN_IF_ERROR(ring_->MakeRoom());
    ASSIGN_OR_RETURN(open->file, AppendFile::Create(open->directory, open->next, bytes_written_));
    return AppendMessage(open->file.get(), BlockKind::kKeyframeHeader, encoder_, *message);
  });
}

absl::Status KeyframeWriter::AddPage(uint64_t address, absl::Span<const uint8_t> bytes) {
  if (bytes.size() != kPageBytes) return absl::InvalidArgumentError("not a page");
  if (open_ == nullptr) return absl::FailedPreconditionError("no full keyframe was begun");
  if (IsZeroPage(bytes)) return AddReference(address, PageSource());
  const PageIndex::Hash hash = PageIndex::HashOf(bytes);
  if (const PageSource* known = pages_->Find(hash)) return AddReference(address, *known);
  const PageSource source = {PageSourceKind::kStored, static_cast<uint32_t>(open_->number),
                             stored_pages_};
  RETURN_IF_ERROR(AddReference(address, source));
  pages_->Add(hash, source);
  group_.insert(group_.end(), bytes.begin(), bytes.end());
  ++stored_pages_;
  return group_.size() < kPagesPerGroup * kPageBytes ? absl::OkStatus() : PostGroup();
}

absl::Status KeyframeWriter::AddReference(uint64_t address, const PageSource& source) {
  if (open_ == nullptr) return absl::FailedPreconditionError("no full keyframe was begun");
  if (address % kPageBytes != 0 ||
      (!table_.addresses.empty() && address <= table_.addresses.back())) {
    return absl::InvalidArgumentError(absl::StrCat("page ", address, " is out of order"));
  }
  table_.addresses.push_back(address);
  table_.sources.push_back(static_cast<uint8_t>(source.kind));
  table_.owners.push_back(source.owner);
  table_.positions.push_back(source.position);
  return absl::OkStatus();
}

// A page that equals a module's is told from it by its bytes only.
void KeyframeWriter::ForgetModules(absl::Span<const int32_t> modules) {
  const absl::flat_hash_set<uint32_t> gone(modules.begin(), modules.end());
  for (size_t i = 0; i < last_table_.addresses.size(); ++i) {
    const bool of_module = last_table_.sources[i] == static_cast<uint8_t>(PageSourceKind::kModule);
    if (of_module && gone.contains(last_table_.owners[i])) last_table_.sources[i] = kForgotten;
  }
}

bool KeyframeWriter::HadPage(uint64_t address) {
  const std::vector<uint64_t>& had = last_table_.addresses;
  // Mostly the next one.
  while (last_place_ < had.size() && had[last_place_] < address) ++last_place_;
  return last_place_ < had.size() && had[last_place_] == address &&
         last_table_.sources[last_place_] != kForgotten;
}

absl::Status KeyframeWriter::AddUnchangedPage(uint64_t address) {
  if (!HadPage(address))
    return absl::FailedPreconditionError("the keyframe before has no such page");
  return AddReference(address,
                      {static_cast<PageSourceKind>(last_table_.sources[last_place_]),
                       last_table_.owners[last_place_], last_table_.positions[last_place_]});
}

absl::Status KeyframeWriter::PostGroup() {
  auto bytes = std::make_shared<std::vector<uint8_t>>(std::exchange(group_, {}));
  group_.reserve(kPagesPerGroup * kPageBytes);
  return queue_->Post([this, bytes, open = open_] {
    capnp::MallocMessageBuilder message(bytes->size() / sizeof(capnp::word) + 16);
    message.initRoot<wire::PageGroup>().setBytes(capnp::Data::Reader(bytes->data(), bytes->size()));
    return AppendMessage(open->file.get(), BlockKind::kPageGroup, encoder_, message);
  });
}

absl::Status KeyframeWriter::PostTables() {
  for (size_t begin = 0; begin < table_.addresses.size(); begin += kPagesPerTable) {
    const size_t size = std::min<size_t>(kPagesPerTable, table_.addresses.size() - begin);
    auto message = std::make_shared<capnp::MallocMessageBuilder>(3 * size + 64);
    auto part = message->initRoot<wire::PageTable>();
    const auto slice = [&](const auto& column) {
      return absl::MakeConstSpan(column).subspan(begin, size);
    };
    FillList(part.initAddresses(size), slice(table_.addresses));
    part.setSources(capnp::Data::Reader(table_.sources.data() + begin, size));
    FillList(part.initOwners(size), slice(table_.owners));
    FillList(part.initPositions(size), slice(table_.positions));
    RETURN_IF_ERROR(queue_->Post([this, message, open = open_] {
      return AppendMessage(open->file.get(), BlockKind::kPageTable, encoder_, *message);
    }));
  }
  return absl::OkStatus();
}

absl::Status KeyframeWriter::DeclareComplete(
    const std::vector<std::pair<uint64_t, uint64_t>>& unseen) {
  if (open_ == nullptr) return absl::FailedPreconditionError("no full keyframe was begun");
  auto message = std::make_shared<capnp::MallocMessageBuilder>();
  auto ranges = message->initRoot<wire::KeyframeExtent>().initUnseen(2 * unseen.size());
  for (size_t i = 0; i < unseen.size(); ++i) {
    ranges.set(static_cast<uint32_t>(2 * i), unseen[i].first);
    ranges.set(static_cast<uint32_t>(2 * i + 1), unseen[i].second);
  }
  return queue_->Post([this, message, open = open_] {
    return AppendMessage(open->file.get(), BlockKind::kKeyframeExtent, encoder_, *message);
  });
}

absl::Status KeyframeWriter::AddKernelState(const KernelState& state) {
  if (open_ == nullptr) return absl::FailedPreconditionError("no full keyframe was begun");
  auto message = std::make_shared<capnp::MallocMessageBuilder>();
  BuildKernelState(state, message->initRoot<wire::KernelState>());
  return queue_->Post([this, message, open = open_] {
    return AppendMessage(open->file.get(), BlockKind::kKernelState, encoder_, *message);
  });
}

absl::Status KeyframeWriter::Finish() {
  if (open_ == nullptr) return absl::FailedPreconditionError("no full keyframe was begun");
  if (!group_.empty()) RETURN_IF_ERROR(PostGroup());
  RETURN_IF_ERROR(PostTables());
  const uint64_t page_count = table_.addresses.size();
  const uint64_t stored_pages = stored_pages_;
  last_number_ = open_->number;
  last_table_ = keeps_table_ ? std::exchange(table_, {}) : Table();
  const bool self_contained = std::exchange(self_contained_, false);
  return queue_->Post(
      [this, page_count, stored_pages, self_contained, open = std::exchange(open_, nullptr)] {
        RETURN_IF_ERROR(AppendEnd(page_count, stored_pages, encoder_, open->file.get()));
        RETURN_IF_ERROR(open->directory.Rename(open->next, open->name));
        open->finished = true;
        last_bytes_ = open->file->size();
        ring_->NoteKeyframe(last_bytes_, self_contained);
        return absl::OkStatus();
      });
}

}  // namespace hindsight

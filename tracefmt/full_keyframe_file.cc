#include "tracefmt/full_keyframe_file.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tracefmt/event_codec.h"
#include "tracefmt/keyframe_writer.h"
#include "tracefmt/message.h"
#include "tracefmt/page_index.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {
namespace {

constexpr size_t kCachedGroups = 64;  // 4 MiB

std::string KeyframeName(uint64_t number) { return absl::StrCat("full/", number); }

class FullKeyframeFile final : public FullKeyframe {
 public:
  FullKeyframeFile(BlockFile file, uint64_t number, const PageGroups* groups,
                   const ModuleFiles* modules)
      : file_(std::move(file)), number_(number), groups_(groups), modules_(modules) {}

  // Reads the header and finds the other blocks. Called once, before the keyframe is shared.
  absl::Status Open(const std::string& uuid, std::vector<uint64_t>* group_offsets);

  uint64_t number() const override { return number_; }
  uint64_t sequence() const override { return sequence_; }
  const std::vector<ThreadState>& threads() const override { return threads_; }
  const std::vector<MapRegion>& maps() const override { return maps_; }
  const std::vector<uint64_t>& auxv() const override { return auxv_; }
  uint64_t page_count() const override { return page_count_; }
  uint64_t file_bytes() const override { return file_.size(); }
  absl::Span<const uint64_t> page_addresses() const override { return table().addresses; }
  absl::Status CheckFile() const override;
  absl::Status ReadPage(uint64_t address, absl::Span<uint8_t> out) const override;

 private:
  struct Table {
    std::vector<uint64_t> addresses;
    std::vector<PageSource> sources;
    absl::Status damage;  // pages behind the last address may be missing
  };

  absl::Status ReadHeader(const RawBlock& block, const std::string& uuid);
  absl::Status ReadEnd(uint64_t offset, uint64_t group_count);
  absl::Status ReadTablePart(uint64_t offset, Table* table) const;
  const Table& table() const;

  const BlockFile file_;
  const uint64_t number_;
  const PageGroups* groups_;
  const ModuleFiles* modules_;
  uint64_t sequence_ = 0;
  uint64_t page_count_ = 0;
  std::vector<ThreadState> threads_;
  std::vector<MapRegion> maps_;
  std::vector<uint64_t> auxv_;
  std::vector<uint64_t> table_offsets_;
  mutable std::once_flag table_read_;
  mutable Table table_;
};

absl::Status FullKeyframeFile::Open(const std::string& uuid, std::vector<uint64_t>* group_offsets) {
  ASSIGN_OR_RETURN(const RawBlock header, file_.Read(0));
  RETURN_IF_ERROR(ReadHeader(header, uuid));
  uint64_t offset = header.next_offset;
  while (!file_.AtEnd(offset)) {
    ASSIGN_OR_RETURN(const BlockHeader block, file_.ReadHeader(offset));
    switch (static_cast<BlockKind>(block.kind)) {
      case BlockKind::kPageGroup:
        group_offsets->push_back(offset);
        break;
      case BlockKind::kPageTable:
        table_offsets_.push_back(offset);
        break;
      case BlockKind::kKeyframeEnd:
        return ReadEnd(offset, group_offsets->size());
      default:
        if (block.kind >= kFirstIgnorableBlockKind) break;
        return BlockError(absl::StatusCode::kUnimplemented, file_.path(), offset,
                          absl::StrCat("unknown kind of block ", block.kind));
    }
    offset += kBlockHeaderBytes + block.stored_bytes;
  }
  // Only finished keyframes get their name, so this is no matter of a recorder that died.
  return BlockError(absl::StatusCode::kDataLoss, file_.path(), offset, "the keyframe has no end");
}

absl::Status FullKeyframeFile::ReadHeader(const RawBlock& block, const std::string& uuid) {
  if (!block.Is(BlockKind::kKeyframeHeader)) {
    return BlockError(absl::StatusCode::kInvalidArgument, file_.path(), 0, "not a full keyframe");
  }
  return VisitMessage<wire::KeyframeHeader>(
      file_.path(), block, [&](wire::KeyframeHeader::Reader header) {
        if (AsString(header.getUuid()) != uuid) {
          return BlockError(absl::StatusCode::kDataLoss, file_.path(), 0,
                            "belongs to another recording");
        }
        if (header.getNumber() != number_) {
          return BlockError(
              absl::StatusCode::kDataLoss, file_.path(), 0,
              absl::StrCat("is full keyframe ", header.getNumber(), ": out of place"));
        }
        sequence_ = header.getSequence();
        for (const auto from : header.getThreads()) {
          ThreadState& to = threads_.emplace_back();
          to.thread = from.getThread();
          to.count = from.getCount();
          to.segment = from.getSegment();
          to.registers = AsWords(from.getRegisters());
        }
        maps_ = ReadMaps(header.getMaps());
        auxv_ = AsWords(header.getAuxv());
        return absl::OkStatus();
      });
}

absl::Status FullKeyframeFile::ReadEnd(uint64_t offset, uint64_t group_count) {
  ASSIGN_OR_RETURN(const RawBlock block, file_.Read(offset));
  return VisitMessage<wire::KeyframeEnd>(file_.path(), block, [&](wire::KeyframeEnd::Reader end) {
    page_count_ = end.getPageCount();
    const uint64_t groups = end.getStoredPages() / kPagesPerGroup +
                            (end.getStoredPages() % kPagesPerGroup != 0 ? 1 : 0);
    if (groups == group_count) return absl::OkStatus();
    return BlockError(absl::StatusCode::kDataLoss, file_.path(), offset,
                      absl::StrCat("has ", group_count, " groups of pages instead of ", groups));
  });
}

absl::Status FullKeyframeFile::ReadTablePart(uint64_t offset, Table* table) const {
  ASSIGN_OR_RETURN(const RawBlock block, file_.Read(offset));
  return VisitMessage<wire::PageTable>(file_.path(), block, [&](wire::PageTable::Reader part) {
    const auto addresses = part.getAddresses();
    const auto sources = part.getSources();
    const auto owners = part.getOwners();
    const auto positions = part.getPositions();
    const auto error = [&](const char* what) {
      return BlockError(absl::StatusCode::kDataLoss, file_.path(), offset, what);
    };
    if (sources.size() != addresses.size() || owners.size() != addresses.size() ||
        positions.size() != addresses.size()) {
      return error("a column is too short");
    }
    for (uint32_t i = 0; i < addresses.size(); ++i) {
      const uint64_t address = addresses[i];
      if (address % kPageBytes != 0 ||
          (!table->addresses.empty() && address <= table->addresses.back())) {
        return error("a page address is out of order");
      }
      if (sources[i] > static_cast<uint8_t>(PageSourceKind::kModule)) {
        return error("unknown source of a page");
      }
      table->addresses.push_back(address);
      table->sources.push_back({static_cast<PageSourceKind>(sources[i]), owners[i], positions[i]});
    }
    return absl::OkStatus();
  });
}

const FullKeyframeFile::Table& FullKeyframeFile::table() const {
  std::call_once(table_read_, [this] {
    for (const uint64_t offset : table_offsets_) {
      table_.damage = ReadTablePart(offset, &table_);
      if (!table_.damage.ok()) return;
    }
    if (table_.addresses.size() != page_count_) {
      table_.damage = BlockError(
          absl::StatusCode::kDataLoss, file_.path(), file_.size(),
          absl::StrCat("has ", table_.addresses.size(), " pages instead of ", page_count_));
    }
  });
  return table_;
}

absl::Status FullKeyframeFile::CheckFile() const {
  for (uint64_t offset = 0; !file_.AtEnd(offset);) {
    ASSIGN_OR_RETURN(const RawBlock block, file_.Read(offset));
    offset = block.next_offset;
  }
  return table().damage;
}

absl::Status FullKeyframeFile::ReadPage(uint64_t address, absl::Span<uint8_t> out) const {
  if (out.size() != kPageBytes) return absl::InvalidArgumentError("not a page");
  const Table& pages = table();
  const auto found = std::lower_bound(pages.addresses.begin(), pages.addresses.end(), address);
  if (found == pages.addresses.end() || *found != address) {
    if (found == pages.addresses.end()) RETURN_IF_ERROR(pages.damage);
    return absl::NotFoundError(absl::StrCat(file_.path(), ": no page ", absl::Hex(address)));
  }
  const PageSource& source = pages.sources[found - pages.addresses.begin()];
  switch (source.kind) {
    case PageSourceKind::kZero:
      std::fill(out.begin(), out.end(), uint8_t{0});
      return absl::OkStatus();
    case PageSourceKind::kStored:
      return groups_->Read(source.owner, source.position, out);
    case PageSourceKind::kModule:
      // A module there is none of must not look like a page the keyframe does not hold.
      if (source.owner >= modules_->modules().size()) {
        return absl::DataLossError(absl::StrCat(file_.path(), ": page ", absl::Hex(address),
                                                " is of a module not listed"));
      }
      return modules_->Read(static_cast<int32_t>(source.owner), source.position, out);
  }
  return absl::InternalError("unreachable");
}

}  // namespace

absl::Status PageGroups::Read(uint64_t number, uint64_t position, absl::Span<uint8_t> out) const {
  const auto found = files_.find(number);
  if (found == files_.end() || position / kPagesPerGroup >= found->second.group_offsets.size()) {
    return absl::DataLossError(
        absl::StrCat("page ", position, " of full keyframe ", number, " is not in the trace"));
  }
  const Key key = {number, position / kPagesPerGroup};
  ASSIGN_OR_RETURN(const std::shared_ptr<const Group> group, Find(found->second, key));
  const uint64_t begin = position % kPagesPerGroup * kPageBytes;
  if (group->bytes.size() < begin + kPageBytes) {
    return BlockError(absl::StatusCode::kDataLoss, found->second.files.PathOf(KeyframeName(number)),
                      group->block.offset, "a group of pages is too short");
  }
  std::memcpy(out.data(), group->bytes.data() + begin, kPageBytes);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const PageGroups::Group>> PageGroups::Find(const File& file,
                                                                          Key key) const {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto cached = cache_.begin(); cached != cache_.end(); ++cached) {
      if (cached->first != key) continue;
      cache_.splice(cache_.begin(), cache_, cached);
      return cached->second;
    }
  }
  // Decoded outside the lock: two threads may do so for the same group, which does no harm.
  ASSIGN_OR_RETURN(const BlockFile blocks, BlockFile::Open(file.files, KeyframeName(key.first)));
  auto group = std::make_shared<Group>();
  ASSIGN_OR_RETURN(group->block, blocks.Read(file.group_offsets[key.second]));
  RETURN_IF_ERROR(VisitMessage<wire::PageGroup>(
      blocks.path(), group->block, [&](wire::PageGroup::Reader message) {
        const auto bytes = message.getBytes();
        group->bytes = absl::MakeConstSpan(bytes.begin(), bytes.size());
        return absl::OkStatus();
      }));
  std::lock_guard<std::mutex> lock(mutex_);
  cache_.emplace_front(key, group);
  if (cache_.size() > kCachedGroups) cache_.pop_back();
  return std::shared_ptr<const Group>(std::move(group));
}

absl::StatusOr<std::shared_ptr<const FullKeyframe>> OpenFullKeyframe(const TraceDirectory& files,
                                                                     const std::string& uuid,
                                                                     uint64_t number,
                                                                     PageGroups* groups,
                                                                     const ModuleFiles* modules) {
  ASSIGN_OR_RETURN(BlockFile file, BlockFile::Open(files, KeyframeName(number)));
  auto keyframe = std::make_shared<FullKeyframeFile>(std::move(file), number, groups, modules);
  std::vector<uint64_t> group_offsets;
  RETURN_IF_ERROR(keyframe->Open(uuid, &group_offsets));
  groups->AddFile(number, files, std::move(group_offsets));
  return std::shared_ptr<const FullKeyframe>(std::move(keyframe));
}

}  // namespace hindsight

#include "tracefmt/full_keyframe_file.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tracefmt/event_codec.h"
#include "tracefmt/kernel_state_codec.h"
#include "tracefmt/keyframe_writer.h"
#include "tracefmt/storage/message.h"
#include "tracefmt/storage/page_index.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {
namespace {

constexpr size_t kCachedGroups = 64;  // 4 MiB
// Of a message with 16 pages: what it has besides is 3 words long.
constexpr uint32_t kMaxGroupRawBytes = kPagesPerGroup * kPageBytes + 1024;
constexpr uint64_t kThreadStateWords = 4;  // what one took in version 1

absl::Status TooLarge(const std::string& path, uint64_t offset) {
  return BlockError(absl::StatusCode::kResourceExhausted, path, offset,
                    "holds more than such a file can");
}

std::string KeyframeName(uint64_t number) { return absl::StrCat("full/", number); }

// The blocks of one file. Most of its methods are those of FullKeyframe.
class FullKeyframeFile final : public FullKeyframe {
 public:
  FullKeyframeFile(TraceDirectory files, const std::string& name, uint64_t number,
                   const PageGroups* groups, const ModuleFiles* modules, ReadBudget* budget)
      : files_(std::move(files)),
        name_("full/" + name),
        path_(files_.PathOf(name_)),
        number_(number),
        groups_(groups),
        modules_(modules),
        budget_(budget) {}

  // Reads the header and finds the other blocks. Called once, before the keyframe is shared.
  absl::Status Open(const std::string& uuid, std::vector<uint64_t>* group_offsets);

  uint64_t number() const override { return number_; }
  uint64_t sequence() const override { return header_.sequence; }
  const std::vector<ThreadState>& threads() const override { return header_.threads; }
  const std::vector<MapRegion>& maps() const override { return header_.maps; }
  const std::vector<uint64_t>& auxv() const override { return header_.auxv; }
  const KernelState* kernel_state() const override {
    return kernel_state_.has_value() ? &*kernel_state_ : nullptr;
  }
  uint64_t page_count() const override { return page_count_; }
  uint64_t file_bytes() const override { return file_bytes_; }
  absl::Span<const uint64_t> page_addresses() const override { return table().addresses; }
  absl::Status CheckFile() const override;
  bool SawAllAt(uint64_t address) const override;
  absl::Status ReadPage(uint64_t address, absl::Span<uint8_t> out) const override;

 private:
  struct Table {
    std::vector<uint64_t> addresses;
    std::vector<PageSource> sources;
    absl::Status damage;  // pages after the last address may be missing
  };
  struct Header {
    uint64_t sequence = 0;
    std::vector<ThreadState> threads;
    std::vector<MapRegion> maps;
    std::vector<uint64_t> auxv;
  };
  // Of what private memory the keyframe has all pages.
  struct Extent {
    bool known = false;            // else of none
    std::vector<uint64_t> unseen;  // but for these: first and end address of ranges
  };

  // Not kept open: a trace may have more keyframes than a process may have files open.
  absl::StatusOr<BlockFile> OpenFile() const { return BlockFile::Open(files_, name_); }
  absl::Status ReadHeader(const RawBlock& block, const std::string& uuid);
  absl::Status ReadThreads(const RawBlock& block, capnp::List<wire::ThreadState>::Reader threads);
  absl::Status ReadExtent(const BlockFile& file, uint64_t offset);
  absl::Status ReadProcess(const BlockFile& file, uint64_t offset);
  absl::Status ReadEnd(const BlockFile& file, uint64_t offset, uint64_t group_count);
  absl::Status ReadTable(Table* table) const;
  absl::Status ReadTablePart(const BlockFile& file, uint64_t offset, Table* table) const;
  const Table& table() const;

  const TraceDirectory files_;
  const std::string name_, path_;
  const uint64_t number_;
  const PageGroups* groups_;
  const ModuleFiles* modules_;
  ReadBudget* const budget_;
  uint64_t file_bytes_ = 0;
  uint64_t page_count_ = 0;
  Header header_;
  Extent extent_;
  std::optional<KernelState> kernel_state_;
  std::vector<uint64_t> table_offsets_;
  mutable std::once_flag table_read_;
  mutable Table table_;
};

absl::Status FullKeyframeFile::Open(const std::string& uuid, std::vector<uint64_t>* group_offsets) {
  ASSIGN_OR_RETURN(const BlockFile file, OpenFile());
  file_bytes_ = file.size();
  ASSIGN_OR_RETURN(const RawBlock header, file.Read(0));
  budget_->AddStored(header.next_offset);
  RETURN_IF_ERROR(ReadHeader(header, uuid));
  uint64_t offset = header.next_offset;
  while (!file.AtEnd(offset)) {
    ASSIGN_OR_RETURN(const BlockHeader block, file.ReadHeader(offset));
    switch (static_cast<BlockKind>(block.kind)) {
      case BlockKind::kPageGroup:
        if (block.raw_bytes > kMaxGroupRawBytes) {
          return BlockError(absl::StatusCode::kDataLoss, path_, offset,
                            "a group of pages is too large");
        }
        group_offsets->push_back(offset);
        break;
      case BlockKind::kPageTable:
        table_offsets_.push_back(offset);
        break;
      case BlockKind::kKeyframeExtent:
        RETURN_IF_ERROR(ReadExtent(file, offset));
        break;
      case BlockKind::kKernelState:
        RETURN_IF_ERROR(ReadProcess(file, offset));
        break;
      case BlockKind::kKeyframeEnd:
        return ReadEnd(file, offset, group_offsets->size());
      default:
        if (block.kind >= kFirstIgnorableBlockKind) break;
        return BlockError(absl::StatusCode::kUnimplemented, path_, offset,
                          absl::StrCat("unknown kind of block ", block.kind));
    }
    offset += kBlockHeaderBytes + block.stored_bytes;
  }
  // Only finished keyframes get their name, so this is no matter of a recorder that died.
  return BlockError(absl::StatusCode::kDataLoss, path_, offset, "the keyframe has no end");
}

absl::Status FullKeyframeFile::ReadHeader(const RawBlock& block, const std::string& uuid) {
  if (!block.Is(BlockKind::kKeyframeHeader)) {
    return BlockError(absl::StatusCode::kInvalidArgument, path_, 0, "not a full keyframe");
  }
  return VisitMessage<wire::KeyframeHeader>(path_, block, [&](wire::KeyframeHeader::Reader header) {
    if (AsString(header.getUuid()) != uuid) {
      return BlockError(absl::StatusCode::kDataLoss, path_, 0, "belongs to another recording");
    }
    if (header.getNumber() != number_) {
      return BlockError(absl::StatusCode::kDataLoss, path_, 0,
                        absl::StrCat("is full keyframe ", header.getNumber(), ": out of place"));
    }
    header_.sequence = header.getSequence();
    RETURN_IF_ERROR(ReadThreads(block, header.getThreads()));
    RETURN_IF_ERROR(ReadMaps(path_, block, header.getMaps(), budget_, &header_.maps));
    header_.auxv = AsWords(header.getAuxv());
    if (budget_->Take(header_.auxv.size() * sizeof(uint64_t))) return absl::OkStatus();
    return TooLarge(path_, block.offset);
  });
}

absl::Status FullKeyframeFile::ReadThreads(const RawBlock& block,
                                           capnp::List<wire::ThreadState>::Reader threads) {
  if (!ListFits(threads.size(), kThreadStateWords, block.word_count)) {
    return BlockError(absl::StatusCode::kDataLoss, path_, block.offset,
                      "impossible list of threads");
  }
  for (const auto from : threads) {
    const auto registers = from.getRegisters();
    if (!budget_->Take(sizeof(ThreadState) + registers.size() * sizeof(uint64_t))) {
      return TooLarge(path_, block.offset);
    }
    header_.threads.push_back(
        {from.getThread(), from.getCount(), from.getSegment(), AsWords(registers)});
  }
  return absl::OkStatus();
}

absl::Status FullKeyframeFile::ReadExtent(const BlockFile& file, uint64_t offset) {
  ASSIGN_OR_RETURN(const RawBlock block, file.Read(offset));
  return VisitMessage<wire::KeyframeExtent>(path_, block, [&](wire::KeyframeExtent::Reader extent) {
    extent_.unseen = AsWords(extent.getUnseen());
    extent_.known = true;
    if (extent_.unseen.size() % 2 != 0) {
      return BlockError(absl::StatusCode::kDataLoss, path_, offset, "a range of memory has no end");
    }
    if (budget_->Take(extent_.unseen.size() * sizeof(uint64_t))) return absl::OkStatus();
    return TooLarge(path_, block.offset);
  });
}

absl::Status FullKeyframeFile::ReadProcess(const BlockFile& file, uint64_t offset) {
  ASSIGN_OR_RETURN(const RawBlock block, file.Read(offset));
  budget_->AddStored(block.next_offset - offset);
  ASSIGN_OR_RETURN(kernel_state_, ReadKernelState(path_, block, budget_));
  return absl::OkStatus();
}

bool FullKeyframeFile::SawAllAt(uint64_t address) const {
  if (!extent_.known || !table().damage.ok()) return false;
  for (size_t i = 0; i + 1 < extent_.unseen.size(); i += 2) {
    if (extent_.unseen[i] <= address && address < extent_.unseen[i + 1]) return false;
  }
  return true;
}

absl::Status FullKeyframeFile::ReadEnd(const BlockFile& file, uint64_t offset,
                                       uint64_t group_count) {
  ASSIGN_OR_RETURN(const RawBlock block, file.Read(offset));
  return VisitMessage<wire::KeyframeEnd>(path_, block, [&](wire::KeyframeEnd::Reader end) {
    page_count_ = end.getPageCount();
    const uint64_t groups = end.getStoredPages() / kPagesPerGroup +
                            (end.getStoredPages() % kPagesPerGroup != 0 ? 1 : 0);
    if (groups == group_count) return absl::OkStatus();
    return BlockError(absl::StatusCode::kDataLoss, path_, offset,
                      absl::StrCat("has ", group_count, " groups of pages instead of ", groups));
  });
}

absl::Status FullKeyframeFile::ReadTablePart(const BlockFile& file, uint64_t offset,
                                             Table* table) const {
  ASSIGN_OR_RETURN(const RawBlock block, file.Read(offset));
  budget_->AddStored(block.next_offset - offset);
  return VisitMessage<wire::PageTable>(path_, block, [&](wire::PageTable::Reader part) {
    const auto addresses = part.getAddresses();
    const auto sources = part.getSources();
    const auto owners = part.getOwners();
    const auto positions = part.getPositions();
    const auto error = [&](const char* what) {
      return BlockError(absl::StatusCode::kDataLoss, path_, offset, what);
    };
    if (sources.size() != addresses.size() || owners.size() != addresses.size() ||
        positions.size() != addresses.size()) {
      return error("a column is too short");
    }
    if (!budget_->Take(addresses.size() * (sizeof(uint64_t) + sizeof(PageSource)))) {
      return TooLarge(path_, offset);
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

absl::Status FullKeyframeFile::ReadTable(Table* table) const {
  ASSIGN_OR_RETURN(const BlockFile file, OpenFile());
  for (const uint64_t offset : table_offsets_) {
    RETURN_IF_ERROR(ReadTablePart(file, offset, table));
  }
  if (table->addresses.size() == page_count_) return absl::OkStatus();
  return BlockError(
      absl::StatusCode::kDataLoss, path_, file_bytes_,
      absl::StrCat("has ", table->addresses.size(), " pages instead of ", page_count_));
}

const FullKeyframeFile::Table& FullKeyframeFile::table() const {
  std::call_once(table_read_, [this] { table_.damage = ReadTable(&table_); });
  return table_;
}

absl::Status FullKeyframeFile::CheckFile() const {
  ASSIGN_OR_RETURN(const BlockFile file, OpenFile());
  for (uint64_t offset = 0; !file.AtEnd(offset);) {
    ASSIGN_OR_RETURN(const RawBlock block, file.Read(offset));
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
    return absl::NotFoundError(absl::StrCat(path_, ": no page ", absl::Hex(address)));
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
      if (!modules_->modules().contains(static_cast<int32_t>(source.owner))) {
        return absl::DataLossError(
            absl::StrCat(path_, ": page ", absl::Hex(address), " is of a module not listed"));
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
        absl::StrCat("page ", position, " of ", KeyframeName(number), ", which is not there"));
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

absl::StatusOr<std::shared_ptr<const FullKeyframe>> OpenFullKeyframe(
    const TraceDirectory& files, const std::string& uuid, const std::string& name, uint64_t number,
    PageGroups* groups, const ModuleFiles* modules, ReadBudget* budget) {
  auto keyframe = std::make_shared<FullKeyframeFile>(files, name, number, groups, modules, budget);
  std::vector<uint64_t> group_offsets;
  RETURN_IF_ERROR(keyframe->Open(uuid, &group_offsets));
  groups->AddFile(number, files, std::move(group_offsets));
  return std::shared_ptr<const FullKeyframe>(std::move(keyframe));
}

}  // namespace hindsight

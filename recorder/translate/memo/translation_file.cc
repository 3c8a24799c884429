#include "recorder/translate/memo/translation_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "tracefmt/records.h"

namespace hindsight {

struct TranslationFile::Header {
  char magic[8];
  TranslationKey key;
  uint64_t file_bytes;
  uint64_t page_count;
  uint64_t block_count;
  uint64_t checksum;  // of the header, with 0 here, and the index
};

struct TranslationFile::PageEntry {
  uint64_t page;    // number
  uint64_t offset;  // of its records in the file
  uint64_t bytes;
  uint64_t checksum;  // of those
};

namespace {

constexpr char kMagic[8] = {'H', 'S', 'C', 'O', 'D', 'E', '0', '1'};

// Followed by links, relied_on, side, outward, own, code, bytes, bytes relied on.
struct BlockRecord {
  uint64_t guest_pc;
  uint64_t made_for;
  uint32_t size;  // with all of that, and padding to a multiple of 8
  uint32_t code_bytes;
  uint32_t guest_bytes;
  uint32_t relied_bytes;
  uint16_t links, relied_on, side, outward;
  uint16_t own, reserved[3];
};
static_assert(sizeof(BlockRecord) == 48);

uint64_t PartsOf(const BlockRecord& record) {
  return sizeof(BlockRecord) + record.links * sizeof(Link) + record.relied_on * sizeof(CodeRange) +
         record.side * sizeof(SideEntry) +
         (uint64_t{record.outward} + record.own) * sizeof(uint32_t) + record.code_bytes +
         record.guest_bytes + record.relied_bytes;
}

class Reader {
 public:
  explicit Reader(const uint8_t* next) : next_(next) {}
  template <typename T>
  absl::Span<const T> Take(uint64_t count) {
    const auto* const first = reinterpret_cast<const T*>(next_);
    next_ += count * sizeof(T);
    return absl::MakeConstSpan(first, count);
  }

 private:
  const uint8_t* next_;
};

bool AreWithin(absl::Span<const uint32_t> offsets, uint64_t width, uint64_t bytes) {
  return std::all_of(offsets.begin(), offsets.end(),
                     [=](uint64_t offset) { return offset + width <= bytes; });
}

// `translation` lacks nothing that its users take for granted.
bool IsWhole(const Translation& translation) {
  const StoredBlock& block = translation.block;
  const uint64_t size = block.code.size();
  uint64_t relied_bytes = 0;
  for (const CodeRange& range : block.relied_on) relied_bytes += range.bytes;
  return translation.host % kHostAlignment == 0 && !translation.bytes.empty() &&
         relied_bytes == translation.relied_on.size() && AreWithin(block.outward, 4, size) &&
         AreWithin(block.own, 8, size) &&
         std::all_of(block.links.begin(), block.links.end(), [=](const Link& link) {
           return uint64_t{link.rel32_offset} + 4 <= size && link.rel32_offset % 4 == 0;
         });
}

// Requires: PartsOf(record) bytes are there.
Translation Decode(const BlockRecord& record) {
  Reader reader(reinterpret_cast<const uint8_t*>(&record + 1));
  Translation translation = {.guest_pc = record.guest_pc,
                             .host = record.made_for,
                             .made_for = record.made_for,
                             .lasting = true};
  StoredBlock& block = translation.block;
  block.links = reader.Take<Link>(record.links);
  block.relied_on = reader.Take<CodeRange>(record.relied_on);
  block.side = reader.Take<SideEntry>(record.side);
  block.outward = reader.Take<uint32_t>(record.outward);
  block.own = reader.Take<uint32_t>(record.own);
  block.code = reader.Take<uint8_t>(record.code_bytes);
  block.guest_bytes = record.guest_bytes;
  translation.bytes = reader.Take<uint8_t>(record.guest_bytes);
  translation.relied_on = reader.Take<uint8_t>(record.relied_bytes);
  return translation;
}

template <typename T>
void Append(absl::Span<const T> from, std::vector<uint8_t>* out) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(from.data());
  out->insert(out->end(), bytes, bytes + from.size() * sizeof(T));
}

BlockRecord RecordOf(const Translation& translation) {
  const StoredBlock& block = translation.block;
  BlockRecord record = {.guest_pc = translation.guest_pc,
                        .made_for = translation.made_for,
                        .size = 0,
                        .code_bytes = static_cast<uint32_t>(block.code.size()),
                        .guest_bytes = block.guest_bytes,
                        .relied_bytes = static_cast<uint32_t>(translation.relied_on.size()),
                        .links = static_cast<uint16_t>(block.links.size()),
                        .relied_on = static_cast<uint16_t>(block.relied_on.size()),
                        .side = static_cast<uint16_t>(block.side.size()),
                        .outward = static_cast<uint16_t>(block.outward.size()),
                        .own = static_cast<uint16_t>(block.own.size()),
                        .reserved = {}};
  record.size = static_cast<uint32_t>((PartsOf(record) + 7) / 8 * 8);
  return record;
}

void AppendRecord(const Translation& translation, std::vector<uint8_t>* out) {
  const StoredBlock& block = translation.block;
  const BlockRecord record = RecordOf(translation);
  const size_t end = out->size() + record.size;
  Append(absl::MakeConstSpan(&record, 1), out);
  Append(block.links, out);
  Append(block.relied_on, out);
  Append(block.side, out);
  Append(block.outward, out);
  Append(block.own, out);
  Append(block.code, out);
  Append(translation.bytes, out);
  Append(translation.relied_on, out);
  out->resize(end);
}

uint64_t ChecksumOf(const uint8_t* bytes, uint64_t size) { return XXH3_64bits(bytes, size); }

}  // namespace

std::unique_ptr<TranslationFile> TranslationFile::Open(int fd, const TranslationKey& key) {
  struct stat facts;
  if (fstat(fd, &facts) != 0 || facts.st_size < static_cast<off_t>(sizeof(Header))) return nullptr;
  const auto size = static_cast<uint64_t>(facts.st_size);
  void* const base = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (base == MAP_FAILED) return nullptr;
  std::unique_ptr<TranslationFile> file(
      new TranslationFile(static_cast<const uint8_t*>(base), size));
  return file->IsSound(key) ? std::move(file) : nullptr;
}

TranslationFile::~TranslationFile() { munmap(const_cast<uint8_t*>(base_), size_); }

const TranslationFile::Header& TranslationFile::header() const {
  return *reinterpret_cast<const Header*>(base_);
}

absl::Span<const TranslationFile::PageEntry> TranslationFile::index() const {
  return absl::MakeConstSpan(reinterpret_cast<const PageEntry*>(base_ + sizeof(Header)),
                             header().page_count);
}

// The header and the index; of pages InPage sees to it.
bool TranslationFile::IsSound(const TranslationKey& key) const {
  Header copy = header();
  if (std::memcmp(copy.magic, kMagic, sizeof(kMagic)) != 0 || copy.key != key ||
      copy.file_bytes != size_ || copy.page_count > (size_ - sizeof(Header)) / sizeof(PageEntry)) {
    return false;
  }
  std::vector<uint8_t> start(base_, base_ + sizeof(Header) + copy.page_count * sizeof(PageEntry));
  copy.checksum = 0;
  std::memcpy(start.data(), &copy, sizeof(copy));
  return ChecksumOf(start.data(), start.size()) == header().checksum;
}

uint64_t TranslationFile::block_count() const { return header().block_count; }

std::vector<uint64_t> TranslationFile::Pages() const {
  std::vector<uint64_t> pages;
  for (const PageEntry& entry : index()) pages.push_back(entry.page);
  return pages;
}

std::vector<Translation> TranslationFile::InPage(uint64_t page) const {
  std::vector<Translation> result;
  const auto entry =
      std::lower_bound(index().begin(), index().end(), page,
                       [](const PageEntry& one, uint64_t number) { return one.page < number; });
  if (entry == index().end() || entry->page != page) return result;
  if (entry->offset % 8 != 0 || entry->offset > size_ || entry->bytes > size_ - entry->offset ||
      ChecksumOf(base_ + entry->offset, entry->bytes) != entry->checksum) {
    return result;
  }
  for (uint64_t at = 0; at + sizeof(BlockRecord) <= entry->bytes;) {
    const BlockRecord& record = *reinterpret_cast<const BlockRecord*>(base_ + entry->offset + at);
    if (record.size % 8 != 0 || PartsOf(record) > record.size || record.size > entry->bytes - at) {
      break;
    }
    Translation translation = Decode(record);
    if (record.guest_pc / kPageBytes != page || !IsWhole(translation)) break;
    result.push_back(std::move(translation));
    at += record.size;
  }
  return result;
}

std::vector<uint8_t> EncodeTranslations(const TranslationKey& key,
                                        absl::Span<const Translation* const> translations) {
  using Header = TranslationFile::Header;
  using PageEntry = TranslationFile::PageEntry;
  std::vector<PageEntry> index;
  for (const Translation* translation : translations) {
    const uint64_t page = translation->guest_pc / kPageBytes;
    if (index.empty() || index.back().page != page) {
      index.push_back({.page = page, .offset = 0, .bytes = 0, .checksum = 0});
    }
    index.back().bytes += RecordOf(*translation).size;
  }
  uint64_t end = sizeof(Header) + index.size() * sizeof(PageEntry);
  for (PageEntry& entry : index) entry.offset = std::exchange(end, end + entry.bytes);
  Header header = {.magic = {},
                   .key = key,
                   .file_bytes = end,
                   .page_count = index.size(),
                   .block_count = translations.size(),
                   .checksum = 0};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  std::vector<uint8_t> file(sizeof(Header) + index.size() * sizeof(PageEntry));
  file.reserve(end);
  for (const Translation* translation : translations) AppendRecord(*translation, &file);
  for (PageEntry& entry : index) {
    entry.checksum = ChecksumOf(file.data() + entry.offset, entry.bytes);
  }
  std::memcpy(file.data() + sizeof(Header), index.data(), index.size() * sizeof(PageEntry));
  std::memcpy(file.data(), &header, sizeof(header));
  header.checksum = ChecksumOf(file.data(), sizeof(Header) + index.size() * sizeof(PageEntry));
  std::memcpy(file.data(), &header, sizeof(header));
  return file;
}

}  // namespace hindsight

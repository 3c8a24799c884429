#include "recorder/translate/memo/translation_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "recorder/translate/memo/seen_code.h"
#include "tracefmt/records.h"

namespace hindsight {

struct TranslationFile::Header {
  char magic[8];
  TranslationKey key;
  uint64_t file_bytes;
  uint64_t page_count;
  uint64_t link_count;
  uint64_t block_count;
  uint64_t checksum;  // of the header, with 0 here, the index and the links
};

struct TranslationFile::PageEntry {
  uint64_t page;    // number
  uint64_t offset;  // of its image in the file
  uint64_t bytes;
  uint64_t checksum;  // of those
};

namespace {

constexpr char kMagic[8] = {'H', 'S', 'C', 'O', 'D', 'E', '0', '4'};

uint64_t ChecksumOf(const uint8_t* bytes, uint64_t size) { return XXH3_64bits(bytes, size); }

using ByPc = std::map<uint64_t, const Translation*>;

ByPc Choose(absl::Span<const Translation* const> translations) {
  SeenCode seen;
  ByPc chosen;
  for (const Translation* translation : translations) {
    if (chosen.contains(translation->guest_pc) || !seen.Add(*translation)) continue;
    chosen[translation->guest_pc] = translation;
  }
  return chosen;
}

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

absl::Span<const TranslationFile::PageLink> TranslationFile::links() const {
  return absl::MakeConstSpan(reinterpret_cast<const PageLink*>(index().data() + index().size()),
                             header().link_count);
}

// The header, the index and the links; of pages Image sees to it.
bool TranslationFile::IsSound(const TranslationKey& key) const {
  Header copy = header();
  const uint64_t room = size_ - sizeof(Header);
  if (std::memcmp(copy.magic, kMagic, sizeof(kMagic)) != 0 || copy.key != key ||
      copy.file_bytes != size_ || copy.page_count > room / sizeof(PageEntry) ||
      copy.link_count > (room - copy.page_count * sizeof(PageEntry)) / sizeof(PageLink)) {
    return false;
  }
  copy.checksum = 0;
  return header().checksum == XXH3_64bits_withSeed(base_ + sizeof(Header),
                                                   copy.page_count * sizeof(PageEntry) +
                                                       copy.link_count * sizeof(PageLink),
                                                   XXH3_64bits(&copy, sizeof(copy)));
}

uint64_t TranslationFile::block_count() const { return header().block_count; }

std::vector<uint64_t> TranslationFile::Pages() const {
  std::vector<uint64_t> pages;
  for (const PageEntry& entry : index()) pages.push_back(entry.page);
  return pages;
}

absl::Span<const TranslationFile::PageLink> TranslationFile::LinksTo(uint64_t start,
                                                                     uint64_t end) const {
  const auto before = [](const PageLink& link, uint64_t pc) { return link.guest_target < pc; };
  const auto all = links();
  const auto first = std::lower_bound(all.begin(), all.end(), start, before);
  const auto last = std::lower_bound(first, all.end(), end, before);
  return all.subspan(static_cast<size_t>(first - all.begin()), static_cast<size_t>(last - first));
}

std::optional<PageImage> TranslationFile::Image(uint64_t page) const {
  const auto entry =
      std::lower_bound(index().begin(), index().end(), page,
                       [](const PageEntry& one, uint64_t number) { return one.page < number; });
  if (entry == index().end() || entry->page != page) return std::nullopt;
  if (entry->offset % 8 != 0 || entry->offset > size_ || entry->bytes > size_ - entry->offset ||
      ChecksumOf(base_ + entry->offset, entry->bytes) != entry->checksum) {
    return std::nullopt;
  }
  auto image = PageImage::Decode(absl::MakeConstSpan(base_ + entry->offset, entry->bytes));
  if (image.has_value() && image->page() != page) return std::nullopt;
  return image;
}

std::vector<Translation> TranslationFile::InPage(uint64_t page) const {
  std::vector<Translation> result;
  const std::optional<PageImage> image = Image(page);
  if (!image.has_value()) return result;
  for (const PageImage::Block& block : image->blocks()) {
    std::optional<Translation> one = image->Get(block, image->made_for());
    if (one.has_value()) result.push_back(*std::move(one));
  }
  return result;
}

std::vector<uint8_t> EncodeTranslations(const TranslationKey& key,
                                        absl::Span<const Translation* const> translations) {
  using Header = TranslationFile::Header;
  using PageEntry = TranslationFile::PageEntry;
  using PageLink = TranslationFile::PageLink;
  const ByPc chosen = Choose(translations);
  std::vector<PageEntry> index;
  std::vector<PageLink> links;
  std::vector<uint8_t> images;
  Header header = {.magic = {},
                   .key = key,
                   .file_bytes = 0,
                   .page_count = 0,
                   .link_count = 0,
                   .block_count = 0,
                   .checksum = 0};
  for (auto it = chosen.begin(); it != chosen.end();) {
    const uint64_t page = it->first / kPageBytes;
    std::vector<const Translation*> of_page;
    for (; it != chosen.end() && it->first / kPageBytes == page; ++it)
      of_page.push_back(it->second);
    std::vector<uint8_t> bytes;
    AppendPageImage(of_page, &bytes);
    const PageImage image = *PageImage::Decode(bytes);
    header.block_count += image.blocks().size();
    for (const Link& link : image.links()) {
      links.push_back({link.guest_target, page, link.rel32_offset, 0});
    }
    index.push_back({page, images.size(), bytes.size(), ChecksumOf(bytes.data(), bytes.size())});
    images.insert(images.end(), bytes.begin(), bytes.end());
  }
  std::sort(links.begin(), links.end(), [](const PageLink& one, const PageLink& other) {
    return std::pair(one.guest_target, one.page) < std::pair(other.guest_target, other.page);
  });
  header.page_count = index.size();
  header.link_count = links.size();
  const uint64_t start =
      sizeof(Header) + index.size() * sizeof(PageEntry) + links.size() * sizeof(PageLink);
  for (PageEntry& entry : index) entry.offset += start;
  header.file_bytes = start + images.size();
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  std::vector<uint8_t> file(start);
  file.reserve(header.file_bytes);
  uint8_t* const tables = file.data() + sizeof(Header);
  const uint64_t index_bytes = index.size() * sizeof(PageEntry);
  std::memcpy(tables, index.data(), index_bytes);
  // memcpy takes no null.
  if (!links.empty())
    std::memcpy(tables + index_bytes, links.data(), links.size() * sizeof(PageLink));
  header.checksum =
      XXH3_64bits_withSeed(tables, start - sizeof(Header), XXH3_64bits(&header, sizeof(header)));
  std::memcpy(file.data(), &header, sizeof(header));
  file.insert(file.end(), images.begin(), images.end());
  return file;
}

}  // namespace hindsight

#include "recorder/translate/memo/translation_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <thread>
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
  uint32_t place;     // in the order of pages
  uint32_t at_place;  // which entry has the place that this one has in the index
};

namespace {

constexpr char kMagic[8] = {'H', 'S', 'C', 'O', 'D', 'E', '0', '8'};

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
                                                   XXH3_64bits(&copy, sizeof(copy))) &&
         HasOrder();
}

// Every page has a place of its own.
bool TranslationFile::HasOrder() const {
  for (uint64_t i = 0; i < index().size(); ++i) {
    const uint32_t place = index()[i].place;
    if (place >= index().size() || index()[place].at_place != i) return false;
  }
  return true;
}

uint64_t TranslationFile::block_count() const { return header().block_count; }

std::vector<uint64_t> TranslationFile::Pages() const {
  std::vector<uint64_t> pages;
  for (const PageEntry& entry : index()) pages.push_back(index()[entry.at_place].page);
  return pages;
}

std::optional<uint32_t> TranslationFile::PlaceOf(uint64_t page) const {
  const PageEntry* const entry = Entry(page);
  return entry == nullptr ? std::nullopt : std::optional(entry->place);
}

std::optional<uint64_t> TranslationFile::PageAt(uint32_t place) const {
  if (place >= index().size()) return std::nullopt;
  return index()[index()[place].at_place].page;
}

absl::Span<const TranslationFile::PageLink> TranslationFile::LinksTo(uint64_t start,
                                                                     uint64_t end) const {
  const auto before = [](const PageLink& link, uint64_t pc) { return link.guest_target < pc; };
  const auto all = links();
  const auto first = std::lower_bound(all.begin(), all.end(), start, before);
  const auto last = std::lower_bound(first, all.end(), end, before);
  return all.subspan(static_cast<size_t>(first - all.begin()), static_cast<size_t>(last - first));
}

const TranslationFile::PageEntry* TranslationFile::Entry(uint64_t page) const {
  const auto entry =
      std::lower_bound(index().begin(), index().end(), page,
                       [](const PageEntry& one, uint64_t number) { return one.page < number; });
  return entry == index().end() || entry->page != page ? nullptr : &*entry;
}

std::optional<PageImage> TranslationFile::Image(uint64_t page) const {
  const PageEntry* const entry = Entry(page);
  if (entry == nullptr) return std::nullopt;
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

namespace {

struct EncodedPage {
  std::vector<uint8_t> image;
  uint64_t checksum = 0;  // of that
};

using OfPage = std::vector<const Translation*>;  // ascending

EncodedPage EncodePage(const OfPage& translations) {
  EncodedPage page;
  AppendPageImage(translations, &page.image);
  page.checksum = ChecksumOf(page.image.data(), page.image.size());
  return page;
}

// By several threads, if there are many: the program has ended, and the user waits.
std::vector<EncodedPage> EncodePages(const std::vector<OfPage>& pages) {
  constexpr size_t kPagesForThread = 64;
  constexpr size_t kMostThreads = 8;
  std::vector<EncodedPage> encoded(pages.size());
  std::atomic<size_t> next = 0;
  const auto encode = [&] {
    for (size_t i = next++; i < pages.size(); i = next++) encoded[i] = EncodePage(pages[i]);
  };
  const size_t processors = std::max(std::thread::hardware_concurrency(), 1u);
  std::vector<std::thread> others(
      std::min({pages.size() / kPagesForThread, processors - 1, kMostThreads}));
  for (std::thread& other : others) other = std::thread(encode);
  encode();
  for (std::thread& other : others) other.join();
  return encoded;
}

}  // namespace

// Makes a file.
class TranslationEncoder {
 public:
  // In ascending order of the pages.
  void Add(EncodedPage page) {
    const std::vector<uint8_t>& bytes = images_.emplace_back(std::move(page.image));
    const PageImage image = *PageImage::Decode(bytes);
    block_count_ += image.blocks().size();
    for (const Link& link : image.links()) {
      links_.push_back({link.guest_target, image.page(), link.rel32_offset, 0});
    }
    index_.push_back({.page = image.page(),
                      .offset = 0,
                      .bytes = bytes.size(),
                      .checksum = page.checksum,
                      .place = 0,
                      .at_place = 0});
  }

  // Afterwards there is nothing left here.
  std::vector<std::vector<uint8_t>> Encode(const TranslationKey& key,
                                           absl::Span<const uint64_t> order) {
    std::sort(links_.begin(), links_.end(), [](const PageLink& one, const PageLink& other) {
      return std::pair(one.guest_target, one.page) < std::pair(other.guest_target, other.page);
    });
    const uint64_t start =
        sizeof(Header) + index_.size() * sizeof(PageEntry) + links_.size() * sizeof(PageLink);
    const uint64_t end = PlaceImages(order, start);
    std::vector<std::vector<uint8_t>> pieces;
    std::vector<uint8_t>& front = pieces.emplace_back(sizeof(Header));
    front.reserve(start);
    Append(index_, &front);
    Append(links_, &front);
    Header header = {.magic = {},
                     .key = key,
                     .file_bytes = end,
                     .page_count = index_.size(),
                     .link_count = links_.size(),
                     .block_count = block_count_,
                     .checksum = 0};
    std::memcpy(header.magic, kMagic, sizeof(kMagic));
    header.checksum = XXH3_64bits_withSeed(front.data() + sizeof(Header), start - sizeof(Header),
                                           XXH3_64bits(&header, sizeof(header)));
    std::memcpy(front.data(), &header, sizeof(header));
    for (const PageEntry& entry : index_) pieces.push_back(std::move(images_[entry.at_place]));
    return pieces;
  }

 private:
  using Header = TranslationFile::Header;
  using PageEntry = TranslationFile::PageEntry;
  using PageLink = TranslationFile::PageLink;

  template <typename T>
  static void Append(const std::vector<T>& from, std::vector<uint8_t>* out) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(from.data());
    out->insert(out->end(), bytes, bytes + from.size() * sizeof(T));
  }

  // The first image at `offset`. Returns where the last one ends.
  uint64_t PlaceImages(absl::Span<const uint64_t> order, uint64_t offset) {
    std::map<uint64_t, uint32_t> unplaced;  // indexes, by pages' numbers
    for (const PageEntry& entry : index_) {
      const auto i = static_cast<uint32_t>(unplaced.size());
      unplaced[entry.page] = i;
    }
    std::vector<uint32_t> placed;
    for (const uint64_t page : order) {
      const auto it = unplaced.find(page);
      if (it == unplaced.end()) continue;
      placed.push_back(it->second);
      unplaced.erase(it);
    }
    for (const auto& [page, i] : unplaced) placed.push_back(i);
    for (uint32_t place = 0; place < placed.size(); ++place) {
      PageEntry& entry = index_[placed[place]];
      index_[place].at_place = placed[place];
      entry.place = place;
      entry.offset = std::exchange(offset, offset + entry.bytes);
    }
    return offset;
  }

  std::vector<PageEntry> index_;
  std::vector<PageLink> links_;
  std::vector<std::vector<uint8_t>> images_;  // as the index
  uint64_t block_count_ = 0;
};

std::vector<std::vector<uint8_t>> EncodeTranslations(
    const TranslationKey& key, absl::Span<const Translation* const> translations,
    absl::Span<const uint64_t> order) {
  const ByPc chosen = Choose(translations);
  std::vector<OfPage> pages;
  for (auto it = chosen.begin(); it != chosen.end();) {
    const uint64_t page = it->first / kPageBytes;
    OfPage& of_page = pages.emplace_back();
    for (; it != chosen.end() && it->first / kPageBytes == page; ++it)
      of_page.push_back(it->second);
  }
  TranslationEncoder encoder;
  for (EncodedPage& page : EncodePages(pages)) encoder.Add(std::move(page));
  return encoder.Encode(key, order);
}

}  // namespace hindsight

// A file of translations, for the code of one mapped file at one address: made once, and mapped by
// recordings after that.
//
//   header, index (a PageEntry per page of guest code, ascending), links, a PageImage per page
//
// The pages also have an order: that in which they were executed first. Who takes them ahead of
// time goes by it. Their images lie in that order.
//
// Nothing in it is believed: what does not agree with its checksums is not there.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_FILE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "recorder/translate/memo/page_image.h"
#include "recorder/translate/memo/translation.h"

namespace hindsight {

// Of all that the translations in a file depend on, but for the bytes of the code: a hash.
struct TranslationKey {
  uint64_t low = 0, high = 0;
  bool operator==(const TranslationKey&) const = default;
};

// Immutable, not copyable. Any host thread.
class TranslationFile {
 public:
  // One of the links() of the image of `page`.
  struct PageLink {
    uint64_t guest_target;
    uint64_t page;
    Link AsLink() const { return {site, guest_target}; }
    uint32_t site, reserved;
  };

  // Of the file `fd`, which stays the caller's. Null: it is damaged, or of another key.
  static std::unique_ptr<TranslationFile> Open(int fd, const TranslationKey& key);
  TranslationFile(const TranslationFile&) = delete;
  TranslationFile& operator=(const TranslationFile&) = delete;
  ~TranslationFile();

  uint64_t block_count() const;
  // What begins in the page with this number, valid as long as this; nullopt: nothing.
  std::optional<PageImage> Image(uint64_t page) const;
  // Its blocks, as they were made.
  std::vector<Translation> InPage(uint64_t page) const;
  // The pages that there is something of, by their numbers, in their order.
  std::vector<uint64_t> Pages() const;
  // Where the page with this number comes in that order; nullopt: there is nothing of it.
  std::optional<uint32_t> PlaceOf(uint64_t page) const;
  // The number of the page that comes there; nullopt: there are not so many.
  std::optional<uint64_t> PageAt(uint32_t place) const;
  // All links that lead out of their page to what is in [start, end), ascending by target.
  absl::Span<const PageLink> LinksTo(uint64_t start, uint64_t end) const;

 private:
  struct Header;
  struct PageEntry;

  TranslationFile(const uint8_t* base, uint64_t size) : base_(base), size_(size) {}
  bool IsSound(const TranslationKey& key) const;
  bool HasOrder() const;
  const Header& header() const;
  absl::Span<const PageEntry> index() const;
  const PageEntry* Entry(uint64_t page) const;
  absl::Span<const PageLink> links() const;

  const uint8_t* const base_;
  const uint64_t size_;

  friend class TranslationEncoder;
};

// A file with these. Of several of the same place, and of those that were made from other bytes of
// the same place, only the first. `order`: numbers of pages, no two of the same; those that are
// not among them come last, ascending. Returned are pieces, to be written one after the other.
std::vector<std::vector<uint8_t>> EncodeTranslations(
    const TranslationKey& key, absl::Span<const Translation* const> translations,
    absl::Span<const uint64_t> order);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_FILE_H_

// A file of translations, for the code of one mapped file at one address: made once, and mapped by
// recordings after that.
//
//   header, index (a PageEntry per page of guest code, ascending), records page by page
//
// Nothing in it is believed: what does not agree with its checksums is not there.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_FILE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_FILE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
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
  // Of the file `fd`, which stays the caller's. Null: it is damaged, or of another key.
  static std::unique_ptr<TranslationFile> Open(int fd, const TranslationKey& key);
  TranslationFile(const TranslationFile&) = delete;
  TranslationFile& operator=(const TranslationFile&) = delete;
  ~TranslationFile();

  uint64_t block_count() const;
  // Those that begin in the page with this number, as they were made; their
  // spans are valid as long as this.
  std::vector<Translation> InPage(uint64_t page) const;
  // The pages that there is something of, ascending.
  std::vector<uint64_t> Pages() const;

 private:
  struct Header;
  struct PageEntry;

  TranslationFile(const uint8_t* base, uint64_t size) : base_(base), size_(size) {}
  bool IsSound(const TranslationKey& key) const;
  const Header& header() const;
  absl::Span<const PageEntry> index() const;

  const uint8_t* const base_;
  const uint64_t size_;

  friend std::vector<uint8_t> EncodeTranslations(const TranslationKey& key,
                                                 absl::Span<const Translation* const> translations);
};

// A file with these. Requires: ascending by guest_pc, no two of the same.
std::vector<uint8_t> EncodeTranslations(const TranslationKey& key,
                                        absl::Span<const Translation* const> translations);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_FILE_H_

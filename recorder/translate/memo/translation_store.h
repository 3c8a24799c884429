// A folder that keeps translations from recording to recording: files of the user's own, each with
// those of one mapped file at one address, as one version of the recorder makes them.
//
// Several recorders may use it at once: files are put in place whole, and never changed. Who cannot
// read or write does without, silently. Files and folders that belong to somebody else, or that
// others can write to, are not used.
//
// Not copyable. Any host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_STORE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/unique_fd.h"
#include "recorder/translate/memo/translation_file.h"

namespace hindsight {

// What translations depend on besides the guest's code: the program that makes them, with its
// libraries, and this machine's processor.
std::string RecorderIdentity();

class TranslationStore {
 public:
  // A C compiler's code takes 140 MB, that of one made with LLVM 600.
  static constexpr uint64_t kMaxBytes = uint64_t{2} << 30;

  // `$XDG_CACHE_HOME/hindsight`, or ~/.cache/hindsight; empty: there is neither.
  static std::string DefaultDirectory();
  // Makes `directory`, and what it is in, if it is not there. Null: it cannot be used. `identity`:
  // of all that translations depend on that is the same in this recording.
  static std::unique_ptr<TranslationStore> Open(const std::string& directory, std::string identity,
                                                uint64_t max_bytes = kMaxBytes);
  TranslationStore(const TranslationStore&) = delete;
  TranslationStore& operator=(const TranslationStore&) = delete;

  // What is kept of the code called `name`; null: nothing.
  std::unique_ptr<TranslationFile> Load(absl::string_view name) const;
  // Keeps `made`, and what `known` has besides that; of two that are made of the same place the
  // last. `used`: numbers of pages, no two of the same, in the order in which they were needed this
  // time. Those that `known` has keep their order; each other one comes after the one before it.
  // Then drops the files that have not been used for longest, until all take less than
  // max_bytes, and less than a quarter of what would be free without them. `known` may be null.
  void Save(absl::string_view name, const TranslationFile* known,
            absl::Span<const Translation* const> made, absl::Span<const uint64_t> used) const;

 private:
  TranslationStore(UniqueFd directory, std::string identity, uint64_t max_bytes);
  TranslationKey KeyOf(absl::string_view name) const;
  bool Write(const std::string& file_name, absl::Span<const std::vector<uint8_t>> pieces) const;
  uint64_t MostBytes(uint64_t bytes) const;
  void DropOldest() const;

  const UniqueFd directory_;
  const std::string identity_;
  const uint64_t max_bytes_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_STORE_H_

// Bytes of guest code that translations were made from.
//
// Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_MEMO_SEEN_CODE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_MEMO_SEEN_CODE_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "recorder/translate/memo/translation.h"
#include "tracefmt/records.h"

namespace hindsight {

class SeenCode {
 public:
  SeenCode() = default;
  SeenCode(const SeenCode&) = delete;
  SeenCode& operator=(const SeenCode&) = delete;

  // Adds what `translation` was made from and relied on. False, and nothing changes: that is not
  // what others saw at the same place.
  bool Add(const Translation& translation);
  // All of it, ascending, in ranges that do not cross pages; and their bytes.
  void Take(std::vector<CodeRange>* ranges, std::vector<uint8_t>* bytes) const;

 private:
  struct Page {
    std::array<uint64_t, kPageBytes / 64> seen = {};  // one bit for each byte
    std::array<uint8_t, kPageBytes> bytes;            // where it is set
  };
  using Visit = bool (SeenCode::*)(uint64_t pc, absl::Span<const uint8_t> bytes);

  bool ForAll(const Translation& translation, Visit visit);
  bool Agree(uint64_t pc, absl::Span<const uint8_t> bytes);
  bool Set(uint64_t pc, absl::Span<const uint8_t> bytes);
  Page* PageAt(uint64_t pc);

  std::map<uint64_t, std::unique_ptr<Page>> pages_;  // by number
  // The one that was asked for last: the next one is mostly the same.
  Page* last_page_ = nullptr;
  uint64_t last_number_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_MEMO_SEEN_CODE_H_

#include "recorder/log/page_witness.h"

#include <cstring>

#include "recorder/log/page_diff.h"

namespace hindsight {

uint64_t PageWitnesses::KnownLines(uint64_t page, const void* who, const uint8_t* bytes) const {
  const auto it = pages_.find(page);
  if (it == pages_.end() || it->second.who == who) return 0;
  return ~ChangedLines(it->second.bytes, bytes);
}

void PageWitnesses::Put(uint64_t page, const void* who, const uint8_t* host) {
  Witness& witness = pages_[page];
  witness.several |= witness.who != nullptr && witness.who != who;
  witness.who = who;
  witness.bytes = host;
  witness.time = ++time_;
  witness.copy.reset();
}

void PageWitnesses::Forget(uint64_t page, const void* who, bool keep) {
  const auto it = pages_.find(page);
  if (it == pages_.end() || it->second.who != who) return;
  if (!keep) {
    pages_.erase(it);
    return;
  }
  Witness& witness = it->second;
  witness.who = nullptr;
  witness.copy = std::make_unique<std::array<uint8_t, kPageBytes>>();
  std::memcpy(witness.copy->data(), witness.bytes, kPageBytes);
  witness.bytes = witness.copy->data();
}

}  // namespace hindsight

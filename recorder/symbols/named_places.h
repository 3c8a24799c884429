// The places that a user has named together, such as those of --at: where they are in a process,
// and which of them were never found.
//
// Movable, not copyable. One thread.

#ifndef HINDSIGHT_RECORDER_SYMBOLS_NAMED_PLACES_H_
#define HINDSIGHT_RECORDER_SYMBOLS_NAMED_PLACES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "recorder/process/memory_map.h"
#include "recorder/symbols/symbols.h"

namespace hindsight {

class NamedPlaces {
 public:
  // kInvalidArgument: one is no place.
  static absl::StatusOr<NamedPlaces> Parse(absl::Span<const std::string> texts);

  bool empty() const { return places_.empty(); }

  struct Found {
    std::map<uint64_t, std::string> names;  // of addresses where code is, as the user wrote them
    // Where to look again: once the dynamic linker is there, something has been mapped or chosen.
    std::set<uint64_t> hooks;
  };
  // As they are now. `source`: as for Symbols.
  Found Find(const MemoryMap& map, const SymbolSource& source);

  // For each place that was never found a line that begins with it.
  std::vector<std::string> Problems() const;

 private:
  NamedPlaces() = default;

  std::vector<CodePlace> places_;
  std::unique_ptr<Symbols> symbols_ = std::make_unique<Symbols>();
  std::set<std::string> found_;                   // texts
  std::map<std::string, std::string> not_found_;  // why
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYMBOLS_NAMED_PLACES_H_

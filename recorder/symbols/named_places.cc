#include "recorder/symbols/named_places.h"

#include <sys/mman.h>

#include <utility>

#include "base/status_macros.h"

namespace hindsight {

absl::StatusOr<NamedPlaces> NamedPlaces::Parse(absl::Span<const std::string> texts) {
  NamedPlaces places;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(CodePlace place, ParseCodePlace(text));
    places.places_.push_back(std::move(place));
  }
  return places;
}

NamedPlaces::Found NamedPlaces::Find(const MemoryMap& map, const SymbolSource& source) {
  Found result;
  for (const CodePlace& place : places_) {
    const Symbols::Found found = symbols_->Find(place, map, source);
    result.hooks.insert(found.choosers.begin(), found.choosers.end());
    for (const uint64_t address : found.addresses) {
      const MapRegion* const region = map.Find(address);
      if (region == nullptr || (region->protection & PROT_EXEC) == 0) continue;
      result.names[address] = place.text;
      found_.insert(place.text);
    }
    if (found_.count(place.text) != 0) continue;
    not_found_[place.text] = std::string(symbols_->NotFound(place, map, source).message());
  }
  const std::vector<uint64_t> hooks = symbols_->LinkerHooks(map, source);
  result.hooks.insert(hooks.begin(), hooks.end());
  return result;
}

std::vector<std::string> NamedPlaces::Problems() const {
  std::vector<std::string> problems;
  for (const CodePlace& place : places_) {
    if (found_.count(place.text) != 0) continue;
    const auto why = not_found_.find(place.text);
    problems.push_back(why == not_found_.end() ? place.text : why->second);
  }
  return problems;
}

}  // namespace hindsight

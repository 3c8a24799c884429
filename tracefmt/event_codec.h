// Process events and memory maps to and from messages.
//
// For tracefmt's own sources.

#ifndef HINDSIGHT_TRACEFMT_EVENT_CODEC_H_
#define HINDSIGHT_TRACEFMT_EVENT_CODEC_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tracefmt/records.h"
#include "tracefmt/storage/block.h"
#include "tracefmt/storage/read_budget.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {

void BuildMaps(const std::vector<MapRegion>& maps, capnp::List<wire::MapRegion>::Builder out);
// `block` of the file at `path` holds the list. kResourceExhausted if the budget does not allow it.
absl::Status ReadMaps(const std::string& path, const RawBlock& block,
                      capnp::List<wire::MapRegion>::Reader maps, ReadBudget* budget,
                      std::vector<MapRegion>* out);

// About the bytes the event takes in a message.
size_t EventBytes(const ProcessEvent& event);
void BuildEvents(const std::vector<ProcessEvent>& events, wire::EventBlock::Builder out);
// Appends the events of `block`. On error it may have appended some of them. kResourceExhausted if
// the budget does not allow more.
absl::Status ReadEvents(const std::string& path, const RawBlock& block, ReadBudget* budget,
                        std::vector<ProcessEvent>* out);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_EVENT_CODEC_H_

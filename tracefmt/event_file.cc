#include "tracefmt/event_file.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tracefmt/event_codec.h"
#include "tracefmt/storage/block.h"

namespace hindsight {
namespace {

// Bounds the memory events take; about 40 million of them.
constexpr uint64_t kMaxEventBytes = uint64_t{4} << 30;
constexpr char kName[] = "events";

}  // namespace

absl::Status ReadEventFile(const TraceDirectory& files, ReadBudget* budget,
                           std::vector<ProcessEvent>* events) {
  ASSIGN_OR_RETURN(const BlockFile file, BlockFile::Open(files, kName));
  const std::string& path = file.path();
  uint64_t offset = 0;
  uint64_t raw_bytes = 0;
  while (!file.AtEnd(offset)) {
    ASSIGN_OR_RETURN(const RawBlock block, file.Read(offset));
    budget->AddStored(block.next_offset - offset);
    offset = block.next_offset;
    if (block.kind >= kFirstIgnorableBlockKind) continue;
    raw_bytes += block.word_count * sizeof(uint64_t);
    if (raw_bytes > kMaxEventBytes) {
      return BlockError(absl::StatusCode::kResourceExhausted, path, block.offset,
                        "too many events");
    }
    if (!block.Is(BlockKind::kEvents) && !block.Is(BlockKind::kThinnedEvents)) {
      return BlockError(absl::StatusCode::kUnimplemented, path, block.offset,
                        absl::StrCat("unknown kind of block ", block.kind));
    }
    RETURN_IF_ERROR(ReadEvents(path, block, budget, events));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ProcessEvent>> ReadFirstEvents(const TraceDirectory& files) {
  ASSIGN_OR_RETURN(const BlockFile file, BlockFile::Open(files, kName));
  ASSIGN_OR_RETURN(const RawBlock block, file.Read(0));
  ReadBudget budget(kManifestsBudgetBytes, kManifestsBudgetMultiple);
  std::vector<ProcessEvent> events;
  RETURN_IF_ERROR(ReadEvents(file.path(), block, &budget, &events));
  return events;
}

}  // namespace hindsight

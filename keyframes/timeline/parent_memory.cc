#include "keyframes/timeline/parent_memory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "keyframes/timeline/timeline.h"

namespace hindsight {

ParentMemory::ParentMemory(const TraceReader* trace, const TimelineOptions& options)
    : trace_(trace), options_(options) {}

ParentMemory::~ParentMemory() = default;

absl::Status ParentMemory::Open() {
  const Manifest& manifest = trace_->manifest();
  RETURN_IF_ERROR(CheckAncestry(trace_->files()));
  ASSIGN_OR_RETURN(const TraceDirectory files, trace_->files().Parent(manifest.parent_directory));
  ASSIGN_OR_RETURN(parent_trace_, TraceReader::Open(files));
  ASSIGN_OR_RETURN(std::unique_ptr<Timeline> parent, Timeline::Open(parent_trace_.get(), options_));
  if (!parent->process().threads().Has(manifest.parent_thread)) {
    return absl::DataLossError(absl::StrCat(files.path(), ": has no thread that made the process"));
  }
  RETURN_IF_ERROR(
      parent->SeekTo(parent->schedule().MomentTo(manifest.parent_thread, manifest.parent_count)));
  parent_ = std::move(parent);
  return absl::OkStatus();
}

absl::StatusOr<Timeline*> ParentMemory::Parent() {
  const Manifest& manifest = trace_->manifest();
  if (manifest.parent_pid == 0 || manifest.parent_directory.empty()) {
    return absl::NotFoundError("nothing is known from before the process");
  }
  if (!opened_.has_value()) {
    opened_ = absl::OkStatus();  // a recording that claims to be its own parent ends here
    opened_ = Open();
  }
  if (parent_ == nullptr) return absl::NotFoundError(opened_->message());
  return parent_.get();
}

absl::Status ParentMemory::ReadPage(uint64_t page, absl::Span<uint8_t> out) {
  ASSIGN_OR_RETURN(Timeline* const parent, Parent());
  ASSIGN_OR_RETURN(size_t size, parent->ReadMemory(trace_->manifest().parent_thread, page, out));
  return size == out.size() ? absl::OkStatus() : absl::NotFoundError("only part of a page");
}

absl::StatusOr<bool> ParentMemory::WasUntouched(uint64_t page) {
  const absl::StatusOr<Timeline*> parent = Parent();
  if (!parent.ok()) return false;
  return (*parent)->IsUntouched(trace_->manifest().parent_thread, page);
}

}  // namespace hindsight

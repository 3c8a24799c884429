#include "server/target/monitor_core.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/printable.h"

namespace hindsight {
namespace {

// The session shows messages of this kind to the user.
absl::Status ForUser(const absl::Status& status) {
  if (absl::IsCancelled(status)) return status;
  return absl::InvalidArgumentError(absl::StrCat("core: ", status.message()));
}

}  // namespace

absl::StatusOr<std::string> WriteCoreFor(ProcessView* view, const CoreOptions& options,
                                         absl::string_view path, CoreFiles* files) {
  if (path.empty()) return absl::InvalidArgumentError("core: to which file?");
  if (files == nullptr) return absl::InvalidArgumentError("core: this server writes no files");
  const std::string name(path);
  absl::StatusOr<std::unique_ptr<CoreOutput>> output = files->Create(name);
  if (!output.ok()) return ForUser(output.status());
  const absl::StatusOr<CoreSummary> summary = WriteCore(view, options, output->get());
  if (!summary.ok()) return ForUser(summary.status());
  return absl::StrCat(Printable(name), ": ", ToString(*summary), "\n");
}

}  // namespace hindsight

#include "server/monitor/monitor_files.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/printable.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

// The session shows messages of this kind to the user.
absl::Status ForUser(const char* command, const absl::Status& status) {
  if (status.ok() || absl::IsCancelled(status)) return status;
  return absl::InvalidArgumentError(absl::StrCat(command, ": ", status.message()));
}

absl::Status CheckNamed(const char* command, absl::string_view path, CoreFiles* files) {
  absl::Status status;
  if (path.empty()) status = absl::InvalidArgumentError("to which file?");
  if (files == nullptr) status = absl::InvalidArgumentError("this server writes no files");
  return ForUser(command, status);
}

}  // namespace

absl::StatusOr<std::string> WriteCoreFor(ProcessView* view, const CoreOptions& options,
                                         absl::string_view path, CoreFiles* files) {
  RETURN_IF_ERROR(CheckNamed("core", path, files));
  const std::string name(path);
  absl::StatusOr<std::unique_ptr<CoreOutput>> output = files->Create(name, OutputKind::kCore);
  if (!output.ok()) return ForUser("core", output.status());
  const absl::StatusOr<CoreSummary> summary = WriteCore(view, options, output->get());
  if (!summary.ok()) return ForUser("core", summary.status());
  return absl::StrCat(Printable(name), ": ", ToString(*summary), "\n", summary->missing,
                      summary->missing.empty() ? "" : "\n");
}

absl::Status WriteTextFor(absl::string_view text, OutputKind kind, absl::string_view path,
                          CoreFiles* files) {
  RETURN_IF_ERROR(CheckNamed("save", path, files));
  auto output = files->Create(std::string(path), kind);
  RETURN_IF_ERROR(ForUser("save", output.status()));
  RETURN_IF_ERROR(ForUser(
      "save",
      (*output)->WriteAt(
          0, absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size()))));
  return ForUser("save", (*output)->Finish());
}

}  // namespace hindsight

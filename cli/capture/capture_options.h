// The settings of a capture as options of a subcommand, and --config=FILE.
//
// Neither copyable nor movable: Options borrow its variables.

#ifndef HINDSIGHT_CLI_CAPTURE_CAPTURE_OPTIONS_H_
#define HINDSIGHT_CLI_CAPTURE_CAPTURE_OPTIONS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cli/options.h"
#include "recorder/snapshot/capture_configuration.h"

namespace hindsight {

// The values of an option that may be given several times, in their order.
struct TextsValue {
  std::vector<std::string> texts;
};
bool AbslParseFlag(absl::string_view text, TextsValue* value, std::string* error);
std::string AbslUnparseFlag(const TextsValue& value);

class CaptureOptions {
 public:
  CaptureOptions() = default;
  CaptureOptions(const CaptureOptions&) = delete;
  CaptureOptions& operator=(const CaptureOptions&) = delete;

  // Adds the settings of these names, in the order of CaptureSettings(), and --config.
  // Requires: this outlives `options`.
  void AddTo(Options* options, absl::Span<const absl::string_view> names);

  // After Options::Parse: the file, if there is one, then what the command line gives. A file may
  // have only the settings that were added. kInvalidArgument, kNotFound: a line for the user.
  absl::StatusOr<CaptureConfiguration> Read() const;
  // Whether any was given.
  bool given() const;

 private:
  std::string file_;
  std::map<std::string, TextsValue> values_;  // by the setting's name
};

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_CAPTURE_CAPTURE_OPTIONS_H_

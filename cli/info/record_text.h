// Records of a trace as text or JSON, for `hindsight dump`.

#ifndef HINDSIGHT_CLI_INFO_RECORD_TEXT_H_
#define HINDSIGHT_CLI_INFO_RECORD_TEXT_H_

#include <string>
#include <vector>

#include "cli/json.h"
#include "tracefmt/records.h"

namespace hindsight {

struct RecordTextOptions {
  bool contents = false;  // show the bytes of imports too
};

// One line without a newline, or several where contents are shown.
std::string RecordText(const Record& record, const RecordTextOptions& options);
Json RecordJson(const Record& record, const RecordTextOptions& options);

std::string EventText(const ProcessEvent& event);
Json EventJson(const ProcessEvent& event);

// How wait(2)'s status reads: "exited with status 1", "killed by signal 11 (Segmentation fault)".
std::string WaitStatusText(int status);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_INFO_RECORD_TEXT_H_

// Runs a program translated, from its beginning to the end of all its processes.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_PROGRAM_RUN_H_
#define HINDSIGHT_RECORDER_TRANSLATE_PROGRAM_RUN_H_

#include "absl/status/statusor.h"
#include "recorder/process/program_lookup.h"
#include "recorder/translate/process_service.h"

namespace hindsight {

struct ProgramRunOptions {
  bool translate = true;  // or natively, with the agent in place
  TranslationOptions translation;
};

struct ProgramRunResult {
  int wait_status = 0;   // of the program itself
  ServiceCounts counts;  // of the program's own process
};

// Errors: the program cannot be started, or not with the agent in it.
absl::StatusOr<ProgramRunResult> RunProgramTranslated(const ExecCommand& command,
                                                      const ProgramRunOptions& options);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_PROGRAM_RUN_H_

// What a session asks of a run and hears of it, in the words of the timeline.

#ifndef HINDSIGHT_SERVER_TARGET_RUN_TRANSLATION_H_
#define HINDSIGHT_SERVER_TARGET_RUN_TRANSLATION_H_

#include <cstdint>

#include "keyframes/timeline/run_request.h"
#include "server/target/target.h"

namespace hindsight {

// `request` must outlive the result. `thread`: whose steps are counted if the request does not say.
RunRequest ToRunRequest(const ResumeRequest& request, ThreadRef thread);

// `pid`: of the process recorded.
StopEvent ToStopEvent(const RunStop& stop, const ResumeRequest& request, int32_t pid);

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_RUN_TRANSLATION_H_

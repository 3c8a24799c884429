// Serves debuggers, one after the other, on a trace.

#ifndef HINDSIGHT_CLI_SERVING_H_
#define HINDSIGHT_CLI_SERVING_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/states/core_file_maker.h"
#include "server/peer_users.h"
#include "server/target/target.h"
#include "server/transport.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// Waits for a client, serves it until it goes, waits for the next. The position stays where the
// last one left it. Clients whose user is not this process's must say `token`, if that is not
// empty, else they are refused; and `monitor core` makes no `files` for them. Returns only an error
// of `listener`; those of clients go to stderr.
absl::Status ServeClients(Listener* listener, PeerUsers users, const std::string& token,
                          Target* target, CoreFileMaker* files);

// What is served of `trace`, borrowed: a recording, or a sequence of snapshots. `files`: as for
// ReplayTarget.
absl::StatusOr<std::unique_ptr<Target>> OpenTarget(const TraceReader* trace, CoreFiles* files);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_SERVING_H_

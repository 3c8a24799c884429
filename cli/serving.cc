#include "cli/serving.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "server/door.h"
#include "server/session/session.h"
#include "server/snapshots/snapshot_target.h"
#include "server/target/replay_target.h"

namespace hindsight {

absl::Status ServeClients(Listener* listener, PeerUsers users, const std::string& token,
                          Target* target, CoreFileMaker* files) {
  DoorOptions options;
  options.has_token = !token.empty();
  options.report = [](const std::string& line) { PrintError(line); };
  Door door(listener, std::move(users), std::move(options));
  for (;;) {
    ASSIGN_OR_RETURN(const Client client, door.Next());
    files->set_allowed(!client.must_know_token);
    SessionLock lock;
    if (client.must_know_token) {
      lock.token = token;
      lock.opened = [&client] { client.connection->SetProven(); };
    }
    Session session(target, client.connection.get(), std::move(lock));
    absl::StatusOr<SessionEnd> end = session.Serve();
    if (!end.ok()) PrintError(absl::StrCat("client lost: ", end.status().message()));
  }
}

absl::StatusOr<std::unique_ptr<Target>> OpenTarget(const TraceReader* trace, CoreFiles* files) {
  if (IsSnapshotTrace(*trace)) {
    ASSIGN_OR_RETURN(auto target, SnapshotTarget::Open(trace, files));
    return std::unique_ptr<Target>(std::move(target));
  }
  ASSIGN_OR_RETURN(auto target, ReplayTarget::Open(trace, files));
  return std::unique_ptr<Target>(std::move(target));
}

}  // namespace hindsight

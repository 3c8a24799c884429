#include "cli/serving.h"

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "server/session.h"

namespace hindsight {

absl::Status ServeClients(Listener* listener, Target* target) {
  for (;;) {
    ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection, listener->Accept());
    Session session(target, connection.get());
    absl::StatusOr<SessionEnd> end = session.Serve();
    if (!end.ok()) PrintError(absl::StrCat("client lost: ", end.status().message()));
  }
}

}  // namespace hindsight

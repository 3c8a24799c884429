#include "cli/socket_janitor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

// Waits for the other end of `line` to close, which only a process's end, or Finish, does.
void WaitForEnd(int line) {
  char nothing;
  while (read(line, &nothing, 1) > 0 || errno == EINTR) errno = 0;
}

// In the janitor: never returns.
[[noreturn]] void Watch(int line, const std::string& path, const struct stat& socket) {
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE}) {
    std::signal(signal, SIG_IGN);
  }
  setsid();  // what ends the server's group does not end this process
  // Readers of inherited descriptors must not wait for this process to close them.
  dup2(line, STDIN_FILENO);
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDOUT_FILENO);
  dup2(nothing, STDERR_FILENO);
  close_range(STDERR_FILENO + 1, ~0u, 0);
  (void)!write(STDIN_FILENO, "", 1);  // nobody may be left to know
  WaitForEnd(STDIN_FILENO);
  struct stat now;
  if (lstat(path.c_str(), &now) == 0 && now.st_dev == socket.st_dev &&
      now.st_ino == socket.st_ino) {
    unlink(path.c_str());
  }
  _exit(0);
}

}  // namespace

absl::StatusOr<SocketJanitor> SocketJanitor::Start(const std::string& path) {
  struct stat socket;
  int ends[2];
  if (lstat(path.c_str(), &socket) != 0 ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ErrnoToStatus(errno, path);
  }
  UniqueFd ours(ends[0]), theirs(ends[1]);
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "fork");
  if (child == 0) {
    ours.Reset();
    Watch(theirs.get(), path, socket);
  }
  theirs.Reset();
  // Until then what ends the server's group would end both.
  char ready;
  ssize_t got;
  do {
    got = read(ours.get(), &ready, 1);
  } while (got < 0 && errno == EINTR);
  if (got != 1) return absl::UnavailableError(absl::StrCat(path, ": nothing would remove it"));
  return SocketJanitor(std::move(ours));
}

void SocketJanitor::Finish() const {
  shutdown(line_.get(), SHUT_WR);
  WaitForEnd(line_.get());
}

}  // namespace hindsight

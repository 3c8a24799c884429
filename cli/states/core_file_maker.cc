#include "cli/states/core_file_maker.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cli/states/file_contents.h"

namespace hindsight {
namespace {

// What goes over the line: requests with their bytes, and answers to some with their text.
enum class Verb : uint32_t {
  kCreate,  // the bytes are the path, `offset` is the kind; answered
  kWrite,   // at `offset`
  kFinish,  // answered
  kDrop,    // the file is removed
};
struct Request {
  Verb verb = Verb::kDrop;
  uint32_t size = 0;  // of the bytes that follow
  uint64_t offset = 0;
};
struct Answer {
  uint32_t code = 0;  // an absl::StatusCode
  uint32_t size = 0;  // of the text that follows
};
constexpr uint32_t kMostBytes = 1 << 20;  // of a request

bool Send(int line, const void* bytes, size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t sent = send(line, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

bool Receive(int line, void* bytes, size_t size) {
  char* at = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t got = read(line, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

// Whether some program may take a file of this name for its own: startup files of shells, keys of
// ssh and the like are hidden, or in directories that are.
bool MayBeReadElsewhere(absl::string_view path) {
  std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  const absl::string_view name = parts.back();
  if (absl::StartsWith(name, ".")) return true;
  if (name == "core" || absl::StartsWith(name, "core.") || absl::EndsWith(name, ".core") ||
      absl::EndsWith(name, ".edits")) {
    return false;
  }
  return std::any_of(parts.begin(), parts.end(), [](absl::string_view part) {
    return absl::StartsWith(part, ".") && part != "." && part != "..";
  });
}

// The process that makes the files.
class Maker {
 public:
  Maker(int line, CoreFileMaker::Names names) : line_(line), names_(names) {}
  ~Maker() { Remove(); }

  // Until the other end is gone.
  void Serve() {
    Request request;
    std::string bytes;
    while (Receive(line_, &request, sizeof(request)) && request.size <= kMostBytes) {
      bytes.resize(request.size);
      if (!Receive(line_, bytes.data(), bytes.size())) return;
      switch (request.verb) {
        case Verb::kCreate:
          if (!Reply(Create(bytes, static_cast<OutputKind>(request.offset)))) return;
          break;
        case Verb::kWrite:
          status_.Update(Write(request.offset, bytes));
          break;
        case Verb::kFinish:
          if (!Reply(Finish())) return;
          break;
        case Verb::kDrop:
          Remove();
          break;
      }
    }
  }

 private:
  bool Reply(const absl::Status& status) {
    const std::string text(status.message());
    const Answer answer = {static_cast<uint32_t>(status.code()),
                           static_cast<uint32_t>(text.size())};
    return Send(line_, &answer, sizeof(answer)) && Send(line_, text.data(), text.size());
  }

  absl::Status Error(int error) const {
    return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", path_));
  }

  absl::Status Create(const std::string& path, OutputKind kind) {
    Remove();
    status_ = absl::OkStatus();
    path_ = path;
    contents_ = FileContents(kind);
    if (path.empty() || path.find('\0') != path.npos) {
      return absl::InvalidArgumentError("it needs the name of a file");
    }
    if (names_ == CoreFileMaker::Names::kUntrusted && MayBeReadElsewhere(path)) {
      return absl::PermissionDeniedError(absl::StrCat(
          path,
          ": the server makes no hidden files, and in hidden directories only 'NAME.core' "
          "and 'NAME.edits'"));
    }
    file_.Reset(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file_.valid()) return absl::OkStatus();
    if (errno == EEXIST) return absl::AlreadyExistsError(absl::StrCat(path, " exists"));
    return Error(errno);
  }

  absl::Status Write(uint64_t offset, const std::string& bytes) {
    if (!file_.valid()) return absl::FailedPreconditionError("no file");
    RETURN_IF_ERROR(contents_.Check(offset, bytes));
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t written = pwrite(file_.get(), bytes.data() + done, bytes.size() - done,
                                     static_cast<off_t>(offset + done));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return Error(written < 0 ? errno : EIO);
      done += static_cast<size_t>(written);
    }
    return absl::OkStatus();
  }

  absl::Status Finish() {
    status_.Update(contents_.CheckWhole());
    // Some file systems report only here that there is no room.
    if (status_.ok() && file_.valid() && close(file_.Release()) != 0) status_ = Error(errno);
    if (!status_.ok()) Remove();
    file_.Reset();
    return status_;
  }

  // The file, if it is not finished and still the one that was made.
  void Remove() {
    struct stat ours, there;
    if (file_.valid() && fstat(file_.get(), &ours) == 0 && lstat(path_.c_str(), &there) == 0 &&
        ours.st_dev == there.st_dev && ours.st_ino == there.st_ino) {
      unlink(path_.c_str());
    }
    file_.Reset();
  }

  const int line_;
  const CoreFileMaker::Names names_;
  UniqueFd file_;
  std::string path_;
  FileContents contents_{OutputKind::kCore};
  absl::Status status_;  // the first write that failed
};

[[noreturn]] void RunMaker(int line, CoreFileMaker::Names names) {
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE}) {
    std::signal(signal, SIG_IGN);
  }
  setsid();  // what ends the other's group does not keep this process from removing a file
  dup2(line, STDIN_FILENO);
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDOUT_FILENO);
  dup2(nothing, STDERR_FILENO);
  close_range(STDERR_FILENO + 1, ~0u, 0);
  Maker(STDIN_FILENO, names).Serve();
  _exit(0);
}

class Output final : public CoreOutput {
 public:
  explicit Output(int line) : line_(line) {}
  ~Output() override {
    const Request drop;
    if (!finished_) Send(line_, &drop, sizeof(drop));
  }

  absl::Status WriteAt(uint64_t offset, absl::Span<const uint8_t> bytes) override {
    do {
      const auto part = bytes.subspan(0, kMostBytes);
      RETURN_IF_ERROR(Ask(Verb::kWrite, offset, part.data(), part.size()));
      offset += part.size();
      bytes.remove_prefix(part.size());
    } while (!bytes.empty());
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    RETURN_IF_ERROR(Ask(Verb::kFinish, 0, nullptr, 0));
    finished_ = true;
    return ReadAnswer();
  }

  absl::Status Create(const std::string& path, OutputKind kind) {
    finished_ = true;
    RETURN_IF_ERROR(Ask(Verb::kCreate, static_cast<uint64_t>(kind), path.data(), path.size()));
    RETURN_IF_ERROR(ReadAnswer());
    finished_ = false;
    return absl::OkStatus();
  }

 private:
  static absl::Status Lost() {
    return absl::UnavailableError("the process that makes files is gone");
  }

  absl::Status Ask(Verb verb, uint64_t offset, const void* bytes, size_t size) {
    const Request request = {verb, static_cast<uint32_t>(size), offset};
    const bool sent = Send(line_, &request, sizeof(request)) && Send(line_, bytes, size);
    return sent ? absl::OkStatus() : Lost();
  }

  absl::Status ReadAnswer() {
    Answer answer;
    if (!Receive(line_, &answer, sizeof(answer))) return Lost();
    std::string text(answer.size, '\0');
    if (!Receive(line_, text.data(), text.size())) return Lost();
    return absl::Status(static_cast<absl::StatusCode>(answer.code), text);
  }

  const int line_;
  bool finished_ = false;
};

}  // namespace

absl::StatusOr<CoreFileMaker> CoreFileMaker::Start(Names names) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ErrnoToStatus(errno, "socketpair");
  }
  UniqueFd ours(ends[0]), theirs(ends[1]);
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "fork");
  if (child == 0) {
    ours.Reset();
    RunMaker(theirs.get(), names);
  }
  return CoreFileMaker(std::move(ours));
}

absl::StatusOr<std::unique_ptr<CoreOutput>> CoreFileMaker::Create(const std::string& path,
                                                                  OutputKind kind) {
  if (!allowed_) {
    return absl::PermissionDeniedError("files are made for clients of the server's own user only");
  }
  if (path.size() > PATH_MAX) return absl::InvalidArgumentError("too long a name of a file");
  auto output = std::make_unique<Output>(line_.get());
  RETURN_IF_ERROR(output->Create(path, kind));
  return std::unique_ptr<CoreOutput>(std::move(output));
}

}  // namespace hindsight

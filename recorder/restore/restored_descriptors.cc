#include "recorder/restore/restored_descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/restore/descriptor_details.h"

namespace hindsight {
namespace {

constexpr uint32_t kMadeFlags = O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY | O_CLOEXEC;
// What can be set of an open file (F_SETFL).
constexpr uint32_t kStatusFlags = O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME | O_ASYNC;
constexpr uint64_t kOwn = 3;             // descriptors 0, 1, 2: what this process has
constexpr uint64_t kPieceBytes = 32768;  // of a pipe's contents

bool Reads(const OpenDescriptor& descriptor) { return (descriptor.flags & O_ACCMODE) != O_WRONLY; }
bool IsTerminal(const OpenDescriptor& descriptor) {
  return descriptor.kind == DescriptorKind::kCharacterDevice &&
         (absl::StartsWith(descriptor.path, "/dev/pts/") ||
          absl::StartsWith(descriptor.path, "/dev/tty") ||
          absl::StartsWith(descriptor.path, "/dev/console"));
}

class DescriptorRestorer {
 public:
  DescriptorRestorer(const KernelState& kernel, Remote* remote, RestoreNotes* notes)
      : kernel_(kernel), remote_(*remote), notes_(*notes) {
    for (const OpenDescriptor& descriptor : kernel.descriptors) {
      base_ = std::max(base_, static_cast<uint64_t>(descriptor.fd) + 16);
    }
  }

  absl::Status Run();

 private:
  // A call whose failure is no error of ours.
  absl::StatusOr<int64_t> Try(int64_t number, const Remote::CallArguments& arguments) {
    return remote_.TryCall(number, arguments);
  }
  absl::Status Do(const char* what, int64_t number, const Remote::CallArguments& arguments) {
    return remote_.Call(what, number, arguments).status();
  }
  // Moves a descriptor to where no descriptor of the snapshot is.
  absl::StatusOr<uint64_t> Aside(uint64_t fd);
  absl::StatusOr<uint64_t> OpenNull(uint64_t flags);

  void Lose(const OpenDescriptor& descriptor, const std::string& why) {
    notes_.lost.push_back(
        absl::StrCat("descriptor ", descriptor.fd, " (", descriptor.path, "): ", why));
  }
  void Differ(const OpenDescriptor& descriptor, const std::string& how) {
    notes_.different.push_back(
        absl::StrCat("descriptor ", descriptor.fd, " (", descriptor.path, "): ", how));
  }

  // Each makes the open file of a descriptor, and returns a descriptor of it that is set aside.
  absl::StatusOr<uint64_t> Make(const OpenDescriptor& descriptor);
  absl::StatusOr<uint64_t> MakeFile(const OpenDescriptor& descriptor);
  absl::StatusOr<uint64_t> MakePipe(const OpenDescriptor& descriptor);
  absl::StatusOr<uint64_t> MakeDevice(const OpenDescriptor& descriptor);
  absl::StatusOr<uint64_t> MakeSocket(const OpenDescriptor& descriptor);
  const OpenDescriptor* PairOf(const OpenDescriptor& descriptor) const;
  absl::StatusOr<uint64_t> MakeAnonymous(const OpenDescriptor& descriptor);
  absl::StatusOr<uint64_t> MakeTimer(const OpenDescriptor& descriptor);
  absl::StatusOr<uint64_t> Result(const OpenDescriptor& descriptor, int64_t made);

  std::optional<uint64_t> OwnStream(const OpenDescriptor& descriptor) const;
  absl::Status Fill(uint64_t write_end, const std::string& bytes);
  absl::Status CheckFile(const OpenDescriptor& descriptor, const struct stat& facts);
  absl::Status Place();
  absl::Status Watch();

  const KernelState& kernel_;
  Remote& remote_;
  RestoreNotes& notes_;
  uint64_t base_ = 64;
  uint64_t own_[kOwn] = {};
  std::map<int32_t, uint64_t> made_;                         // descriptor -> set aside
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> pipes_;  // inode -> ends, set aside
  std::map<uint64_t, uint64_t> sockets_;                     // likewise, of a pair's second one
};

absl::StatusOr<uint64_t> DescriptorRestorer::Aside(uint64_t fd) {
  ASSIGN_OR_RETURN(const uint64_t moved,
                   remote_.Call("fcntl", SYS_fcntl, {fd, F_DUPFD_CLOEXEC, base_}));
  RETURN_IF_ERROR(Do("close", SYS_close, {fd}));
  return moved;
}

absl::StatusOr<uint64_t> DescriptorRestorer::OpenNull(uint64_t flags) {
  ASSIGN_OR_RETURN(const uint64_t path, remote_.PutText(0, "/dev/null"));
  ASSIGN_OR_RETURN(const uint64_t fd,
                   remote_.Call("/dev/null", SYS_open, {path, flags & O_ACCMODE, 0}));
  return Aside(fd);
}

absl::StatusOr<uint64_t> DescriptorRestorer::Result(const OpenDescriptor& descriptor,
                                                    int64_t made) {
  if (made >= 0) return Aside(static_cast<uint64_t>(made));
  Lose(descriptor, strerror(static_cast<int>(-made)));
  return OpenNull(descriptor.flags);
}

// Which of ours takes its place: none, unless it led out of the process.
std::optional<uint64_t> DescriptorRestorer::OwnStream(const OpenDescriptor& descriptor) const {
  const auto is_same = [&](const OpenDescriptor& other) {
    return other.inode == descriptor.inode && other.device == descriptor.device &&
           other.kind == descriptor.kind;
  };
  const bool leads_out = IsTerminal(descriptor) || descriptor.kind == DescriptorKind::kPipe ||
                         descriptor.kind == DescriptorKind::kSocket ||
                         descriptor.kind == DescriptorKind::kFifo ||
                         descriptor.kind == DescriptorKind::kFile;
  if (!leads_out) return std::nullopt;
  for (const OpenDescriptor& other : kernel_.descriptors) {
    if (other.fd < 0 || other.fd >= static_cast<int32_t>(kOwn) || !is_same(other)) continue;
    const bool input = other.fd == 0;
    // An input that is a file is read on from where it was.
    if (descriptor.kind == DescriptorKind::kFile && (input || Reads(descriptor))) continue;
    if (!IsTerminal(descriptor) && Reads(descriptor) != input &&
        (descriptor.flags & O_ACCMODE) != O_RDWR) {
      continue;
    }
    return static_cast<uint64_t>(other.fd);
  }
  return std::nullopt;
}

absl::Status DescriptorRestorer::CheckFile(const OpenDescriptor& descriptor,
                                           const struct stat& facts) {
  if (static_cast<uint64_t>(facts.st_ino) != descriptor.inode ||
      static_cast<uint64_t>(facts.st_dev) != descriptor.device) {
    Differ(descriptor, "is another file now");
  } else if (descriptor.kind == DescriptorKind::kFile &&
             static_cast<uint64_t>(facts.st_size) < descriptor.size_bytes) {
    Differ(descriptor,
           absl::StrCat("was longer: ", descriptor.size_bytes, " bytes, now ", facts.st_size));
  } else if (descriptor.kind == DescriptorKind::kFile &&
             static_cast<uint64_t>(facts.st_size) != descriptor.size_bytes) {
    Differ(descriptor,
           absl::StrCat("was shorter: ", descriptor.size_bytes, " bytes, now ", facts.st_size));
  }
  if (absl::StrContains(descriptor.details, "lock:")) Differ(descriptor, "is not locked any more");
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> DescriptorRestorer::MakeFile(const OpenDescriptor& descriptor) {
  struct stat facts = {};
  if (absl::EndsWith(descriptor.path, " (deleted)") || stat(descriptor.path.c_str(), &facts) != 0) {
    Lose(descriptor, "the file is gone");
    return OpenNull(descriptor.flags);
  }
  RETURN_IF_ERROR(CheckFile(descriptor, facts));
  ASSIGN_OR_RETURN(const uint64_t path, remote_.PutText(0, descriptor.path));
  ASSIGN_OR_RETURN(const int64_t fd, Try(SYS_open, {path, descriptor.flags & ~kMadeFlags, 0}));
  ASSIGN_OR_RETURN(const uint64_t made, Result(descriptor, fd));
  if (fd >= 0) RETURN_IF_ERROR(Try(SYS_lseek, {made, descriptor.offset, SEEK_SET}).status());
  return made;
}

absl::Status DescriptorRestorer::Fill(uint64_t write_end, const std::string& bytes) {
  constexpr uint64_t kSmallestPipe = 4096;
  if (bytes.size() > kSmallestPipe) {
    RETURN_IF_ERROR(Try(SYS_fcntl, {write_end, F_SETPIPE_SZ, bytes.size() + 65536}).status());
  }
  for (size_t from = 0; from < bytes.size(); from += kPieceBytes) {
    const std::string piece = bytes.substr(from, kPieceBytes);
    ASSIGN_OR_RETURN(
        const uint64_t at,
        remote_.Put(0, {reinterpret_cast<const uint8_t*>(piece.data()), piece.size()}));
    RETURN_IF_ERROR(Do("filling a pipe", SYS_write, {write_end, at, piece.size()}));
  }
  return absl::OkStatus();
}

// Both ends are made with the first descriptor of either.
absl::StatusOr<uint64_t> DescriptorRestorer::MakePipe(const OpenDescriptor& descriptor) {
  auto found = pipes_.find(descriptor.inode);
  if (found == pipes_.end()) {
    ASSIGN_OR_RETURN(const uint64_t at, remote_.PutValue(0, uint64_t{0}));
    RETURN_IF_ERROR(Do("pipe2", SYS_pipe2, {at, O_NONBLOCK}));
    int32_t ends[2] = {};
    remote_.memory().Read(at, {reinterpret_cast<uint8_t*>(ends), sizeof(ends)});
    ASSIGN_OR_RETURN(const uint64_t reader, Aside(static_cast<uint64_t>(ends[0])));
    ASSIGN_OR_RETURN(const uint64_t writer, Aside(static_cast<uint64_t>(ends[1])));
    bool reads = false, writes = false, known = false;
    for (const OpenDescriptor& other : kernel_.descriptors) {
      if (other.kind != DescriptorKind::kPipe || other.inode != descriptor.inode) continue;
      (Reads(other) ? reads : writes) = true;
      if (!other.unread.has_value()) continue;
      if (!known) RETURN_IF_ERROR(Fill(writer, *other.unread));
      known = true;
    }
    if (!reads || !writes) {
      // One that survived the exec may be of no interest to the program: shells leave such open.
      constexpr char kClosed[] = "a pipe whose other end another process had; it is closed now";
      descriptor.close_on_exec ? Lose(descriptor, kClosed) : Differ(descriptor, kClosed);
    } else if (!known) {
      Differ(descriptor, "what was unread in it is not known");
    }
    found = pipes_.emplace(descriptor.inode, std::make_pair(reader, writer)).first;
  }
  const uint64_t end = Reads(descriptor) ? found->second.first : found->second.second;
  RETURN_IF_ERROR(Do("fcntl", SYS_fcntl, {end, F_SETFL, descriptor.flags & kStatusFlags}));
  ASSIGN_OR_RETURN(const uint64_t copy,
                   remote_.Call("fcntl", SYS_fcntl, {end, F_DUPFD_CLOEXEC, base_}));
  return copy;
}

// The other descriptor of a pair made by socketpair(2), whose two inodes follow each other; null:
// there is none. Two sockets made one after the other would look the same.
const OpenDescriptor* DescriptorRestorer::PairOf(const OpenDescriptor& descriptor) const {
  for (const OpenDescriptor& other : kernel_.descriptors) {
    const uint64_t distance = other.inode - descriptor.inode;
    if (other.kind == DescriptorKind::kSocket && other.device == descriptor.device &&
        other.fd >= static_cast<int32_t>(kOwn) && (distance == 1 || distance == ~uint64_t{0})) {
      return &other;
    }
  }
  return nullptr;
}

absl::StatusOr<uint64_t> DescriptorRestorer::MakeSocket(const OpenDescriptor& descriptor) {
  const auto found = sockets_.find(descriptor.inode);
  if (found != sockets_.end()) return found->second;
  ASSIGN_OR_RETURN(const uint64_t at, remote_.PutValue(0, uint64_t{0}));
  RETURN_IF_ERROR(Do("socketpair", SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0, at}));
  int32_t ends[2] = {};
  remote_.memory().Read(at, {reinterpret_cast<uint8_t*>(ends), sizeof(ends)});
  ASSIGN_OR_RETURN(const uint64_t end, Aside(static_cast<uint64_t>(ends[0])));
  RETURN_IF_ERROR(Do("fcntl", SYS_fcntl, {end, F_SETFL, descriptor.flags & kStatusFlags}));
  const OpenDescriptor* const pair = PairOf(descriptor);
  if (pair == nullptr) {
    Lose(descriptor, "a socket; its other end is closed now");
    RETURN_IF_ERROR(Do("close", SYS_close, {static_cast<uint64_t>(ends[1])}));
    return end;
  }
  Differ(descriptor, absl::StrCat("taken for one of a pair with ", pair->fd, ", and empty"));
  ASSIGN_OR_RETURN(const uint64_t other, Aside(static_cast<uint64_t>(ends[1])));
  RETURN_IF_ERROR(Do("fcntl", SYS_fcntl, {other, F_SETFL, pair->flags & kStatusFlags}));
  sockets_[pair->inode] = other;
  return end;
}

absl::StatusOr<uint64_t> DescriptorRestorer::MakeDevice(const OpenDescriptor& descriptor) {
  ASSIGN_OR_RETURN(const uint64_t path,
                   remote_.PutText(0, IsTerminal(descriptor) ? "/dev/tty" : descriptor.path));
  ASSIGN_OR_RETURN(const int64_t fd,
                   Try(SYS_open, {path, (descriptor.flags & ~kMadeFlags) | O_NOCTTY, 0}));
  return Result(descriptor, fd);
}

absl::StatusOr<uint64_t> DescriptorRestorer::MakeTimer(const OpenDescriptor& descriptor) {
  const uint64_t clock = DetailNumber(descriptor.details, "clockid", 10).value_or(CLOCK_MONOTONIC);
  ASSIGN_OR_RETURN(const int64_t made, Try(SYS_timerfd_create, {clock, 0}));
  ASSIGN_OR_RETURN(const uint64_t fd, Result(descriptor, made));
  const uint64_t left = DetailTimeNs(descriptor.details, "it_value").value_or(0);
  const uint64_t interval = DetailTimeNs(descriptor.details, "it_interval").value_or(0);
  // One that has run out and was not read yet does so at once.
  const bool ran_out = DetailNumber(descriptor.details, "ticks", 10).value_or(0) != 0;
  const uint64_t first = ran_out ? 1 : left;
  if (made < 0 || first == 0) return fd;
  constexpr uint64_t kNs = 1'000'000'000;
  const itimerspec value = {
      {static_cast<time_t>(interval / kNs), static_cast<long>(interval % kNs)},
      {static_cast<time_t>(first / kNs), static_cast<long>(first % kNs)}};
  ASSIGN_OR_RETURN(const uint64_t at, remote_.PutValue(0, value));
  RETURN_IF_ERROR(Do("timerfd_settime", SYS_timerfd_settime, {fd, 0, at, 0}));
  return fd;
}

absl::StatusOr<uint64_t> DescriptorRestorer::MakeAnonymous(const OpenDescriptor& descriptor) {
  const std::string& path = descriptor.path;
  int64_t made = -EOPNOTSUPP;
  if (absl::StrContains(path, "[eventpoll]")) {
    ASSIGN_OR_RETURN(made, Try(SYS_epoll_create1, {0}));
  } else if (absl::StrContains(path, "[eventfd]")) {
    const uint64_t count = DetailNumber(descriptor.details, "eventfd-count", 16).value_or(0);
    const uint64_t semaphore =
        DetailNumber(descriptor.details, "eventfd-semaphore", 10).value_or(0);
    ASSIGN_OR_RETURN(made, Try(SYS_eventfd2, {0, semaphore}));
    if (made >= 0 && count != 0) {
      ASSIGN_OR_RETURN(const uint64_t at, remote_.PutValue(0, count));
      RETURN_IF_ERROR(Try(SYS_write, {static_cast<uint64_t>(made), at, sizeof(count)}).status());
    }
  } else if (absl::StrContains(path, "[timerfd]")) {
    return MakeTimer(descriptor);
  } else if (absl::StrContains(path, "[signalfd]")) {
    const uint64_t mask = DetailNumber(descriptor.details, "sigmask", 16).value_or(0);
    ASSIGN_OR_RETURN(const uint64_t at, remote_.PutValue(0, mask));
    ASSIGN_OR_RETURN(made, Try(SYS_signalfd4, {~uint64_t{0}, at, sizeof(mask), 0}));
  }
  return Result(descriptor, made);
}

absl::StatusOr<uint64_t> DescriptorRestorer::Make(const OpenDescriptor& descriptor) {
  if (const std::optional<uint64_t> own = OwnStream(descriptor); own.has_value()) {
    return remote_.Call("fcntl", SYS_fcntl, {own_[*own], F_DUPFD_CLOEXEC, base_});
  }
  switch (descriptor.kind) {
    case DescriptorKind::kFile:
    case DescriptorKind::kDirectory:
      return MakeFile(descriptor);
    case DescriptorKind::kPipe:
      return MakePipe(descriptor);
    case DescriptorKind::kSocket:
      return MakeSocket(descriptor);
    case DescriptorKind::kCharacterDevice:
    case DescriptorKind::kBlockDevice:
      return MakeDevice(descriptor);
    case DescriptorKind::kAnonymous: {
      ASSIGN_OR_RETURN(const uint64_t fd, MakeAnonymous(descriptor));
      RETURN_IF_ERROR(Try(SYS_fcntl, {fd, F_SETFL, descriptor.flags & kStatusFlags}).status());
      return fd;
    }
    default:
      return Result(descriptor, -EOPNOTSUPP);
  }
}

// Gives all descriptors their numbers, and closes those that were set aside.
absl::Status DescriptorRestorer::Place() {
  for (const OpenDescriptor& descriptor : kernel_.descriptors) {
    const auto same = made_.find(descriptor.same_as);
    const uint64_t from = same == made_.end() ? made_[descriptor.fd] : same->second;
    const uint64_t flags = descriptor.close_on_exec ? O_CLOEXEC : 0;
    RETURN_IF_ERROR(Do("dup3", SYS_dup3, {from, static_cast<uint64_t>(descriptor.fd), flags}));
  }
  return Do("close_range", SYS_close_range, {base_, ~uint32_t{0}, 0});
}

// What each epoll watches.
absl::Status DescriptorRestorer::Watch() {
  for (const OpenDescriptor& descriptor : kernel_.descriptors) {
    const bool first = descriptor.same_as < 0 || descriptor.same_as == descriptor.fd;
    if (!first || !absl::StrContains(descriptor.path, "[eventpoll]")) continue;
    for (const EpollTarget& target : EpollTargets(descriptor.details)) {
      epoll_event event = {};
      event.events = target.events;
      event.data.u64 = target.data;
      ASSIGN_OR_RETURN(const uint64_t at, remote_.PutValue(0, event));
      ASSIGN_OR_RETURN(const int64_t added,
                       Try(SYS_epoll_ctl, {static_cast<uint64_t>(descriptor.fd), EPOLL_CTL_ADD,
                                           static_cast<uint64_t>(target.fd), at}));
      if (added != 0) {
        Lose(descriptor,
             absl::StrCat("does not watch ", target.fd, ": ", strerror(static_cast<int>(-added))));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status DescriptorRestorer::Run() {
  for (uint64_t fd = 0; fd < kOwn; ++fd) {
    ASSIGN_OR_RETURN(const int64_t copy, Try(SYS_fcntl, {fd, F_DUPFD_CLOEXEC, base_}));
    if (copy >= 0) {
      own_[fd] = static_cast<uint64_t>(copy);
    } else {
      ASSIGN_OR_RETURN(own_[fd], OpenNull(O_RDWR));  // we have none
    }
  }
  RETURN_IF_ERROR(Do("close_range", SYS_close_range, {0, base_ - 1, 0}));
  for (const OpenDescriptor& descriptor : kernel_.descriptors) {
    if (made_.count(descriptor.same_as) != 0) continue;
    ASSIGN_OR_RETURN(made_[descriptor.fd], Make(descriptor));
  }
  RETURN_IF_ERROR(Place());
  return Watch();
}

}  // namespace

absl::Status RestoreDescriptors(const KernelState& kernel, Remote* remote, RestoreNotes* notes) {
  return DescriptorRestorer(kernel, remote, notes).Run();
}

}  // namespace hindsight

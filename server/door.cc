#include "server/door.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/rsp/packet.h"

namespace hindsight {
namespace {

// Further ones wait in the kernel's queue.
constexpr size_t kMaxVisitors = 16;
// While clients wait to be admitted: how often their state is polled.
constexpr int kTickMilliseconds = 20;
// How long a client that was refused may take to read why.
constexpr std::chrono::seconds kFarewell(2);

// Peeks at the input of `socket`; nullopt: nothing yet. Empty: the other side has closed.
std::optional<std::string> Peek(int socket) {
  char bytes[64];
  const ssize_t size = recv(socket, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
  if (size >= 0) return std::string(bytes, static_cast<size_t>(size));
  return errno == EAGAIN || errno == EINTR ? std::nullopt : std::make_optional<std::string>();
}

bool HasHungUp(int socket) {
  pollfd state = {.fd = socket, .events = POLLRDHUP, .revents = 0};
  return poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

bool BeginsAsAPacketDoes(char byte) {
  return byte == '$' || byte == '+' || byte == '-' || byte == '\x03';
}

}  // namespace

Door::Door(Listener* listener, PeerUsers users, DoorOptions options)
    : listener_(listener),
      users_(std::move(users)),
      options_(std::move(options)),
      wake_(eventfd(0, EFD_CLOEXEC)) {
  // One that disconnected before being admitted must not keep the others waiting.
  fcntl(listener_->descriptor(), F_SETFL, O_NONBLOCK);
  thread_ = std::thread([this] { Loop(); });
}

Door::~Door() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  const uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof(one)) == sizeof(one)) thread_.join();
}

absl::StatusOr<Client> Door::Next() {
  std::unique_lock lock(mutex_);
  came_.wait(lock, [this] { return next_.has_value(); });
  // The listener failed for good: no more clients.
  if (!next_->ok()) return next_->status();
  absl::StatusOr<Client> client = *std::exchange(next_, std::nullopt);
  return client;
}

void Door::Loop() {
  for (;;) {
    std::vector<pollfd> waiting = {{wake_.get(), POLLIN, 0}};
    if (visitors_.size() < kMaxVisitors) {
      waiting.push_back({listener_->descriptor(), POLLIN, 0});
    }
    poll(waiting.data(), waiting.size(), visitors_.empty() ? -1 : kTickMilliseconds);
    {
      const std::lock_guard lock(mutex_);
      if (quit_ || (next_ && !next_->ok())) return;
    }
    if (waiting.size() > 1 && waiting[1].revents != 0) AcceptVisitors();
    for (Visitor& visitor : visitors_) Look(visitor);
    visitors_.erase(std::remove_if(visitors_.begin(), visitors_.end(),
                                   [](const Visitor& visitor) { return visitor.gone; }),
                    visitors_.end());
  }
}

void Door::AcceptVisitors() {
  absl::StatusOr<std::unique_ptr<Connection>> accepted = listener_->Accept();
  if (absl::IsUnavailable(accepted.status())) return;
  if (!accepted.ok()) {
    const std::lock_guard lock(mutex_);
    next_ = accepted.status();
    came_.notify_one();
    return;
  }
  Visitor visitor = {.connection = *std::move(accepted), .since = Clock::now()};
  visitor.trusted = users_.UserOf(visitor.connection->descriptor()) == getuid();
  if (!visitor.trusted && !options_.has_token) {
    options_.report("refused a client that is not this user's");
    Refuse(visitor, "this server is for the processes of the user who started it");
  }
  visitors_.push_back(std::move(visitor));
}

void Door::Look(Visitor& visitor) {
  if (!visitor.refusal.empty()) return SayFarewell(visitor);
  const std::optional<std::string> bytes = Peek(visitor.connection->descriptor());
  if (!bytes) {
    if (Clock::now() - visitor.since < options_.first_byte) return;
    options_.report("dropped a client that has said nothing");
    visitor.gone = true;
  } else if (bytes->empty()) {
    visitor.gone = true;
  } else if (!BeginsAsAPacketDoes(bytes->front())) {
    options_.report(absl::StrCat("dropped a client that does not speak gdb's protocol; it said \"",
                                 bytes->substr(0, 20), "\""));
    visitor.gone = true;
  } else {
    Decide(visitor);
  }
}

// Of a client that may be served: now, later or not at all?
void Door::Decide(Visitor& visitor) {
  const std::unique_lock lock(mutex_);
  const std::shared_ptr<Connection> served = served_.lock();
  if (served == nullptr) return next_ ? void() : HandOver(visitor);
  if (HasHungUp(served->descriptor())) return;  // the session is about to end
  // A client that has not said the token yet does not block others.
  if (visitor.trusted && !served->proven()) return served->Disconnect();
  const Clock::time_point now = Clock::now();
  if (now - visitor.since < options_.grace) return;
  const auto idle = std::chrono::duration_cast<std::chrono::milliseconds>(served->IdleFor());
  if (idle.count() > 0 && idle < options_.grace) return;
  if (idle.count() == 0) {
    return Refuse(visitor,
                  "another debugger is connected, and a command of it is running: wait until that "
                  "has ended, or interrupt it there");
  }
  if (visitor.trusted && refused_at_ && now - *refused_at_ < options_.take_over) {
    options_.report("another debugger takes the place of one that was idle");
    refused_at_.reset();
    return served->Disconnect();
  }
  std::string reason = absl::StrCat("another debugger is connected, idle for ", idle.count() / 1000,
                                    " s: end it there");
  if (visitor.trusted) {
    refused_at_ = now;
    absl::StrAppend(&reason, ", or connect again within ", options_.take_over.count() / 1000,
                    " s to take its place");
  }
  Refuse(visitor, std::move(reason));
}

void Door::Refuse(Visitor& visitor, std::string reason) {
  visitor.refusal = std::move(reason);
  visitor.since = Clock::now();
}

// gdb shows an error in the answer to its first question, and nothing that comes before.
void Door::SayFarewell(Visitor& visitor) {
  char bytes[4096];
  const int socket = visitor.connection->descriptor();
  const ssize_t size = recv(socket, bytes, sizeof(bytes), MSG_DONTWAIT);
  const bool asked = size > 0 && absl::StrContains(absl::string_view(bytes, size), '#');
  if (asked && !visitor.refused) {
    visitor.refused = true;
    const std::string answer = rsp::Frame(absl::StrCat("E.", visitor.refusal));
    send(socket, absl::StrCat("+", answer).data(), answer.size() + 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(socket, SHUT_WR);
  }
  visitor.gone = size == 0 || Clock::now() - visitor.since > kFarewell;
}

// Requires: mutex_ is held.
void Door::HandOver(Visitor& visitor) {
  visitor.gone = true;
  if (visitor.trusted) visitor.connection->SetProven();
  served_ = visitor.connection;
  next_ = Client{std::move(visitor.connection), !visitor.trusted};
  came_.notify_one();
}

}  // namespace hindsight

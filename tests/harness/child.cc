#include "tests/harness/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"

namespace hindsight::e2e {
namespace {

struct Pipe {
  UniqueFd read, write;
};

Pipe MakePipe() {
  int fds[2];
  CHECK(pipe2(fds, O_CLOEXEC) == 0);
  Pipe result;
  result.read.Reset(fds[0]);
  result.write.Reset(fds[1]);
  return result;
}

void MakeNonBlocking(int fd) { CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0); }

// In the child. Never returns.
[[noreturn]] void Become(const std::vector<std::string>& argv, const ChildOptions& options, int in,
                         int out, int err) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The test runner may have changed these; programs expect the defaults.
  signal(SIGPIPE, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) _exit(126);
  for (const std::string& entry : options.environment) putenv(const_cast<char*>(entry.c_str()));
  std::vector<char*> pointers;
  for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  _exit(127);
}

// Appends what is there. Closes `fd` at its end.
void Drain(UniqueFd& fd, std::string* text) {
  char buffer[65536];
  while (fd.valid()) {
    const ssize_t got = read(fd.get(), buffer, sizeof(buffer));
    if (got > 0) {
      text->append(buffer, got);
    } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    } else {
      fd.Reset();
    }
  }
}

// For suites that take far longer than the deadlines of the others allow.
double TimeoutFactor() {
  const char* factor = getenv("TIMEOUT_FACTOR");
  return factor != nullptr ? std::max(1.0, atof(factor)) : 1.0;
}

}  // namespace

std::string ChildResult::Ending() const {
  if (timed_out) return "timeout";
  if (WIFSIGNALED(wait_status)) return absl::StrCat("signal ", WTERMSIG(wait_status));
  return absl::StrCat("exit ", WEXITSTATUS(wait_status));
}

Child Child::Start(const std::vector<std::string>& argv, const ChildOptions& options) {
  signal(SIGPIPE, SIG_IGN);  // A child that does not read its input is no reason to die.
  Pipe in = MakePipe(), out = MakePipe(), err = MakePipe();
  Child child;
  child.start_ = absl::Now();
  child.deadline_ = child.start_ + options.timeout * TimeoutFactor();
  child.unwritten_ = options.input;
  child.keep_input_open_ = options.keep_input_open;
  child.pid_ = fork();
  CHECK(child.pid_ >= 0);
  if (child.pid_ == 0) {
    Become(argv, options, in.read.get(), out.write.get(), err.write.get());
  }
  setpgid(child.pid_, child.pid_);  // Also here: whichever process is second does no harm.
  child.pidfd_.Reset(static_cast<int>(syscall(SYS_pidfd_open, child.pid_, 0)));
  CHECK(child.pidfd_.valid());
  child.in_ = std::move(in.write);
  child.out_ = std::move(out.read);
  child.err_ = std::move(err.read);
  for (const UniqueFd* fd : {&child.in_, &child.out_, &child.err_}) MakeNonBlocking(fd->get());
  if (child.unwritten_.empty() && !child.keep_input_open_) child.in_.Reset();
  return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      reaped_(other.reaped_),
      keep_input_open_(other.keep_input_open_),
      pidfd_(std::move(other.pidfd_)),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)),
      unwritten_(std::move(other.unwritten_)),
      start_(other.start_),
      deadline_(other.deadline_),
      result_(std::move(other.result_)) {}

Child::~Child() {
  if (pid_ < 0) return;
  SignalGroup(SIGKILL);
  if (!reaped_) waitpid(pid_, nullptr, 0);
}

bool Child::Pump(absl::Duration longest) {
  if (reaped_) return false;
  const bool writing = !unwritten_.empty() && in_.valid();
  pollfd fds[4] = {{pidfd_.get(), POLLIN, 0},
                   {out_.valid() ? out_.get() : -1, POLLIN, 0},
                   {err_.valid() ? err_.get() : -1, POLLIN, 0},
                   {writing ? in_.get() : -1, POLLOUT, 0}};
  const absl::Duration left = deadline_ - absl::Now();
  const int wait_ms = static_cast<int>(
      std::clamp<int64_t>(absl::ToInt64Milliseconds(std::min(left, longest)), 0, 1'000'000));
  const int ready = poll(fds, 4, wait_ms);
  if (ready < 0) return errno == EINTR;
  if (ready == 0 && longest < left) return true;
  if (ready == 0) {
    result_.timed_out = true;
    SignalGroup(SIGKILL);
    deadline_ = absl::InfiniteFuture();
    return true;
  }
  if (writing && fds[3].revents != 0) {
    const ssize_t put = write(in_.get(), unwritten_.data(), unwritten_.size());
    if (put > 0) unwritten_.erase(0, put);
    const bool broken = put < 0 && errno != EAGAIN && errno != EINTR;
    if (broken || (unwritten_.empty() && !keep_input_open_)) in_.Reset();
  }
  // Whatever it said before its end is in the pipes when its end is seen.
  Drain(out_, &result_.out);
  Drain(err_, &result_.err);
  if (fds[0].revents != 0) {
    CHECK(waitpid(pid_, &result_.wait_status, 0) == pid_);
    reaped_ = true;
    result_.seconds = absl::ToDoubleSeconds(absl::Now() - start_);
    Drain(out_, &result_.out);
    Drain(err_, &result_.err);
    return false;
  }
  return true;
}

bool Child::WaitFor(const std::string& stream, const std::string& text, size_t* position) {
  for (;;) {
    const size_t found = stream.find(text, *position);
    if (found != std::string::npos) {
      *position = found + text.size();
      return true;
    }
    if (reaped_) return false;
    Pump();
  }
}

bool Child::WaitForOut(const std::string& text, size_t* position) {
  return WaitFor(result_.out, text, position);
}

bool Child::WaitForErr(const std::string& text, size_t* position) {
  return WaitFor(result_.err, text, position);
}

bool Child::WaitForFile(const std::string& path) {
  while (access(path.c_str(), F_OK) != 0) {
    if (!Pump(absl::Milliseconds(1))) return access(path.c_str(), F_OK) == 0;
  }
  return true;
}

void Child::Write(const std::string& text) { unwritten_ += text; }

void Child::CloseInput() {
  keep_input_open_ = false;
  if (unwritten_.empty()) in_.Reset();
}

void Child::Signal(int number) {
  if (!reaped_) kill(pid_, number);
}

void Child::SignalGroup(int number) { kill(-pid_, number); }

ChildResult Child::Finish() {
  CloseInput();
  while (Pump()) {
  }
  SignalGroup(SIGKILL);  // Processes that outlive it.
  return result_;
}

ChildResult RunProcess(const std::vector<std::string>& argv, const ChildOptions& options) {
  return Child::Start(argv, options).Finish();
}

}  // namespace hindsight::e2e

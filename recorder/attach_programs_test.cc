// Real programs, attached to and let go of again and again while they work: what they print and how
// they end is what it would have been.

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "recorder/process/memory_map.h"
#include "recorder/ptrace/attach.h"

namespace hindsight {
namespace {

using Clock = std::chrono::steady_clock;

// Threads that compute, sleep, wait for each other with time limits, and run a program.
constexpr char kPython[] = R"(
import hashlib, queue, subprocess, sys, threading, time
work, done = queue.Queue(5), queue.Queue()
def compute():
    while True:
        n = work.get(timeout=30)
        if n is None:
            return
        h = hashlib.sha256()
        for i in range(300):
            h.update(b'%d' % (n * i))
        done.put((n, h.hexdigest()))
def sleep():
    for i in range(60):
        start = time.monotonic()
        time.sleep(0.005)
        assert time.monotonic() - start >= 0.005
threads = [threading.Thread(target=compute) for i in range(4)] + [threading.Thread(target=sleep)]
for t in threads: t.start()
total = 0
for n in range(150):
    work.put(n)
    if n % 50 == 0:
        total += int(subprocess.run(['/bin/sh', '-c', 'exit 7']).returncode)
for i in range(4): work.put(None)
for t in threads: t.join()
results = sorted(done.get_nowait() for n in range(150))
print(total, hashlib.sha256(repr(results).encode()).hexdigest())
)";

constexpr char kPerl[] = R"(
my ($in, $out, $sum); pipe($in, $out);
for my $i (1 .. 40) {
  my $pid = fork();
  if (!$pid) { syswrite($out, pack("N", $i * $i)); exit($i % 5) }
  sysread($in, my $word, 4) == 4 or die "read";
  $sum += unpack("N", $word);
  waitpid($pid, 0) == $pid or die "wait";
  $sum += $? >> 8;
  select(undef, undef, undef, 0.003);
}
print "$sum\n";
)";

constexpr char kShell[] = R"(
i=0; sum=0
while [ $i -lt 60 ]; do
  i=$((i + 1))
  sum=$((sum + $(echo $i | sed s/1/2/)))
done
echo $sum
seq 20000 | sort -r --parallel=2 | tail -n 3 | tr '\n' ' '
)";

bool IsInstalled(const std::string& program) {
  return system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

// A program with its output in a file.
class Running {
 public:
  explicit Running(const std::vector<std::string>& arguments) {
    char name[] = "/tmp/attach_programs.XXXXXX";
    const int fd = mkstemp(name);
    file_ = name;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(fd, 1);
      dup2(fd, 2);
      std::vector<char*> argv;
      for (const std::string& argument : arguments) {
        argv.push_back(const_cast<char*>(argument.c_str()));
      }
      argv.push_back(nullptr);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    close(fd);
  }
  ~Running() {
    if (!ended_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove(file_);
  }

  pid_t pid() const { return pid_; }
  bool HasEnded() {
    int status = -1;
    if (!ended_ && waitpid(pid_, &status, WNOHANG) != 0) {
      ended_ = true;
      status_ = status;
    }
    return ended_;
  }
  void Wait() {
    while (!HasEnded()) usleep(2000);
  }
  std::string Output() const {
    std::ostringstream text;
    text << std::ifstream(file_).rdbuf();
    return text.str();
  }
  int status() const { return status_; }

 private:
  pid_t pid_ = 0;
  std::string file_;
  bool ended_ = false;
  int status_ = -1;
};

std::vector<ThreadToDetach> AsTheyAre(const std::vector<StoppedThread>& threads) {
  std::vector<ThreadToDetach> result;
  for (const StoppedThread& thread : threads) result.push_back({.thread = thread.thread});
  return result;
}

// Attaches to the process, has some of its threads run on natively for a moment as threads do that
// are in a system call, and lets go of it. False once it has ended.
bool Disturb(pid_t pid, int round) {
  auto threads = AttachToProcess(pid, PTRACE_O_TRACESYSGOOD);
  if (!threads.ok()) {
    EXPECT_EQ(threads.status().code(), absl::StatusCode::kNotFound) << threads.status();
    return false;
  }
  const pid_t thread = threads->at(0).thread;
  ProcMemFile memory(thread);
  auto patches = PatchVdso(MemoryMap::OfProcess(absl::StrCat("/proc/", thread, "/maps")), &memory);
  EXPECT_TRUE(patches.ok()) << patches.status();
  std::vector<ThreadToDetach> detach = AsTheyAre(*threads);
  for (ThreadToDetach& each : detach) {
    if ((round + each.thread) % 3 != 0) continue;
    each.running = ptrace(PTRACE_CONT, each.thread, nullptr, nullptr) == 0;
  }
  usleep(round % 4 * 500);
  StopToDetach(absl::MakeSpan(detach));
  EXPECT_TRUE(DetachFromProcess(pid, detach, *patches).ok());
  return true;
}

void ExpectUndisturbed(const std::vector<std::string>& arguments) {
  if (!IsInstalled(arguments[0])) GTEST_SKIP() << arguments[0] << " is not installed";
  Running alone(arguments);
  alone.Wait();
  ASSERT_EQ(alone.status(), 0) << alone.Output();
  Running disturbed(arguments);
  int rounds = 0;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(60);
  while (!disturbed.HasEnded() && Clock::now() < end) {
    if (!Disturb(disturbed.pid(), rounds)) break;
    ++rounds;
    usleep(rounds % 5 * 700);
  }
  disturbed.Wait();
  EXPECT_EQ(disturbed.status(), 0);
  EXPECT_EQ(disturbed.Output(), alone.Output()) << "after " << rounds << " rounds";
  std::printf("%d rounds\n", rounds);
}

TEST(AttachProgramsTest, PythonThreads) { ExpectUndisturbed({"python3", "-c", kPython}); }

TEST(AttachProgramsTest, PerlWithChildrenAndPipes) { ExpectUndisturbed({"perl", "-e", kPerl}); }

TEST(AttachProgramsTest, ShellWithPipelines) { ExpectUndisturbed({"bash", "-c", kShell}); }

TEST(AttachProgramsTest, ParallelSort) {
  // Input of its own, so that it works for a while.
  const std::string file = absl::StrCat("/tmp/attach_programs.", getpid());
  {
    std::ofstream numbers(file);
    for (uint32_t i = 0, x = 1; i < 400'000; ++i) numbers << (x = x * 1664525 + 1013904223) << "\n";
  }
  ExpectUndisturbed({"sh", "-c", absl::StrCat("exec sort --parallel=4 -S 8M ", file)});
  std::filesystem::remove(file);
}

TEST(AttachProgramsTest, SqliteDatabase) {
  ExpectUndisturbed(
      {"sqlite3", ":memory:",
       "with recursive n(i) as (select 1 union all select i+1 from n where i < 300000) "
       "select count(*), sum(i * i % 7), max(i) from n;"});
}

// A server between requests and in them.
TEST(AttachProgramsTest, RedisServer) {
  if (!IsInstalled("redis-server")) GTEST_SKIP() << "redis-server is not installed";
  const std::string socket = absl::StrCat("/tmp/attach_redis.", getpid());
  Running server({"redis-server", "--port", "0", "--unixsocket", socket, "--save", ""});
  while (access(socket.c_str(), F_OK) != 0 && !server.HasEnded()) usleep(10'000);
  Running load({"redis-benchmark", "-s", socket, "-n", "4000", "-c", "5", "-q", "-t", "set,lpush"});
  for (int round = 0; !load.HasEnded(); ++round) {
    ASSERT_TRUE(Disturb(server.pid(), round));
    usleep(3000);
  }
  EXPECT_EQ(load.status(), 0) << load.Output();
  kill(server.pid(), SIGTERM);
  server.Wait();
  EXPECT_EQ(server.status(), 0);
}

}  // namespace
}  // namespace hindsight

#include "recorder/snapshot/points/point_listener.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/test_seed.h"
#include "libhindsight/hindsight.h"

namespace hindsight {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

std::string TestProgram() {
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) return "";
  const std::string path = self;
  return path.substr(0, path.rfind('/')) + "/testdata/points";
}

// testdata/points with `arguments`, under `listener` (none: null).
class Program {
 public:
  Program(PointListener* listener, std::vector<std::string> arguments, bool children = false) {
    int go[2], out[2];
    EXPECT_EQ(pipe2(go, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    arguments.insert(arguments.begin(), TestProgram());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::string variable = listener ? listener->Environment() : "NONE=1";
    char* environment[] = {variable.data(), nullptr};
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(out[1], 1);
      char c;
      if (read(go[0], &c, 1) == 1) execve(argv[0], argv.data(), environment);
      _exit(127);
    }
    if (listener != nullptr) listener->Start(pid_, children);
    EXPECT_EQ(write(go[1], "g", 1), 1);
    for (int fd : {go[0], go[1], out[1]}) close(fd);
    out_ = UniqueFd(out[0]);
  }
  ~Program() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }

  // Everything it wrote from now on to its end, as "exit N", "signal N".
  std::pair<std::string, std::string> End() {
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = read(out_.get(), buffer, sizeof(buffer))) > 0;) text.append(buffer, n);
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return {WIFEXITED(status) ? "exit " + std::to_string(WEXITSTATUS(status))
                              : "signal " + std::to_string(WTERMSIG(status)),
            text};
  }
  // The next so many bytes that it writes.
  std::string Output(size_t bytes) {
    std::string text(bytes, 0);
    const ssize_t n = read(out_.get(), text.data(), bytes);
    text.resize(n > 0 ? n : 0);
    return text;
  }
  bool HasOutput() const {
    int bytes = 0;
    return ioctl(out_.get(), FIONREAD, &bytes) == 0 && bytes > 0;
  }

 private:
  pid_t pid_ = 0;
  UniqueFd out_;
};

std::unique_ptr<PointListener> Listener(const PointFilter& filter = {}) {
  auto listener = PointListener::Make(filter);
  EXPECT_TRUE(listener.ok()) << listener.status();
  return *std::move(listener);
}

// Runs the program to its end; the points, each answered at once.
std::vector<Point> PointsOf(const PointFilter& filter, std::vector<std::string> arguments,
                            bool children = false) {
  auto listener = Listener(filter);
  Program program(listener.get(), std::move(arguments), children);
  std::vector<Point> points;
  std::string ending;
  std::thread end([&] {
    ending = program.End().first;
    listener->Interrupt();
  });
  while (true) {
    const std::optional<Point> point = listener->Wait(absl::Seconds(60));
    if (!point) break;
    listener->Answer(*point);
    points.push_back(*point);
  }
  end.join();
  EXPECT_EQ(ending, "exit 0");
  return points;
}

std::vector<uint32_t> IdsOf(const PointFilter& filter, std::vector<std::string> arguments) {
  std::vector<uint32_t> ids;
  for (const Point& point : PointsOf(filter, std::move(arguments))) ids.push_back(point.id);
  return ids;
}

std::vector<std::string> LabelsOf(const PointFilter& filter, std::vector<std::string> arguments,
                                  bool children = false) {
  std::vector<std::string> labels;
  for (const Point& point : PointsOf(filter, std::move(arguments), children)) {
    labels.push_back(point.label.substr(point.label.rfind('/') + 1));
  }
  return labels;
}

TEST(PointListenerTest, NobodyListens) {
  Program program(nullptr, {"call=a", "point=9,9,9,0", "if=1", "assert=0", "threads=4"});
  EXPECT_EQ(program.End().first, "exit 0");
}

TEST(PointListenerTest, AThreadWaitsForItsAnswer) {
  auto listener = Listener();
  Program program(listener.get(), {"call=first", "call=second"});
  const std::optional<Point> first = listener->Wait(absl::Seconds(60));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->trigger, Trigger::kCall);
  EXPECT_EQ(first->label, "first");
  EXPECT_EQ(first->process, program.pid());
  EXPECT_EQ(first->thread, program.pid());
  EXPECT_FALSE(listener->Wait(absl::Milliseconds(300)));
  EXPECT_FALSE(program.HasOutput());
  listener->Answer(*first);
  EXPECT_EQ(program.Output(11), "call=first\n");
  const std::optional<Point> second = listener->Wait(absl::Seconds(60));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->label, "second");
  listener->Answer(*second);
  EXPECT_EQ(program.End(), std::make_pair(std::string("exit 0"), std::string("call=second\n")));
}

TEST(PointListenerTest, LevelsClassesAndIdsDecide) {
  const std::vector<std::string> points = {"point=1,1,1,0", "point=2,1,2,0", "point=2,7,3,0",
                                           "point=3,4,4,0", "point=-5,4,5,0"};
  EXPECT_THAT(IdsOf({}, points), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(IdsOf({.minimum_level = 2}, points), ElementsAre(2, 3, 4));
  EXPECT_THAT(IdsOf({.classes = {{1, 1}, {5, 9}}}, points), ElementsAre(1, 2, 3));
  EXPECT_THAT(IdsOf({.ids = {{2, 4}}}, points), ElementsAre(2, 3, 4));
  EXPECT_THAT(IdsOf({.minimum_level = 2, .classes = {{4, 4}}, .ids = {{3, 5}}}, points),
              ElementsAre(4));
}

TEST(PointListenerTest, AttributesDecide) {
  const std::vector<std::string> points = {"point=0,0,1,0", "point=0,0,2,0,phase,solve",
                                           "point=0,0,3,0,phase,setup", "point=0,0,4,0,rank,3",
                                           "point=0,0,5,0,phase,"};
  EXPECT_THAT(IdsOf({.attributes = {{"phase", "solve"}}}, points), ElementsAre(2));
  EXPECT_THAT(IdsOf({.attributes = {{"phase", ""}}}, points), ElementsAre(2, 3, 5));
  EXPECT_THAT(IdsOf({.attributes = {{"phase", "setup"}, {"rank", "3"}}}, points), IsEmpty());
  EXPECT_THAT(IdsOf({.attributes = {{"phase", "setup"}, {"phase", "solve"}}}, points),
              ElementsAre(2, 3));
}

TEST(PointListenerTest, AttributesAreTold) {
  const std::vector<Point> points = PointsOf({}, {"point=3,4,5,0,phase,a=b\nc"});
  ASSERT_THAT(points, SizeIs(1));
  EXPECT_EQ(points[0].trigger, Trigger::kPoint);
  EXPECT_EQ(points[0].level, 3);
  EXPECT_EQ(points[0].class_number, 4u);
  EXPECT_EQ(points[0].id, 5u);
  EXPECT_THAT(points[0].attributes, ElementsAre(Pair("phase", "a=b\nc")));
}

TEST(PointListenerTest, WhatDoesNotFitIsLeftOutAndSaid) {
  const std::string longest(5000, 'x');
  std::vector<Point> points = PointsOf({}, {"point=0,0,0,0,key," + longest, "call=" + longest});
  ASSERT_THAT(points, SizeIs(2));
  EXPECT_TRUE(points[0].is_cut);
  EXPECT_THAT(points[0].attributes, IsEmpty());
  EXPECT_TRUE(points[1].is_cut);
  EXPECT_EQ(points[1].label, std::string(HS_TEXT_SIZE / 2, 'x'));
}

TEST(PointListenerTest, OnceIsOfAClassAndAnId) {
  EXPECT_THAT(IdsOf({}, {"loop=5", "point=0,1,1,1", "point=0,1,2,1", "point=0,2,1,1",
                         "point=0,1,1,1", "loop=2", "point=0,1,1,0", "loop=2", "point=0,-1,-1,1"}),
              ElementsAre(1, 2, 1, 1, 1, 0xffffffffu));
}

TEST(PointListenerTest, OnceIsTheFirstThatPasses) {
  EXPECT_THAT(PointsOf({.minimum_level = 3}, {"point=1,1,1,1", "point=3,1,1,1", "point=4,1,1,1"}),
              ElementsAre(::testing::Field(&Point::level, 3)));
}

TEST(PointListenerTest, ConditionsAndAssertions) {
  const std::vector<std::string> program = {"if=0", "if=1", "assert=1", "assert=0"};
  EXPECT_THAT(LabelsOf({}, program),
              ElementsAre(::testing::MatchesRegex("points.c:[0-9]+: atoi\\(value\\)"),
                          ::testing::MatchesRegex("points.c:[0-9]+: atoi\\(value\\)")));
  EXPECT_THAT(PointsOf({.conditions = false}, program),
              ElementsAre(::testing::Field(&Point::trigger, Trigger::kAssertion)));
  EXPECT_THAT(PointsOf({.assertions = false}, program),
              ElementsAre(::testing::Field(&Point::trigger, Trigger::kCondition)));
}

TEST(PointListenerTest, HowOften) {
  EXPECT_THAT(PointsOf({.skip = 3}, {"loop=10", "call=a"}), SizeIs(7));
  EXPECT_THAT(PointsOf({.skip = 1, .stride = 4}, {"loop=10", "call=a"}), SizeIs(3));
  EXPECT_THAT(PointsOf({.interval = absl::Hours(1)}, {"loop=10", "call=a"}), SizeIs(1));
}

TEST(PointListenerTest, EightThreadsWaitAtOnce) {
  auto listener = Listener();
  Program program(listener.get(), {"threads=8"});
  std::vector<Point> points;
  std::set<pid_t> threads;
  for (int i = 0; i < 8; ++i) {
    const std::optional<Point> point = listener->Wait(absl::Seconds(60));
    ASSERT_TRUE(point);
    points.push_back(*point);
    threads.insert(point->thread);
  }
  EXPECT_THAT(threads, SizeIs(8));
  EXPECT_EQ(threads.count(program.pid()), 0u);
  EXPECT_FALSE(listener->Wait(absl::ZeroDuration()));
  for (const Point& point : points) listener->Answer(point);
  EXPECT_EQ(program.End().first, "exit 0");
}

TEST(PointListenerTest, MoreThreadsThanSlots) {
  EXPECT_THAT(PointsOf({}, {"threads=200"}), SizeIs(200));
}

TEST(PointListenerTest, AChildOfForkIsSilent) {
  EXPECT_THAT(LabelsOf({}, {"call=a", "fork", "call=b"}), ElementsAre("a", "b"));
}

TEST(PointListenerTest, AChildOfForkSpeaksIfAskedFor) {
  EXPECT_THAT(LabelsOf({}, {"call=a", "fork", "call=b"}, true), ElementsAre("a", "b", "b"));
}

TEST(PointListenerTest, TheProgramThatIsExecutedNextSpeaks) {
  EXPECT_THAT(LabelsOf({}, {"call=a", "exec", "call=b"}), ElementsAre("a", "b"));
  // Not in a child.
  EXPECT_THAT(LabelsOf({}, {"call=a", "fork", "exec", "call=b"}), ElementsAre("a", "b"));
}

TEST(PointListenerTest, HandlersReachPointsWhileTheirThreadWaits) {
  auto listener = Listener();
  Program program(listener.get(), {"signals", "call=a"});
  std::vector<Point> points;
  for (int i = 0; i < 5; ++i) {
    const std::optional<Point> point = listener->Wait(absl::Seconds(60));
    ASSERT_TRUE(point);
    EXPECT_EQ(point->thread, program.pid());
    points.push_back(*point);
    if (point->label == "handler") listener->Answer(*point);
  }
  EXPECT_THAT(points, ::testing::Contains(::testing::Field(&Point::label, "handler")));
}

TEST(PointListenerTest, ErrnoStays) { EXPECT_THAT(PointsOf({}, {"errno"}), SizeIs(1)); }

TEST(PointListenerTest, AfterStopNothingPasses) {
  auto listener = Listener();
  Program program(listener.get(), {"call=a", "loop=100", "call=b"});
  const std::optional<Point> point = listener->Wait(absl::Seconds(60));
  ASSERT_TRUE(point);
  listener->Stop();
  listener->Answer(*point);
  EXPECT_EQ(program.End().first, "exit 0");
  EXPECT_FALSE(listener->Wait(absl::ZeroDuration()));
}

TEST(PointListenerTest, AFilterIsReplaced) {
  auto listener = Listener({.minimum_level = 1});
  Program program(listener.get(), {"point=1,0,1,0", "point=1,0,2,0", "point=2,0,3,0"});
  std::vector<uint32_t> ids;
  for (int i = 0; i < 2; ++i) {
    const std::optional<Point> point = listener->Wait(absl::Seconds(60));
    ASSERT_TRUE(point);
    ids.push_back(point->id);
    ASSERT_TRUE(listener->SetFilter({.minimum_level = 2}).ok());
    listener->Answer(*point);
  }
  EXPECT_THAT(ids, ElementsAre(1, 3));
  EXPECT_EQ(program.End().first, "exit 0");
}

TEST(PointListenerTest, WhoWaitsGoesOnWhenTheListenerEnds) {
  auto listener = Listener();
  Program program(listener.get(), {"threads=100", "call=a"});
  ASSERT_TRUE(listener->Wait(absl::Seconds(60)));
  listener.reset();
  EXPECT_EQ(program.End().first, "exit 0");
}

// The listener's process is killed, and stays a zombie: its id is still in use.
TEST(PointListenerTest, WhoWaitsGoesOnWhenTheListenerIsKilled) {
  int ready[2], out[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
  const pid_t capturer = fork();
  if (capturer == 0) {
    auto listener = Listener();
    int go[2];
    EXPECT_EQ(pipe2(go, O_CLOEXEC), 0);
    const pid_t program = fork();
    if (program == 0) {
      char c;
      if (read(go[0], &c, 1) != 1) _exit(127);
      dup2(out[1], 1);
      setenv("HINDSIGHT_CONTROL", listener->path().c_str(), 1);
      execl(TestProgram().c_str(), "points", "threads=8", "call=a", nullptr);
      _exit(127);
    }
    listener->Start(program);
    EXPECT_EQ(write(go[1], "g", 1), 1);
    for (int i = 0; i < 8; ++i) listener->Wait(absl::Seconds(60));
    if (write(ready[1], "r", 1) == 1) pause();
    _exit(0);
  }
  close(ready[1]);
  close(out[1]);
  char c = 0;
  ASSERT_EQ(read(ready[0], &c, 1), 1);
  const absl::Time killed = absl::Now();
  kill(capturer, SIGKILL);
  std::string text;
  while (read(out[0], &c, 1) == 1) text.push_back(c);
  EXPECT_EQ(text, "threads=8\ncall=a\n");
  EXPECT_LT(absl::Now() - killed, absl::Seconds(1));
  waitpid(capturer, nullptr, 0);
}

TEST(PointListenerTest, AProcessThatIsAttachedTo) {
  auto listener = Listener();
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();
  if (child == 0) {
    char c;
    if (read(go[0], &c, 1) != 1) _exit(1);
    const int fd = open(listener->path().c_str(), O_RDWR);
    hs_snapshot("nobody listens yet");
    hs_control = static_cast<struct hs_control*>(
        mmap(nullptr, listener->size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    hs_snapshot("attached");
    _exit(0);
  }
  listener->Start(child);
  EXPECT_EQ(write(go[1], "g", 1), 1);
  const std::optional<Point> point = listener->Wait(absl::Seconds(60));
  ASSERT_TRUE(point);
  EXPECT_EQ(point->label, "attached");
  listener->Answer(*point);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// Whatever the program writes into the control file, the listener stays whole.
TEST(PointListenerTest, AHostileProgram) {
  const uint64_t seed = TestSeed();
  for (uint64_t i = 0; i < 4; ++i) {
    auto listener = Listener();
    Program program(listener.get(), {"ruin=" + std::to_string((seed + i) % 1000000)});
    const pid_t pid = program.pid();
    size_t heard = 0;
    std::thread end([&] {
      EXPECT_EQ(program.End().first, "exit 0");
      listener->Interrupt();
    });
    while (std::optional<Point> point = listener->Wait(absl::Seconds(60))) {
      ++heard;
      EXPECT_LE(point->label.size(), static_cast<size_t>(HS_TEXT_SIZE));
      EXPECT_EQ(point->process, pid);
      EXPECT_EQ(point->thread, pid);
      EXPECT_LT(point->slot, static_cast<uint32_t>(HS_SLOTS));
      listener->Answer(*point);
    }
    end.join();
    EXPECT_GT(heard, 0u);
  }
}

TEST(PointListenerTest, AFilterThatDoesNotFitIsRefused) {
  EXPECT_EQ(
      PointListener::Make({.classes = std::vector<NumberRange>(HS_RANGES + 1)}).status().code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      PointListener::Make({.attributes = {{std::string(HS_NAME_SIZE, 'k'), ""}}}).status().code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hindsight

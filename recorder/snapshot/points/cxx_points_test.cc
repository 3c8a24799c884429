// Points of the C++ wrapper, and of thrown exceptions, as the listener hears of them.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "recorder/snapshot/points/point_listener.h"

namespace hindsight {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Built(const std::string& name) {
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) return "";
  const std::string path = self;
  const std::string folder = path.substr(0, path.rfind('/'));
  return absl::StrCat(folder, "/../../../libhindsight/", name);
}

// "trigger level/class/id label key=value ...".
std::string TextOf(const Point& point) {
  std::string text =
      absl::StrCat(point.trigger, " ", point.level, "/", point.class_number, "/", point.id);
  if (!point.label.empty()) absl::StrAppend(&text, " ", point.label);
  for (const auto& [key, value] : point.attributes) absl::StrAppend(&text, " ", key, "=", value);
  return text;
}

struct ProgramRun {
  std::vector<std::string> points;
  int status = -1;  // of the program's end
};

ProgramRun RunOf(const std::string& program, const PointFilter& filter,
                 const std::string& preloaded = "") {
  auto listener = PointListener::Make(filter);
  EXPECT_TRUE(listener.ok()) << listener.status();
  int go[2];
  EXPECT_EQ(pipe2(go, O_CLOEXEC), 0);
  const std::string path = Built("testdata/" + program);
  const std::string variable = (*listener)->Environment();
  const std::string preload = "LD_PRELOAD=" + preloaded;
  const pid_t child = fork();
  if (child == 0) {
    char c;
    char* argv[] = {const_cast<char*>(path.c_str()), nullptr};
    char* environment[] = {const_cast<char*>(variable.c_str()), const_cast<char*>(preload.c_str()),
                           nullptr};
    if (read(go[0], &c, 1) == 1) execve(argv[0], argv, environment);
    _exit(127);
  }
  (*listener)->Start(child);
  EXPECT_EQ(write(go[1], "g", 1), 1);
  ProgramRun run;
  std::thread end([&] {
    waitpid(child, &run.status, 0);
    (*listener)->Interrupt();
  });
  while (std::optional<Point> point = (*listener)->Wait(absl::Seconds(60))) {
    run.points.push_back(TextOf(*point));
    (*listener)->Answer(*point);
  }
  end.join();
  close(go[0]);
  close(go[1]);
  return run;
}

TEST(CxxPointsTest, TheWrapper) {
  const ProgramRun run = RunOf("wrapper", {});
  EXPECT_THAT(run.points, ElementsAre("1 0/0/0 label", "2 3/4/5", "2 3/4/6 phase=solve rank=2",
                                      "2 0/4/7 made=1", "2 3/4/8 made=2", "2 1/0/9 at=begin",
                                      "2 1/0/9 at=end", "2 1/0/10 at=begin", "2 1/0/10 at=unwind",
                                      "2 1/0/11 at=begin", "2 1/0/11 at=unwind"));
  EXPECT_EQ(WEXITSTATUS(run.status), 2);
}

TEST(CxxPointsTest, AttributesAreMadeOnlyIfThePointMayPass) {
  const ProgramRun run = RunOf("wrapper", {.minimum_level = 3, .calls = false});
  EXPECT_THAT(run.points, ElementsAre("2 3/4/5", "2 3/4/6 phase=solve rank=2", "2 3/4/8 made=1"));
  EXPECT_EQ(WEXITSTATUS(run.status), 1);
}

PointFilter Thrown(std::vector<std::string> types) {
  return {.exceptions = std::move(types), .calls = false, .points = false};
}

TEST(CxxPointsTest, ThrownExceptionsOfChosenTypes) {
  const std::string refused = "5 0/0/0 (anonymous namespace)::Refused what=no room";
  const std::string odd = "5 0/0/0 (anonymous namespace)::Odd";
  EXPECT_THAT(RunOf("thrower", Thrown({"*"})).points, ElementsAre(refused, odd));
  EXPECT_THAT(RunOf("thrower", Thrown({"std::runtime_error"})).points, ElementsAre(refused));
  EXPECT_THAT(RunOf("thrower", Thrown({"std::exception", "std::bad_alloc"})).points,
              ElementsAre(refused));
  EXPECT_THAT(RunOf("thrower", Thrown({"(anonymous namespace)::Odd"})).points, ElementsAre(odd));
  EXPECT_THAT(RunOf("thrower", Thrown({"std::bad_alloc"})).points, IsEmpty());
  EXPECT_THAT(RunOf("thrower", Thrown({})).points, IsEmpty());
}

TEST(CxxPointsTest, TheObjectIsPreloaded) {
  for (const std::string program : {"wrapper", "dynamic"}) {
    EXPECT_THAT(
        RunOf(program, Thrown({"std::exception"}), Built("libhindsight_exceptions.so")).points,
        ElementsAre("5 0/0/0 (anonymous namespace)::Refused what=no room"))
        << program;
  }
}

TEST(CxxPointsTest, TheSharedLibrary) {
  EXPECT_THAT(
      RunOf("dynamic", {.minimum_level = 3}).points,
      ElementsAre("1 0/0/0 label", "2 3/4/5", "2 3/4/6 phase=solve rank=2", "2 3/4/8 made=1"));
}

TEST(CxxPointsTest, WithoutTheObjectThrowingIsNoPoint) {
  EXPECT_THAT(RunOf("wrapper", Thrown({"*"})).points, IsEmpty());
}

}  // namespace
}  // namespace hindsight

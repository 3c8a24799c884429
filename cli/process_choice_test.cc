#include "cli/process_choice.h"

#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

const std::vector<ProcessName> kProcesses = {{"10", "/usr/bin/make"},
                                             {"12", "/usr/lib/gcc/cc1"},
                                             {"12-2", "/usr/bin/as"},
                                             {"13", "/usr/lib/gcc/cc1"},
                                             {"14", "/tmp/15"}};

int Choose(const std::string& wanted) {
  const auto chosen = ChooseProcess(kProcesses, wanted);
  return chosen.ok() ? static_cast<int>(*chosen) : -static_cast<int>(chosen.status().code());
}

TEST(ProcessChoiceTest, ByNumber) {
  EXPECT_EQ(Choose("10"), 0);
  EXPECT_EQ(Choose("12"), 1);
  EXPECT_EQ(Choose("12-2"), 2);
}

TEST(ProcessChoiceTest, ByProgram) {
  EXPECT_EQ(Choose("make"), 0);
  EXPECT_EQ(Choose("/usr/bin/as"), 2);
  EXPECT_EQ(Choose("15"), 4);
}

TEST(ProcessChoiceTest, TheOneThatCrashed) {
  std::vector<ProcessName> processes = kProcesses;
  EXPECT_EQ(Choose("crashed"), -static_cast<int>(absl::StatusCode::kNotFound));
  processes[3].crashed = true;
  EXPECT_EQ(ChooseProcess(processes, "crashed").value(), 3u);
  processes[1].crashed = true;
  const auto several = ChooseProcess(processes, "crashed");
  EXPECT_EQ(several.status().code(), absl::StatusCode::kFailedPrecondition);
  // A program of this name comes first.
  processes.push_back({"16", "/tmp/crashed"});
  EXPECT_EQ(ChooseProcess(processes, "crashed").value(), 5u);
}

TEST(ProcessChoiceTest, NoneOrSeveralAreListed) {
  EXPECT_EQ(Choose("cc1"), -static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(Choose("ld"), -static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_EQ(Choose(""), -static_cast<int>(absl::StatusCode::kNotFound));
  const std::string several(ChooseProcess(kProcesses, "cc1").status().message());
  EXPECT_NE(several.find("12 (cc1), 13 (cc1)"), std::string::npos) << several;
  const std::string none(ChooseProcess(kProcesses, "ld").status().message());
  EXPECT_NE(none.find("12-2 (as)"), std::string::npos) << none;
}

TEST(ProcessChoiceTest, ProcessesOfTheSamePidAreToldApartByTheirDirectories) {
  ProcessInfo process;
  process.manifest.pid = 12;
  process.directory = "/tmp/12-2.hindsight";
  EXPECT_EQ(ProcessId(process), "12");
  process.directory = "trace/processes/12";
  EXPECT_EQ(ProcessId(process), "12");
  process.directory = "trace/processes/12-2";
  EXPECT_EQ(ProcessId(process), "12-2");
}

}  // namespace
}  // namespace hindsight

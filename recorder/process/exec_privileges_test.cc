#include "recorder/process/exec_privileges.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

// Runs `body` in a child; true if it says so.
template <typename Body>
bool InChild(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

// A directory with files that belong to another user.
class ExecPrivilegesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can make such files";
    char name[] = "/tmp/exec_privileges.XXXXXX";
    directory_ = mkdtemp(name);
    chmod(directory_.c_str(), 0755);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string File(const std::string& name, mode_t mode, const std::string& text = "\177ELF") {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path) << text;
    EXPECT_EQ(chown(path.c_str(), 65534, 65534), 0);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  std::string Of(const std::string& path) { return PrivilegesOfExec(getpid(), AT_FDCWD, path, 0); }

  std::string directory_;
};

TEST_F(ExecPrivilegesTest, OrdinaryFilesGiveNone) {
  EXPECT_EQ(Of(File("plain", 0755)), "");
  EXPECT_EQ(Of("/bin/true"), "");
  EXPECT_EQ(Of("/nonexistent/file"), "");
  EXPECT_EQ(Of("/"), "");
}

TEST_F(ExecPrivilegesTest, SetUserAndGroupId) {
  EXPECT_EQ(Of(File("user", 04755)), "is set-user-ID 65534");
  EXPECT_EQ(Of(File("group", 02755)), "is set-group-ID 65534");
  EXPECT_EQ(Of(File("locking", 02745)), "");
}

TEST_F(ExecPrivilegesTest, OnesOwnIdIsNoNews) {
  const std::string path = File("own", 06755);
  EXPECT_TRUE(InChild([&] {
    return setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0 &&
           PrivilegesOfExec(getpid(), AT_FDCWD, path, 0).empty();
  }));
}

TEST_F(ExecPrivilegesTest, ScriptsHaveThoseOfTheirInterpreter) {
  const std::string privileged = File("interpreter", 04755);
  EXPECT_EQ(Of(File("script", 04755, "#!/bin/sh\n")), "");  // its own bit means nothing
  EXPECT_EQ(Of(File("sly", 0755, "#! " + privileged + " -x\n")),
            "is run by " + privileged + ", which is set-user-ID 65534");
  const std::string sly = directory_ + "/sly";
  EXPECT_NE(Of(File("slyer", 0755, "#!" + sly)), "");
  EXPECT_EQ(Of(File("endless", 0755, "#!" + directory_ + "/endless\n")), "");
}

TEST_F(ExecPrivilegesTest, RelativeNamesAndDescriptors) {
  const std::string path = File("user", 04755);
  const int directory = open(directory_.c_str(), O_PATH | O_DIRECTORY);
  EXPECT_NE(PrivilegesOfExec(getpid(), directory, "user", 0), "");
  EXPECT_EQ(PrivilegesOfExec(getpid(), directory, "none", 0), "");
  const int file = open(path.c_str(), O_PATH);
  EXPECT_NE(PrivilegesOfExec(getpid(), file, "", AT_EMPTY_PATH), "");
  close(file);
  close(directory);
  const std::string before = std::filesystem::current_path();
  std::filesystem::current_path(directory_);
  EXPECT_NE(Of("./user"), "");
  std::filesystem::current_path(before);
}

TEST_F(ExecPrivilegesTest, NoNewPrivilegesMeansNone) {
  const std::string path = File("user", 04755);
  EXPECT_TRUE(InChild([&] {
    return !PrivilegesOfExec(getpid(), AT_FDCWD, path, 0).empty() &&
           prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           PrivilegesOfExec(getpid(), AT_FDCWD, path, 0).empty();
  }));
}

TEST_F(ExecPrivilegesTest, OnlyTracersWithoutTheCapabilityTakeThemAway) {
  const std::string path = File("user", 04755);
  EXPECT_TRUE(InChild([&] {
    if (!MayTracePrivileged()) return true;  // this container has not got it
    if (!PrivilegesLostByExec(getpid(), AT_FDCWD, path, 0).empty()) return false;
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2] = {};
    return syscall(SYS_capset, &header, none) == 0 && !MayTracePrivileged() &&
           !PrivilegesLostByExec(getpid(), AT_FDCWD, path, 0).empty();
  }));
}

}  // namespace
}  // namespace hindsight

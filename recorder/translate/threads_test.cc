// Threads and processes, natively and translated.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "recorder/translate/translated_fixture.h"

namespace hindsight {
namespace {

TEST(ThreadsTest, ThreadsDoWhatTheyDoNatively) {
  for (const char* flags : {"", "--block=1", "--flush=3", "--block=2 --flush=10"}) {
    ExpectSameTranslated("recorder/translate/testdata/thread_games", flags);
  }
}

TEST(ThreadsTest, InstalledProgramsUseThem) {
  ExpectSameTranslated("xz -T2 --block-size=50000 -1 -c /bin/ls");
  ExpectSameTranslated("sort --parallel=2 -S 1M -r /etc/passwd");
  ExpectSameTranslated(
      "/usr/bin/python3 -c \"from concurrent.futures import ThreadPoolExecutor as T; "
      "print(sum(T(4).map(lambda x: x * x, range(1000))))\"");
}

TEST(ThreadsTest, ProcessesAreMadeInAllWays) {
  ExpectSameTranslated("bash -c \"for i in 1 2 3; do (echo \\$i); done | sort | tail -1\"");
  ExpectSameTranslated(
      "/usr/bin/python3 -c \"import subprocess; print(subprocess.run([chr(108)+chr(115), chr(47)], "
      "capture_output=True).stdout.decode())\"");
  ExpectSameTranslated("gcc -O1 -xc -c /dev/null -o /dev/stdout");
}

TEST(ThreadsTest, WhatAProcessExecutesIsTranslatedAsWell) {
  // The stack of a translated program lies in the window of libraries.
  const std::string look = "grep -c ^2.*stack /proc/self/maps";
  const std::vector<std::string> ways = {"sh -c \"exec " + look + "\"",
                                         "sh -c \"" + look + "; true\"",
                                         "env nice perl -e \"system(qq(" + look + "))\""};
  for (const std::string& how : ways) {
    EXPECT_EQ(atoi(RunCommand(Translated() + how).out.c_str()), 1) << how;
  }
  ExpectSameTranslated("sh -c \"/nowhere; exec /etc\"");
  ExpectSameTranslated("sh -c \"exec sh -c \\\"exec sh -c \\\\\\\"exit 7\\\\\\\"\\\"\"");
  ExpectSameTranslated("make -s -f - < /dev/null");
}

}  // namespace
}  // namespace hindsight

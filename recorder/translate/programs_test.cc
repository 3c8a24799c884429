// Installed programs, natively and translated.

#include <gtest/gtest.h>

#include <string>

#include "recorder/translate/translated_fixture.h"

namespace hindsight {
namespace {

TEST(ProgramsTest, ShortProgramsDoTheSame) {
  for (const char* program :
       {"true", "false", "ls -l /usr", "cat /etc/passwd", "expr 3 + 4", "ls /nowhere",
        "sort -r /etc/passwd", "od -c /etc/hostname", "date -u -d @86400",
        "grep -c root /etc/passwd", "factor 1000000007 123456789", "md5sum /bin/ls",
        "sha256sum /bin/ls", "find /etc/apt"}) {
    ExpectSameTranslated(program);
  }
}

TEST(ProgramsTest, InterpretersDoTheSame) {
  ExpectSameTranslated(
      "/usr/bin/python3 -c \"print(sum(x * x % 7 for x in range(100000)), 1.5 ** 0.5)\"");
  ExpectSameTranslated("perl -e \"print join(q(,), map { sqrt } 1 .. 100)\"");
  ExpectSameTranslated("awk \"BEGIN { for (i = 1; i < 100000; i++) s += sin(i) / i; print s }\"");
  ExpectSameTranslated(
      "sqlite3 :memory: \"create table t(a, b); insert into t values (1, 2), (3, 4); "
      "select sum(a * b), avg(b) from t;\"");
}

TEST(ProgramsTest, CompressorsDoTheSame) {
  ExpectSameTranslated("bzip2 -c /bin/ls");
  ExpectSameTranslated("gzip -n -c /bin/ls");
  ExpectSameTranslated("xz -T1 -2 -c /bin/ls");
}

TEST(ProgramsTest, ShellsAndCompilersDoTheSame) {
  ExpectSameTranslated("sh -c \"exit 3\"");
  ExpectSameTranslated("bash -c \"x=\\$(ls /usr | wc -l); (exit 5); echo \\$? \\$x\"");
  ExpectSameTranslated("gcc -O1 -S -o - -x c /dev/null");
}

TEST(ProgramsTest, TheHostsFeaturesAreUsedWhereTheyAreOffered) {
  ExpectSameTranslated("md5sum /bin/ls", "--cpu=host");
  ExpectSameTranslated("sort /etc/passwd", "--cpu=host");
  ExpectSameTranslated("/usr/bin/python3 -c \"print(sorted(str(x) for x in range(1000)))\"",
                       "--cpu=host");
}

TEST(ProgramsTest, EveryInstructionMayBeABlock) {
  ExpectSameTranslated("sort -r /etc/passwd", "--block=1");
  ExpectSameTranslated("awk \"BEGIN { for (i = 1; i < 1000; i++) s += sin(i) / i; print s }\"",
                       "--block=1");
}

TEST(ProgramsTest, CodeMayChangeAtAnyTime) {
  for (const char* flags : {"", "--block=1", "--flush=3"}) {
    ExpectSameTranslated("recorder/translate/testdata/changing_code", flags);
  }
}

TEST(ProgramsTest, ReturnsMayLeadAnywhere) {
  for (const char* flags : {"", "--block=1", "--flush=3"}) {
    ExpectSameTranslated("recorder/translate/testdata/odd_returns", flags);
  }
}

TEST(ProgramsTest, TranslationsMayGoAwayAtAnyTime) {
  ExpectSameTranslated("sort -r /etc/passwd", "--flush=2");
  ExpectSameTranslated("/usr/bin/python3 -c \"print(sum(range(1000)))\"", "--flush=200 --seed=7");
  ExpectSameTranslated("bash -c \"x=\\$(echo 1); (exit 5); echo \\$? \\$x\"",
                       "--flush=5 --block=3");
}

}  // namespace
}  // namespace hindsight

// Programs not written for these tests record unchanged, and their traces are exact.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

// Two million bytes that compress like text: words of a small vocabulary in a fixed random order.
std::string TwoMegabytes() {
  uint64_t state = 1;
  const auto next = [&state](uint64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
  };
  std::vector<std::string> words(3000);
  for (std::string& word : words) {
    for (uint64_t length = 2 + next(9); word.size() < length;) {
      word.push_back(static_cast<char>('a' + next(26)));
    }
  }
  std::string text;
  while (text.size() < 2'000'000) {
    // The smaller of two: some words are frequent, most are rare.
    absl::StrAppend(&text, words[std::min(next(3000), next(3000))], next(12) == 0 ? "\n" : " ");
  }
  text.resize(2'000'000);
  return text;
}

// Long recordings, on a machine that may be busy with others.
ChildOptions Long() {
  ChildOptions options;
  options.timeout = absl::Seconds(250);
  return options;
}

TEST(RealProgramsTest, LsOfADirectoryTree) {
  ExpectRecordsUnchanged({"/bin/ls", "-lR", "/usr/share/doc"}, Long());
}

TEST(RealProgramsTest, Gzip) {
  const TempDir directory;
  WriteFile(directory.File("text"), TwoMegabytes());
  ExpectRecordsUnchanged({"/bin/gzip", "-9c", directory.File("text")}, Long());
}

TEST(RealProgramsTest, Bzip2) {
  const TempDir directory;
  WriteFile(directory.File("text"), TwoMegabytes());
  ExpectRecordsUnchanged({"/bin/bzip2", "-9c", directory.File("text")}, Long());
}

TEST(RealProgramsTest, Sqlite) {
  ExpectRecordsUnchanged(
      {"/usr/bin/sqlite3", ":memory:",
       "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, value REAL);"
       "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)"
       " INSERT INTO t SELECT i, 'name' || (i * 7919 % 100003), i * 0.37 FROM n;"
       "SELECT count(*), sum(value), min(name), max(name) FROM t;"
       "SELECT substr(name, 1, 5), count(*), round(avg(value), 3) FROM t GROUP BY 1"
       " ORDER BY 2 DESC, 1 LIMIT 10;"},
      Long());
}

TEST(RealProgramsTest, Python) {
  ExpectRecordsUnchanged(
      {"/usr/bin/python3", "-c",
       "import hashlib, random\n"
       "random.seed(5)\n"
       "numbers = [random.random() for _ in range(20000)]\n"
       "text = ','.join('%.12f' % number for number in sorted(numbers)).encode()\n"
       "print(hashlib.sha256(text).hexdigest(), hashlib.md5(text).hexdigest())\n"
       "words = {}\n"
       "for number in numbers: words[int(number * 100)] = words.get(int(number * 100), 0) + 1\n"
       "print(max(words.items(), key=lambda item: (item[1], item[0])))\n"},
      Long());
}

TEST(RealProgramsTest, Perl) {
  ExpectRecordsUnchanged(
      {"/usr/bin/perl", "-e",
       "my %seen; my $x = 1;"
       "for (1..30000) { $x = ($x * 1103515245 + 12345) % 2147483648; $seen{$x % 1000}++; }"
       "print join(' ', map { \"$_=$seen{$_}\" }"
       "  (sort { $seen{$b} <=> $seen{$a} || $a <=> $b } keys %seen)[0..9]), \"\\n\";"},
      Long());
}

TEST(RealProgramsTest, Bash) {
  ExpectRecordsUnchanged({"/bin/bash", "-c",
                          "declare -A squares; sum=0;"
                          "for ((i = 0; i < 5000; i++)); do ((sum += i % 7)); done;"
                          "for i in {1..300}; do squares[$i]=$((i * i)); done;"
                          "printf '%s %s %s\\n' \"$sum\" \"${squares[17]}\" \"${#squares[@]}\";"
                          "[[ abcabc =~ (b.)a ]] && echo \"${BASH_REMATCH[1]}\"; exit 9"},
                         Long());
}

TEST(RealProgramsTest, Awk) {
  const TempDir directory;
  WriteFile(directory.File("text"), TwoMegabytes().substr(0, 400'000));
  ExpectRecordsUnchanged(
      {"/usr/bin/awk",
       "{ for (i = 1; i <= NF; i++) { count[$i]++; letters += length($i) } }"
       "END { for (word in count) if (count[word] > most) { most = count[word]; best = word }"
       "      printf \"%d %d %.4f %s %d\\n\", NR, letters, letters / NR, best, most }",
       directory.File("text")},
      Long());
}

TEST(RealProgramsTest, SortAndFind) {
  const TempDir directory;
  WriteFile(directory.File("text"), TwoMegabytes().substr(0, 200'000));
  // One thread: sort starts more where there are more processors.
  ExpectRecordsUnchanged({"/usr/bin/sort", "--parallel=1", directory.File("text")}, Long());
  ExpectRecordsUnchanged({"/usr/bin/find", "/usr/share/doc/bash", "-name", "*.gz"}, Long());
}

TEST(RealProgramsTest, PipesAndSharedStandardStreams) {
  ChildOptions options = Long();
  options.input = TwoMegabytes().substr(0, 300'000);
  ExpectRecordsUnchanged({"/bin/cat"}, options);
  ExpectRecordsUnchanged({"/usr/bin/sha256sum"}, options);
  ExpectRecordsUnchanged({"/usr/bin/wc"}, options);
}

}  // namespace
}  // namespace hindsight::e2e

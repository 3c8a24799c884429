// hindsight verify of snapshots: what was damaged is found, and named.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/harness/child.h"
#include "tests/harness/files.h"

namespace hindsight::e2e {
namespace {

using ::testing::HasSubstr;

class DamagedSnapshotsTest : public testing::Test {
 protected:
  void SetUp() override { Snap({}); }
  void Snap(const std::vector<std::string>& options) const {
    std::filesystem::remove_all(whole_);
    std::vector<std::string> argv = {Hindsight(), "snap", "-o", whole_};
    argv.insert(argv.end(), options.begin(), options.end());
    argv.insert(argv.end(), {"--", Runfile("tests/snap/steps")});
    const ChildResult snap = Child::Start(argv).Finish();
    ASSERT_EQ(snap.Ending(), "exit 4") << snap.err;
  }
  ChildResult Verify(const std::string& trace) const {
    return Child::Start({Hindsight(), "verify", trace}).Finish();
  }
  // A fresh copy.
  void Copy() const {
    std::filesystem::remove_all(damaged_);
    std::filesystem::copy(whole_, damaged_, std::filesystem::copy_options::recursive);
  }
  // Of the whole trace, relative to it; the lock holds nothing.
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(whole_)) {
      const std::string name = std::filesystem::relative(entry.path(), whole_);
      if (entry.is_regular_file() && name != "lock") files.push_back(name);
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  void ExpectNamed(const std::string& file) const {
    const ChildResult verify = Verify(damaged_);
    EXPECT_EQ(verify.Ending(), "exit 1") << file << verify.out;
    EXPECT_THAT(verify.out + verify.err, HasSubstr(file));
  }

  // Changes a few bytes of the file, cuts it off, removes it: each time `check` is called.
  void Damage(const std::string& file, std::mt19937* random,
              const std::function<void()>& check) const {
    const std::string bytes = ReadFile(whole_ + "/" + file);
    for (int i = 0; i < 3; ++i) {
      Copy();
      std::string changed = bytes;
      changed[(*random)() % changed.size()] ^= static_cast<char>(1 << (*random)() % 8);
      WriteFile(damaged_ + "/" + file, changed);
      check();
    }
    Copy();
    WriteFile(damaged_ + "/" + file, bytes.substr(0, (*random)() % bytes.size()));
    check();
    Copy();
    std::filesystem::remove(damaged_ + "/" + file);
    check();
  }

  TempDir directory_;
  const std::string whole_ = directory_.File("whole");
  const std::string damaged_ = directory_.File("damaged");
};

TEST_F(DamagedSnapshotsTest, AWholeTraceIsSaidToBeWhole) {
  const ChildResult verify = Verify(whole_);
  EXPECT_EQ(verify.Ending(), "exit 0") << verify.out << verify.err;
  EXPECT_THAT(verify.out, testing::StartsWith("whole: 6 snapshots, "));
  EXPECT_THAT(verify.out, HasSubstr("nothing is missing, every page"));
  const ChildResult json = Child::Start({Hindsight(), "verify", "--json", whole_}).Finish();
  EXPECT_THAT(json.out, HasSubstr("\"whole\": true"));
}

TEST_F(DamagedSnapshotsTest, AChangedByteIsNamedWhereverItIs) {
  std::mt19937 random(11);
  for (const std::string& file : Files()) Damage(file, &random, [&] { ExpectNamed(file); });
}

// Of six snapshots the newest five are the trace; full/1 is still there for their pages.
TEST_F(DamagedSnapshotsTest, WhatIsKeptOfARingIsWholeAndDamageInItIsNamed) {
  Snap({"--ring=5"});
  const ChildResult verify = Verify(whole_);
  EXPECT_EQ(verify.Ending(), "exit 0") << verify.out << verify.err;
  EXPECT_THAT(verify.out, testing::StartsWith("whole: 5 snapshots, "));
  std::mt19937 random(12);
  const std::vector<std::string> files = Files();
  ASSERT_TRUE(std::filesystem::exists(whole_ + "/full/1"));
  ASSERT_FALSE(std::filesystem::is_empty(whole_ + "/modules"));
  for (const std::string& file : files) {
    if (file == "full/1") continue;
    Damage(file, &random, [&] { ExpectNamed(file); });
  }
  // Not all that is in it is needed, but no damage goes unnoticed that changes a page.
  int named = 0;
  Damage("full/1", &random, [&] {
    const ChildResult damaged = Verify(damaged_);
    if (damaged.Ending() == "exit 0") return;
    ++named;
    EXPECT_THAT(damaged.out + damaged.err, HasSubstr("full/1"));
  });
  EXPECT_GE(named, 2);  // that it is cut off, that it is missing
}

// The beginning is lost that says that there is nothing before it.
TEST_F(DamagedSnapshotsTest, AMissingOldestSnapshotOfARingIsNamed) {
  Snap({"--ring=3"});
  EXPECT_THAT(Verify(whole_).out, testing::StartsWith("whole: 3 snapshots, "));
  for (const char* file : {"full/4", "full/5", "full/6"}) {
    Copy();
    std::filesystem::remove(damaged_ + "/" + file);
    ExpectNamed(file);
  }
}

// Wherever the damage is: in what is stored, or in what says where that is.
TEST_F(DamagedSnapshotsTest, TheSnapshotsThatNeedItAreListed) {
  const auto listed = [&](const std::string& file, size_t offset) {
    Copy();
    std::string bytes = ReadFile(damaged_ + "/" + file);
    bytes.at(offset) ^= 1;
    WriteFile(damaged_ + "/" + file, bytes);
    return Verify(damaged_).out;
  };
  const size_t first = ReadFile(whole_ + "/full/1").size();
  const size_t last = ReadFile(whole_ + "/full/6").size();
  for (const size_t part : {0, 1, 2, 3, 4, 5, 6, 7}) {
    // All later ones refer to the pages of the first.
    EXPECT_THAT(listed("full/1", first / 8 * part),
                HasSubstr("damaged: 1, 2, 3, 4, 5, 6; first: "));
    EXPECT_THAT(listed("full/6", last / 8 * part), HasSubstr("damaged: 6; first: "));
  }
}

TEST_F(DamagedSnapshotsTest, ASnapshotOfWhichNothingCanBeReadIsListed) {
  Copy();
  std::filesystem::resize_file(damaged_ + "/full/6", 16);
  EXPECT_THAT(Verify(damaged_).out, HasSubstr("damaged: 6; first: "));
  Copy();
  std::filesystem::remove(damaged_ + "/full/6");
  EXPECT_THAT(Verify(damaged_).out, HasSubstr("damaged: 6; first: "));
}

}  // namespace
}  // namespace hindsight::e2e

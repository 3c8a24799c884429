#include "cli/options.h"

#include <cstdint>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace hindsight {
namespace {

class OptionsTest : public ::testing::Test {
 protected:
  OptionsTest() : options_("play [options] -- PROG", "Plays.") {
    options_.Add("output", &output_, "DIR", "Where to.");
    options_.Alias('o');
    options_.Add("interval", &interval_, "N", "How often.");
    options_.Add("age", &age_, "TIME", "How old.");
    options_.Add("json", &json_, "", "As JSON.");
    options_.Add("check", &check_, "RATE", "Checks.");
    options_.ValueIfNoneGiven("100");
  }

  absl::StatusOr<Options::Parsed> Parse(const std::vector<std::string>& arguments,
                                        bool operands_end_options = false) {
    return options_.Parse(arguments, operands_end_options);
  }

  std::string output_;
  uint64_t interval_ = 1000;
  absl::Duration age_ = absl::Seconds(2);
  bool json_ = false;
  uint64_t check_ = 0;
  Options options_;
};

TEST_F(OptionsTest, AcceptsEverySpelling) {
  auto parsed = Parse({"--output=a", "--interval", "7", "--age=1m", "--json", "x", "--", "-y"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(output_, "a");
  EXPECT_EQ(interval_, 7);
  EXPECT_EQ(age_, absl::Minutes(1));
  EXPECT_TRUE(json_);
  EXPECT_TRUE(parsed->separator);
  EXPECT_EQ(parsed->operands, std::vector<std::string>{"x"});
  EXPECT_EQ(parsed->rest, std::vector<std::string>{"-y"});
}

TEST_F(OptionsTest, AcceptsShortLetters) {
  ASSERT_TRUE(Parse({"-o", "a"}).ok());
  EXPECT_EQ(output_, "a");
  ASSERT_TRUE(Parse({"-ob"}).ok());
  EXPECT_EQ(output_, "b");
}

TEST_F(OptionsTest, FlagsCanBeNegated) {
  json_ = true;
  ASSERT_TRUE(Parse({"--nojson"}).ok());
  EXPECT_FALSE(json_);
}

TEST_F(OptionsTest, AnOptionalValueIsNotTheNextArgument) {
  auto parsed = Parse({"--check", "7"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(check_, 100u);
  EXPECT_EQ(parsed->operands, std::vector<std::string>{"7"});
  ASSERT_TRUE(Parse({"--check=7"}).ok());
  EXPECT_EQ(check_, 7u);
  EXPECT_NE(options_.Help().find("--check[=RATE]"), std::string::npos);
}

TEST_F(OptionsTest, FirstOperandEndsOptionsWhereAsked) {
  auto parsed = Parse({"--json", "ls", "--color", "-l"}, /*operands_end_options=*/true);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->rest, (std::vector<std::string>{"ls", "--color", "-l"}));
}

TEST_F(OptionsTest, RejectsUnknownOption) {
  EXPECT_EQ(Parse({"--nothing"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Parse({"-z"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Parse({"--nooutput"}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(OptionsTest, RejectsMissingValue) {
  EXPECT_EQ(Parse({"--output"}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(OptionsTest, RejectsMalformedValue) {
  EXPECT_EQ(Parse({"--interval=often"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Parse({"--json=perhaps"}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(OptionsTest, HelpNamesEveryOptionAndDefault) {
  auto parsed = Parse({"--help", "--nothing"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed->help);
  std::string help = options_.Help();
  for (const char* text : {"hindsight play", "-o, --output=DIR", "--interval=N", "[1000]", "[2s]",
                           "--json", "--help"}) {
    EXPECT_NE(help.find(text), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace hindsight

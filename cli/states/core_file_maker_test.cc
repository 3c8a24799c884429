#include "cli/states/core_file_maker.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace hindsight {
namespace {

class CoreFileMakerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(directory_);
    std::filesystem::create_directory(Path(".ssh"));
  }
  // Makers that have just lost their client may be removing their files, too.
  void TearDown() override {
    std::error_code error;
    do std::filesystem::remove_all(directory_, error);
    while (std::filesystem::exists(directory_));
  }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  static bool Exists(const std::string& path) {
    return std::filesystem::exists(std::filesystem::symlink_status(path));
  }
  static std::string Contents(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static CoreFileMaker Start(CoreFileMaker::Names names = CoreFileMaker::Names::kUntrusted) {
    return *CoreFileMaker::Start(names);
  }
  static absl::Status WriteHeader(CoreOutput* output, uint16_t type = ET_CORE) {
    Elf64_Ehdr header = {};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_type = type;
    return output->WriteAt(
        0, absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(&header), sizeof(header)));
  }
  static absl::Status WriteText(CoreOutput* output, uint64_t offset, const std::string& text) {
    return output->WriteAt(
        offset, absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
  }

  const std::string directory_ = "/tmp/core_file_maker_test" + std::to_string(getpid());
};

TEST_F(CoreFileMakerTest, WritesWhatItIsSentAndZerosBetween) {
  CoreFileMaker maker = Start();
  auto output = maker.Create(Path("core"));
  ASSERT_TRUE(output.ok()) << output.status();
  ASSERT_TRUE(WriteHeader(output->get()).ok());
  const std::string large(3 << 20, 'x');
  ASSERT_TRUE(WriteText(output->get(), 100, large).ok());
  ASSERT_TRUE((*output)->Finish().ok());
  const std::string contents = Contents(Path("core"));
  EXPECT_EQ(contents.substr(64, 36), std::string(36, '\0'));
  EXPECT_EQ(contents.substr(100), large);
}

TEST_F(CoreFileMakerTest, AFileThatExistsIsLeftAlone) {
  std::ofstream(Path("core")) << "precious";
  CoreFileMaker maker = Start();
  EXPECT_TRUE(absl::IsAlreadyExists(maker.Create(Path("core")).status()));
  std::filesystem::create_symlink(Path("nowhere"), Path("link"));
  EXPECT_TRUE(absl::IsAlreadyExists(maker.Create(Path("link")).status()));
  EXPECT_EQ(Contents(Path("core")), "precious");
  EXPECT_FALSE(Exists(Path("nowhere")));
}

TEST_F(CoreFileMakerTest, WhatIsNotFinishedIsRemoved) {
  CoreFileMaker maker = Start();
  {
    auto output = maker.Create(Path("dropped"));
    ASSERT_TRUE(output.ok());
    ASSERT_TRUE(WriteHeader(output->get()).ok());
  }
  // The next request is answered after the one before was.
  EXPECT_TRUE(maker.Create(Path("next")).ok());
  EXPECT_FALSE(Exists(Path("dropped")));
}

TEST_F(CoreFileMakerTest, OnlyCoresAreMade) {
  CoreFileMaker maker = Start();
  auto output = maker.Create(Path("script"));
  ASSERT_TRUE(output.ok());
  ASSERT_TRUE(WriteText(output->get(), 0, "#!/bin/sh\n").ok());
  EXPECT_FALSE((*output)->Finish().ok());
  EXPECT_FALSE(Exists(Path("script")));

  output = maker.Create(Path("executable"));
  ASSERT_TRUE(output.ok());
  ASSERT_TRUE(WriteHeader(output->get(), ET_EXEC).ok());
  EXPECT_FALSE((*output)->Finish().ok());
  EXPECT_FALSE(Exists(Path("executable")));

  output = maker.Create(Path("headless"));
  ASSERT_TRUE(output.ok());
  ASSERT_TRUE(WriteText(output->get(), 64, "text").ok());
  EXPECT_FALSE((*output)->Finish().ok());
  EXPECT_FALSE(Exists(Path("headless")));
}

TEST_F(CoreFileMakerTest, OfEditsNothingButEditsIsMade) {
  CoreFileMaker maker = Start();
  const auto made = [&](const std::vector<std::string>& parts) {
    auto output = maker.Create(Path("e.edits"), OutputKind::kEdits);
    EXPECT_TRUE(output.ok()) << output.status();
    uint64_t offset = 0;
    for (const std::string& part : parts) {
      EXPECT_TRUE(WriteText(output->get(), offset, part).ok());
      offset += part.size();
    }
    const bool finished = (*output)->Finish().ok();
    EXPECT_EQ(Exists(Path("e.edits")), finished);
    std::filesystem::remove(Path("e.edits"));
    return finished;
  };
  EXPECT_TRUE(made({"snapshot 00ff 1\nmem", "ory 0x10 00ff\n", "register 12 xmm0.lo 0x2a\n"}));
  EXPECT_TRUE(made({"snapshot 00ff 1\n"}));
  EXPECT_FALSE(made({}));
  EXPECT_FALSE(made({"snapshot 00ff 1"}));
  EXPECT_FALSE(made({"snapshot 00ff 1\n0 0 1 1 0 root reboot\n"}));
  EXPECT_FALSE(made({"snapshot 00ff 1\nmemory;reboot\n"}));
  EXPECT_FALSE(made({"snapshot 00ff 1\nmemory $x\n"}));
  EXPECT_FALSE(made({"snapshot 00ff 1\nmem\n"}));
  EXPECT_FALSE(made({"snapshot 00ff 1\n\n"}));
  // Not from its beginning to its end.
  auto output = maker.Create(Path("e.edits"), OutputKind::kEdits);
  ASSERT_TRUE(WriteText(output->get(), 1, "snapshot 00ff 1\n").ok());
  EXPECT_FALSE((*output)->Finish().ok());
  // A core is not edits.
  output = maker.Create(Path("e.edits"), OutputKind::kEdits);
  ASSERT_TRUE(WriteHeader(output->get(), ET_CORE).ok());
  EXPECT_FALSE((*output)->Finish().ok());
}

TEST_F(CoreFileMakerTest, HiddenFilesAreMadeForTrustedNamesOnly) {
  EXPECT_TRUE(absl::IsPermissionDenied(Start().Create(Path(".profile")).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(Start().Create(Path(".ssh/x")).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(Start().Create(Path(".ssh/.core")).status()));
  EXPECT_TRUE(Start().Create(Path(".ssh/x.core")).ok());
  EXPECT_TRUE(Start().Create(Path(".ssh/x.edits"), OutputKind::kEdits).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(Start().Create(Path(".x.edits")).status()));
  EXPECT_TRUE(Start().Create(Path("./x")).ok());
  EXPECT_TRUE(Start(CoreFileMaker::Names::kTrusted).Create(Path(".profile")).ok());
}

TEST_F(CoreFileMakerTest, ErrorsNameTheFile) {
  const absl::Status status = Start().Create(Path("no/such/directory")).status();
  EXPECT_NE(status.message().find(Path("no/such/directory")), absl::string_view::npos) << status;
  CoreFileMaker maker = Start();
  maker.set_allowed(false);
  EXPECT_TRUE(absl::IsPermissionDenied(maker.Create(Path("core")).status()));
}

}  // namespace
}  // namespace hindsight

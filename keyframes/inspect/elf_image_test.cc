#include "keyframes/inspect/elf_image.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"

// Found by name in this very program.
extern "C" {
__attribute__((used, visibility("default"))) extern const uint32_t hindsight_elf_image_test[2] = {
    0x12345678, 0x9abcdef0};
}

namespace hindsight {
namespace {

std::vector<uint8_t> OwnProgram() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return std::vector<uint8_t>(std::istreambuf_iterator<char>(file), {});
}

TEST(ElfImageTest, FindsBytesOfSymbol) {
  std::vector<uint8_t> file = OwnProgram();
  auto image = ElfImage::Parse(file);
  ASSERT_TRUE(image.ok()) << image.status();
  auto bytes = image->SymbolBytes("hindsight_elf_image_test", 8);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(std::memcmp(bytes->data(), hindsight_elf_image_test, 8), 0);
}

TEST(ElfImageTest, UnknownSymbolIsNotFound) {
  std::vector<uint8_t> file = OwnProgram();
  auto image = ElfImage::Parse(file);
  ASSERT_TRUE(image.ok());
  EXPECT_FALSE(image->SymbolBytes("no_such_symbol_anywhere", 1).has_value());
}

TEST(ElfImageTest, RejectsWhatIsNotElf) {
  EXPECT_FALSE(ElfImage::Parse({}).ok());
  std::vector<uint8_t> text(100, '#');
  EXPECT_FALSE(ElfImage::Parse(text).ok());
}

TEST(ElfImageTest, SurvivesTruncation) {
  std::vector<uint8_t> file = OwnProgram();
  for (size_t size : {size_t{64}, size_t{1000}, file.size() / 2, file.size() - 100}) {
    std::vector<uint8_t> cut(file.begin(), file.begin() + size);
    auto image = ElfImage::Parse(cut);
    if (image.ok()) image->SymbolBytes("hindsight_elf_image_test", 8);
  }
}

}  // namespace
}  // namespace hindsight

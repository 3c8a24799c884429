#include "recorder/translate/view/byte_hash.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tracefmt/memory_hash.h"

namespace hindsight {
namespace {

// As the library has it, which uses what the processor has.
TEST(ByteHashTest, IsThatOfTheTrace) {
  std::vector<uint8_t> bytes(10'000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * i >> 3);
  for (size_t size = 0; size < bytes.size(); size += size < 600 ? 1 : 997) {
    EXPECT_EQ(HashBytes(bytes.data(), size), HashMemory(absl::MakeSpan(bytes.data(), size)));
  }
}

}  // namespace
}  // namespace hindsight

#include "tracefmt/storage/columns.h"

#include <capnp/message.h>
#include <capnp/orphan.h>

#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

ByteColumn Bytes(const std::vector<uint8_t>& bytes) {
  return ByteColumn(capnp::Data::Reader(bytes.data(), bytes.size()));
}

TEST(ColumnTest, HandsOutItsElementsAndNoMore) {
  capnp::MallocMessageBuilder message;
  auto list = message.getOrphanage().newOrphan<capnp::List<uint64_t>>(2);
  list.get().set(0, 7);
  list.get().set(1, 8);
  WordColumn column(list.getReader());
  uint64_t word = 0;
  EXPECT_TRUE(column.Take(&word));
  EXPECT_EQ(word, 7u);
  EXPECT_TRUE(column.Take(&word));
  EXPECT_EQ(word, 8u);
  EXPECT_FALSE(column.Take(&word));
  EXPECT_EQ(word, 8u);
}

TEST(ByteColumnTest, RunsAreWholeOrRefused) {
  const std::vector<uint8_t> bytes = {1, 2, 3};
  ByteColumn column = Bytes(bytes);
  absl::Span<const uint8_t> run;
  EXPECT_TRUE(column.Take(2, &run));
  EXPECT_EQ(run.data(), bytes.data());
  EXPECT_FALSE(column.Take(2, &run));
  EXPECT_EQ(column.size(), 1u);
  uint8_t byte = 0;
  EXPECT_TRUE(column.Take(&byte));
  EXPECT_EQ(byte, 3);
  EXPECT_FALSE(column.Take(&byte));
  EXPECT_TRUE(column.Take(0, &run));
}

TEST(ByteColumnTest, Varints) {
  const std::vector<uint8_t> largest = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1};
  std::vector<uint8_t> too_large = largest;
  too_large.back() = 2;
  uint64_t value = 0;
  EXPECT_TRUE(Bytes({0}).TakeVarint(&value));
  EXPECT_EQ(value, 0u);
  EXPECT_TRUE(Bytes({0xac, 0x02, 0xff}).TakeVarint(&value));
  EXPECT_EQ(value, 300u);
  EXPECT_TRUE(Bytes(largest).TakeVarint(&value));
  EXPECT_EQ(value, ~uint64_t{0});
  EXPECT_FALSE(Bytes(too_large).TakeVarint(&value));
  EXPECT_FALSE(Bytes({}).TakeVarint(&value));
  EXPECT_FALSE(Bytes({0x80}).TakeVarint(&value));
  EXPECT_FALSE(Bytes(std::vector<uint8_t>(11, 0x80)).TakeVarint(&value));
}

}  // namespace
}  // namespace hindsight

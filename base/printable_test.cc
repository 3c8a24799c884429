#include "base/printable.h"

#include <gtest/gtest.h>

namespace hindsight {
namespace {

TEST(PrintableTest, WhatCanBePrintedStaysAsItIs) {
  for (const char* text : {"", "plain", "a/b c\\d \"e\"", "Grüße, 世界 🙂"}) {
    EXPECT_EQ(Printable(text), text);
  }
}

TEST(PrintableTest, WhatATerminalWouldObeyIsEscaped) {
  EXPECT_EQ(Printable("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(Printable(absl::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Printable("a\nb\tc\rd\x7f"), "a\\x0ab\\x09c\\x0dd\\x7f");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");  // C1: CSI
  EXPECT_EQ(Printable("a\xe2\x80\xae"
                      "b"),
            "a\\xe2\\x80\\xaeb");  // right to left
  EXPECT_EQ(Printable("\xe2\x81\xa6\xef\xbb\xbf"), "\\xe2\\x81\\xa6\\xef\\xbb\\xbf");
}

TEST(PrintableTest, BrokenUtf8IsEscapedByteByByte) {
  EXPECT_EQ(Printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(Printable("a\xc3"), "a\\xc3");
  EXPECT_EQ(Printable("\xc0\x80"), "\\xc0\\x80");           // overlong
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(Printable("\xe4\xb8x"), "\\xe4\\xb8x");
}

TEST(PrintableTest, LinesStayLines) { EXPECT_EQ(PrintableLines("a\n\tb\x1b\n"), "a\n\tb\\x1b\n"); }

}  // namespace
}  // namespace hindsight

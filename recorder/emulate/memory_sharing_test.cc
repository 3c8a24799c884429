#include "recorder/emulate/memory_sharing.h"

#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(MemorySharingTest, AProcessOfOneThreadIsTrusted) {
  const MemorySharing sharing;
  EXPECT_TRUE(sharing.trusted());
  EXPECT_TRUE(sharing.own());
  EXPECT_FALSE(sharing.shared());
  EXPECT_FALSE(sharing.written_elsewhere());
}

TEST(MemorySharingTest, ThreadsShareWithoutWritingElsewhere) {
  MemorySharing sharing;
  sharing.NoteManyThreads();
  EXPECT_TRUE(sharing.shared());
  EXPECT_TRUE(sharing.own());
  EXPECT_FALSE(sharing.written_elsewhere());
  EXPECT_FALSE(sharing.trusted());
}

TEST(MemorySharingTest, ABorrowerIsNotTrustedUntilItReturnsMemory) {
  MemorySharing sharing;
  sharing.NoteBorrowed();
  EXPECT_FALSE(sharing.trusted());
  EXPECT_TRUE(sharing.TakeBorrowed());
  EXPECT_FALSE(sharing.TakeBorrowed());
  EXPECT_TRUE(sharing.trusted());
}

TEST(MemorySharingTest, AfterExecMemoryIsItsOwn) {
  MemorySharing sharing;
  sharing.NoteSharedWithProcess();
  sharing.NoteLent();
  sharing.NoteAsynchronous();
  EXPECT_TRUE(sharing.written_elsewhere());
  sharing.OnExec();
  EXPECT_TRUE(sharing.own());
  EXPECT_TRUE(sharing.trusted());
}

TEST(MemorySharingTest, TrustIsLostForGood) {
  MemorySharing sharing;
  sharing.StopTrusting();
  sharing.OnExec();
  EXPECT_FALSE(sharing.trusted());
}

TEST(MemorySharingTest, WhatWasWrittenIsTakenOnce) {
  MemorySharing sharing;
  sharing.NoteWritten({0x1000, 8});
  EXPECT_TRUE(sharing.has_written());
  EXPECT_EQ(sharing.TakeWritten().size(), 1u);
  EXPECT_FALSE(sharing.has_written());
}

}  // namespace
}  // namespace hindsight

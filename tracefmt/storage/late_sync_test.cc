#include "tracefmt/storage/late_sync.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <future>
#include <set>
#include <utility>
#include <vector>

namespace hindsight {
namespace {

UniqueFd AnyFile() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

TEST(LateSyncTest, WhoAddsDoesNotWaitAndWhatComesMeanwhileIsHandedOverTogether) {
  std::promise<void> begun, go_on;
  std::vector<size_t> batches;
  std::set<int> added, synced;
  {
    LateSync late([&](const std::vector<UniqueFd>& files) {
      batches.push_back(files.size());
      for (const UniqueFd& file : files) synced.insert(file.get());
      if (batches.size() > 1) return;
      begun.set_value();
      go_on.get_future().wait();
    });
    for (int i = 0; i < 5; ++i) {
      UniqueFd file = AnyFile();
      added.insert(file.get());
      late.Add(std::move(file));
      if (i == 0) begun.get_future().wait();
    }
    go_on.set_value();
  }
  EXPECT_EQ(batches, (std::vector<size_t>{1, 4}));
  EXPECT_EQ(synced, added);
}

TEST(LateSyncTest, WhatCannotBeHandedOverIsLeft) {
  LateSync late;
  late.Add(AnyFile());
}

}  // namespace
}  // namespace hindsight

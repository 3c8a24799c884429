#include "recorder/translate/memo/translation_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace hindsight {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPage = 0x401, kPc = kPage << 12, kHost = 0x10000;
constexpr uid_t kSomebody = 65534;

class TranslationStoreTest : public testing::Test {
 protected:
  TranslationStoreTest() {
    std::string name = "/tmp/translation_storeXXXXXX";  // not where only root gets to
    directory_ = mkdtemp(name.data()) + std::string("/cache");
  }
  ~TranslationStoreTest() override { fs::remove_all(fs::path(directory_).parent_path()); }

  std::unique_ptr<TranslationStore> Open(uint64_t max_bytes = TranslationStore::kMaxBytes) const {
    return TranslationStore::Open(directory_, "this version", max_bytes);
  }
  // A block at `pc` whose code consists of `filler`.
  std::unique_ptr<Translation> Block(uint64_t pc, uint8_t filler) const {
    TranslatedBlock block;
    block.code.assign(100, filler);
    block.exits_offset = 96;
    block.guest_bytes = 5;
    block.side = {{.host_offset = 3, .guest_offset = 1, .adjust = -2}};
    block.links = {{.rel32_offset = 8, .guest_target = pc + 5}};
    block.relied_on = {{.pc = pc + 5, .bytes = 3}};
    block.to_exits = {50};
    block.outward = {20, 96};
    block.own = {40};
    static constexpr uint8_t kBytes[] = {1, 2, 3, 4, 5, 6, 7, 8};
    return MakeTranslation(
        pc, kHost, block, [=](uint64_t at) { return absl::MakeConstSpan(kBytes).subspan(at - pc); },
        &pool_);
  }
  void Save(const TranslationStore& store, const std::string& name, uint8_t filler,
            const TranslationFile* known = nullptr, uint64_t pc = kPc) const {
    const auto one = Block(pc, filler), other = Block(pc + 0x1010, filler);
    store.Save(name, known, {one.get(), other.get()}, {});
  }
  // A block in each of `made`; then what Open finds of "a".
  std::unique_ptr<TranslationFile> SavePages(const TranslationFile* known,
                                             const std::vector<uint64_t>& made,
                                             const std::vector<uint64_t>& used) const {
    std::vector<std::unique_ptr<Translation>> blocks;
    std::vector<const Translation*> pointers;
    for (const uint64_t page : made) {
      pointers.push_back(blocks.emplace_back(Block(page << 12, 0x90)).get());
    }
    Open()->Save("a", known, pointers, used);
    return Open()->Load("a");
  }
  using Pages = std::vector<uint64_t>;
  std::vector<fs::path> Files() const {
    return {fs::directory_iterator(directory_), fs::directory_iterator()};
  }
  static std::string BytesOf(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  std::string directory_;
  mutable StoragePool pool_;
};

TEST_F(TranslationStoreTest, WhatWasSavedIsLoaded) {
  Save(*Open(), "a", 0x90);
  struct stat facts;
  ASSERT_EQ(stat(directory_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
  ASSERT_EQ(Files().size(), 1u);
  ASSERT_EQ(stat(Files().front().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  const auto file = Open()->Load("a");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->block_count(), 2u);
  EXPECT_EQ(file->Pages(), (Pages{kPage, kPage + 1}));
  const auto blocks = file->InPage(kPage);
  ASSERT_EQ(blocks.size(), 1u);
  const Translation& found = blocks.front();
  const auto made = Block(kPc, 0x90);
  EXPECT_EQ(found.guest_pc, kPc);
  EXPECT_EQ(found.made_for, kHost);
  EXPECT_TRUE(found.lasting);
  EXPECT_EQ(found.bytes, made->bytes);
  EXPECT_EQ(found.relied_on, made->relied_on);
  EXPECT_EQ(found.block.code, made->block.code);
  EXPECT_EQ(found.block.exits, made->block.exits);
  EXPECT_EQ(found.block.to_exits, made->block.to_exits);
  EXPECT_EQ(found.block.guest_bytes, 5u);
  EXPECT_EQ(found.block.outward, made->block.outward);
  EXPECT_EQ(found.block.own, made->block.own);
  ASSERT_EQ(found.block.side.size(), 1u);
  EXPECT_EQ(found.block.side[0].adjust, -2);
  ASSERT_EQ(found.block.links.size(), 1u);
  EXPECT_EQ(found.block.links[0].guest_target, kPc + 5);
  ASSERT_EQ(found.block.relied_on.size(), 1u);
  EXPECT_EQ(found.block.relied_on[0].bytes, 3u);
  EXPECT_TRUE(file->InPage(kPage + 5).empty());
}

TEST_F(TranslationStoreTest, WhatIsNewIsAddedToWhatIsKnown) {
  Save(*Open(), "a", 0x90);
  const auto known = Open()->Load("a");
  Save(*Open(), "a", 0xcc, known.get(), kPc + 0x1010);  // one of the two, and one more
  const auto file = Open()->Load("a");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->block_count(), 3u);
  EXPECT_EQ(file->InPage(kPage).at(0).block.code[0], 0x90);
  EXPECT_EQ(file->InPage(kPage + 1).at(0).block.code[0], 0xcc);
  EXPECT_EQ(file->InPage(kPage + 2).at(0).block.code[0], 0xcc);
}

TEST_F(TranslationStoreTest, PagesAreInTheOrderInWhichTheyWereUsed) {
  const auto file = SavePages(nullptr, {7, 3, 5, 1, 9}, {5, 1, 9, 2, 3});
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->Pages(), (Pages{5, 1, 9, 3, 7})) << "nothing of 2, and 7 was not used";
  for (uint32_t place = 0; place < 5; ++place) {
    const std::optional<uint64_t> page = file->PageAt(place);
    ASSERT_TRUE(page.has_value());
    EXPECT_EQ(*page, file->Pages()[place]);
    EXPECT_EQ(file->PlaceOf(*page), place);
    EXPECT_EQ(file->Image(*page)->page(), *page);
    EXPECT_EQ(file->InPage(*page).size(), 1u);
  }
  EXPECT_FALSE(file->PageAt(5).has_value());
  EXPECT_FALSE(file->PlaceOf(2).has_value());
}

TEST_F(TranslationStoreTest, NewPagesComeAfterThoseThatTheyWereUsedAfter) {
  auto file = SavePages(nullptr, {7, 3, 5, 1}, {7, 3, 5, 1});
  file = SavePages(file.get(), {20, 22, 21, 23}, {20, 3, 22, 21, 1, 7, 23});
  EXPECT_EQ(file->Pages(), (Pages{20, 7, 23, 3, 22, 21, 5, 1}));
  // One more block in a page that is known.
  const auto block = Block((3 << 12) + 0x100, 0x90);
  Open()->Save("a", file.get(), {block.get()}, {3});
  const auto again = Open()->Load("a");
  EXPECT_EQ(again->Pages(), file->Pages());
  EXPECT_EQ(again->InPage(3).size(), 2u);
}

// A file whose checksums are right, and its order is not.
TEST_F(TranslationStoreTest, AnOrderWithoutAPlaceForEachPageIsRefused) {
  constexpr size_t kHeaderBytes = 64, kEntryBytes = 40, kPlace = 32, kPages = 3;
  ASSERT_NE(SavePages(nullptr, {7, 3, 5}, {7, 3, 5}), nullptr);
  const fs::path path = Files().front();
  const std::string bytes = BytesOf(path);
  const auto open_with = [&](size_t offset, uint32_t value) {
    std::string changed = bytes;
    std::memcpy(&changed[offset], &value, sizeof(value));
    uint64_t checksum = 0, links = 0;
    std::memcpy(&links, &changed[40], sizeof(links));
    std::memcpy(&changed[kHeaderBytes - 8], &checksum, sizeof(checksum));
    checksum = XXH3_64bits_withSeed(&changed[kHeaderBytes], kPages * kEntryBytes + links * 24,
                                    XXH3_64bits(changed.data(), kHeaderBytes));
    std::memcpy(&changed[kHeaderBytes - 8], &checksum, sizeof(checksum));
    std::ofstream(path, std::ios::binary | std::ios::trunc) << changed;
    return Open()->Load("a") != nullptr;
  };
  for (size_t entry = 0; entry < kPages; ++entry) {
    for (const size_t field : {kPlace, kPlace + 4}) {
      const size_t offset = kHeaderBytes + entry * kEntryBytes + field;
      uint32_t right = 0;
      std::memcpy(&right, &bytes[offset], sizeof(right));
      ASSERT_LT(right, kPages);
      EXPECT_TRUE(open_with(offset, right));
      EXPECT_FALSE(open_with(offset, (right + 1) % kPages)) << entry << " at " << field;
      EXPECT_FALSE(open_with(offset, kPages)) << entry << " at " << field;
      EXPECT_FALSE(open_with(offset, ~uint32_t{0})) << entry << " at " << field;
    }
  }
}

// A file that was written to since: what was made last is right.
TEST_F(TranslationStoreTest, WhatWasMadeFromOtherBytesIsForgotten) {
  const auto make = [this](uint64_t pc, uint8_t byte) {
    TranslatedBlock block;
    block.code.assign(16, byte);
    block.exits_offset = 16;
    block.guest_bytes = 8;
    return MakeTranslation(
        pc, kHost, block,
        [=](uint64_t) {
          static uint8_t bytes[8];
          std::memset(bytes, byte, sizeof(bytes));
          return absl::MakeConstSpan(bytes);
        },
        &pool_);
  };
  const auto old = make(kPc, 1), apart = make(kPc + 100, 1), across = make(kPc + 4, 2);
  Open()->Save("a", nullptr, {old.get(), apart.get()}, {});
  const auto known = Open()->Load("a");
  Open()->Save("a", known.get(), {across.get()}, {});
  const auto blocks = Open()->Load("a")->InPage(kPage);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].guest_pc, kPc + 4);
  EXPECT_EQ(blocks[1].guest_pc, kPc + 100);
}

TEST_F(TranslationStoreTest, OtherVersionsAndOtherCodeFindNothing) {
  Save(*Open(), "a", 0x90);
  EXPECT_EQ(Open()->Load("b"), nullptr);
  EXPECT_EQ(TranslationStore::Open(directory_, "other version")->Load("a"), nullptr);
  // Under its name, but not made by it.
  const fs::path as_made = Files().front();
  Save(*TranslationStore::Open(directory_, "other version"), "a", 0xcc);
  for (const fs::path& path : Files()) {
    if (path != as_made) fs::rename(path, as_made);
  }
  EXPECT_EQ(Open()->Load("a"), nullptr);
}

TEST_F(TranslationStoreTest, OfADamagedFileOnlyWhatIsWholeIsFound) {
  Save(*Open(), "a", 0x90);
  const fs::path path = Files().front();
  const std::string bytes = BytesOf(path);
  int found = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << at % 8);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    const auto file = Open()->Load("a");
    if (file == nullptr) continue;
    const auto first = file->InPage(kPage), second = file->InPage(kPage + 1);
    EXPECT_EQ(first.size() + second.size(), 1u) << "byte " << at;
    for (const Translation& one : first) EXPECT_EQ(one.block.code, Block(kPc, 0x90)->block.code);
    found += static_cast<int>(first.size() + second.size());
  }
  EXPECT_GT(found, 100);
}

TEST_F(TranslationStoreTest, ATruncatedFileIsNotFound) {
  Save(*Open(), "a", 0x90);
  const fs::path path = Files().front();
  for (uint64_t size = fs::file_size(path); size-- > 0;) {
    fs::resize_file(path, size);
    EXPECT_EQ(Open()->Load("a"), nullptr) << size << " bytes";
  }
}

// As root that means becoming somebody else.
TEST_F(TranslationStoreTest, AFolderThatCannotBeWrittenToIsReadNevertheless) {
  Save(*Open(), "a", 0x90);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(directory_.c_str(), kSomebody, kSomebody), 0);
    ASSERT_EQ(chown(Files().front().c_str(), kSomebody, kSomebody), 0);
    ASSERT_EQ(chmod(fs::path(directory_).parent_path().c_str(), 0755), 0);
  }
  ASSERT_EQ(chmod(directory_.c_str(), 0500), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && seteuid(kSomebody) != 0) _exit(3);
    const auto store = Open();
    if (store == nullptr) _exit(4);
    const auto known = store->Load("a");
    if (known == nullptr) _exit(5);
    Save(*store, "a", 0xcc, known.get());
    const auto file = store->Load("a");
    _exit(file != nullptr && file->InPage(kPage).at(0).block.code[0] == 0x90 ? 0 : 6);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  chmod(directory_.c_str(), 0700);
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(TranslationStoreTest, WhatOthersOwnOrCanWriteToIsNotUsed) {
  Save(*Open(), "a", 0x90);
  const fs::path path = Files().front();
  ASSERT_EQ(chmod(path.c_str(), 0620), 0);
  EXPECT_EQ(Open()->Load("a"), nullptr);
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_NE(Open()->Load("a"), nullptr);
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  EXPECT_EQ(Open(), nullptr);
  ASSERT_EQ(chmod(directory_.c_str(), 0700), 0);
  fs::rename(path, directory_ + "/elsewhere");
  fs::create_symlink(directory_ + "/elsewhere", path);
  EXPECT_EQ(Open()->Load("a"), nullptr);
  fs::rename(directory_ + "/elsewhere", path);
  EXPECT_NE(Open()->Load("a"), nullptr);
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(chown(path.c_str(), kSomebody, kSomebody), 0);
  EXPECT_EQ(Open()->Load("a"), nullptr);
  ASSERT_EQ(chown(directory_.c_str(), kSomebody, kSomebody), 0);
  EXPECT_EQ(Open(), nullptr);
}

TEST_F(TranslationStoreTest, NoFolderIsNoStore) {
  EXPECT_EQ(TranslationStore::Open("", "this version"), nullptr);
  EXPECT_EQ(TranslationStore::Open("/proc/no/such/folder", "this version"), nullptr);
  EXPECT_EQ(TranslationStore::Open(directory_, ""), nullptr);
  setenv("XDG_CACHE_HOME", "/some/where", 1);
  EXPECT_EQ(TranslationStore::DefaultDirectory(), "/some/where/hindsight");
  setenv("XDG_CACHE_HOME", "not/absolute", 1);
  setenv("HOME", "/nonexistent", 1);
  EXPECT_EQ(TranslationStore::DefaultDirectory(), "");
  unsetenv("HOME");
  EXPECT_EQ(TranslationStore::DefaultDirectory(), "");
}

// Whoever loads meanwhile gets a whole file of one of them.
TEST_F(TranslationStoreTest, SeveralMaySaveAtOnce) {
  Save(*Open(), "a", 0x90);
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    for (int round = 0; round < 200; ++round) {
      Save(*Open(), "a", static_cast<uint8_t>(0x90 + i));
    }
    _exit(0);
  }
  for (int i = 0; i < 500; ++i) {
    const auto file = Open()->Load("a");
    ASSERT_NE(file, nullptr);
    const auto first = file->InPage(kPage), second = file->InPage(kPage + 1);
    ASSERT_EQ(first.size(), 1u);
    ASSERT_EQ(second.size(), 1u);
    EXPECT_EQ(first[0].block.code, second[0].block.code);
  }
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(TranslationStoreTest, TheOldestAreDropped) {
  Save(*Open(), "a", 0x90);
  const uint64_t each = fs::file_size(Files().front());
  const auto store = Open(3 * each);
  for (const char* name : {"b", "c"}) Save(*store, name, 0x90);
  EXPECT_NE(store->Load("a"), nullptr);  // so that b is the oldest
  Save(*store, "d", 0x90);
  EXPECT_EQ(Files().size(), 3u);
  EXPECT_NE(store->Load("a"), nullptr);
  EXPECT_EQ(store->Load("b"), nullptr);
  EXPECT_NE(store->Load("d"), nullptr);
  Save(*Open(each / 2), "e", 0x90);
  EXPECT_EQ(store->Load("e"), nullptr) << "larger than all may be";
}

TEST_F(TranslationStoreTest, ThereAreNeverTooManyFiles) {
  Save(*Open(), "a", 0x90);
  for (int i = 0; i < 5000; ++i) {
    std::ofstream file(directory_ + "/" + std::to_string(i) + ".code");
  }
  Save(*Open(), "b", 0x90);
  EXPECT_LT(Files().size(), 4100u);
  EXPECT_EQ(Open()->Load("a"), nullptr);
  EXPECT_NE(Open()->Load("b"), nullptr);
}

TEST(RecorderIdentityTest, IsAlwaysTheSame) {
  EXPECT_FALSE(RecorderIdentity().empty());
  EXPECT_EQ(RecorderIdentity(), RecorderIdentity());
}

}  // namespace
}  // namespace hindsight

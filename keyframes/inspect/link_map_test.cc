// The test's own process stands in for a recorded one.

#include "keyframes/inspect/link_map.h"

#include <elf.h>
#include <link.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <map>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace hindsight {
namespace {

thread_local int thread_local_variable = 7;

bool ReadOwnMemory(uint64_t address, absl::Span<uint8_t> out) {
  iovec local = {out.data(), out.size()};
  iovec remote = {reinterpret_cast<void*>(address), out.size()};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(out.size());
}

std::string OwnFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<uint64_t> OwnAuxv() {
  std::string bytes = OwnFile("/proc/self/auxv");
  std::vector<uint64_t> auxv(bytes.size() / sizeof(uint64_t));
  std::memcpy(auxv.data(), bytes.data(), auxv.size() * sizeof(uint64_t));
  return auxv;
}

uint64_t OwnFsBase() {
  uint64_t base;
  asm("mov %%fs:0, %0" : "=r"(base));  // the control block begins with its own address
  return base;
}

std::optional<GlibcTlsLayout> OwnLayout() {
  for (const Library& library : ReadLinkMap(OwnAuxv(), ReadOwnMemory).libraries) {
    std::string file = OwnFile(library.path);
    auto layout = ReadGlibcTlsLayout(
        absl::MakeSpan(reinterpret_cast<const uint8_t*>(file.data()), file.size()));
    if (layout) return layout;
  }
  return std::nullopt;
}

TEST(LinkMapTest, ListsTheLibrariesTheLinkerLists) {
  std::map<std::string, uint64_t> expected;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        if (info->dlpi_name[0] != 0) {
          (*static_cast<std::map<std::string, uint64_t>*>(out))[info->dlpi_name] = info->dlpi_addr;
        }
        return 0;
      },
      &expected);
  LinkMap map = ReadLinkMap(OwnAuxv(), ReadOwnMemory);
  EXPECT_EQ(map.main, reinterpret_cast<uint64_t>(_r_debug.r_map));
  std::map<std::string, uint64_t> found;
  for (const Library& library : map.libraries) found[library.path] = library.load_address;
  EXPECT_EQ(found, expected);
}

TEST(LinkMapTest, EmptyWithoutProgramHeaders) {
  LinkMap map = ReadLinkMap({}, ReadOwnMemory);
  EXPECT_EQ(map.main, 0);
  EXPECT_TRUE(map.libraries.empty());
}

TEST(LinkMapTest, EmptyWhereMemoryIsUnknown) {
  LinkMap map = ReadLinkMap(OwnAuxv(), [](uint64_t, absl::Span<uint8_t>) { return false; });
  EXPECT_EQ(map.main, 0);
  EXPECT_TRUE(map.libraries.empty());
}

TEST(GlibcTlsTest, FindsThreadLocalVariableOfProgram) {
  std::optional<GlibcTlsLayout> layout = OwnLayout();
  ASSERT_TRUE(layout.has_value());
  uint64_t main = ReadLinkMap(OwnAuxv(), ReadOwnMemory).main;
  auto begin = GlibcTlsAddress(layout, OwnFsBase(), main, 0, ReadOwnMemory);
  ASSERT_TRUE(begin.ok()) << begin.status();
  // The program's block ends at the control block and holds the variable.
  uint64_t variable = reinterpret_cast<uint64_t>(&thread_local_variable);
  EXPECT_LE(*begin, variable);
  EXPECT_LT(variable, OwnFsBase());
  EXPECT_EQ(*GlibcTlsAddress(layout, OwnFsBase(), main, 5, ReadOwnMemory), *begin + 5);
}

TEST(GlibcTlsTest, ModuleWithoutStorageIsNotFound) {
  LinkMap map = ReadLinkMap(OwnAuxv(), ReadOwnMemory);
  auto vdso = std::find_if(map.libraries.begin(), map.libraries.end(), [](const Library& library) {
    return absl::StartsWith(library.path, "linux-vdso");
  });
  if (vdso == map.libraries.end()) GTEST_SKIP() << "no vdso here";
  EXPECT_EQ(
      GlibcTlsAddress(OwnLayout(), OwnFsBase(), vdso->link_map, 0, ReadOwnMemory).status().code(),
      absl::StatusCode::kNotFound);
}

TEST(GlibcTlsTest, UnknownLayoutIsNotFound) {
  EXPECT_EQ(GlibcTlsAddress(std::nullopt, OwnFsBase(), 4096, 0, ReadOwnMemory).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hindsight

// A snapshot of a process that stands still, beside gdb's own core of the same instant: the same
// registers of all threads, as gdb shows them, and the same bytes wherever gdb's core has any.

#include <elf.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/harness/child.h"
#include "tests/harness/files.h"
#include "tests/harness/gdb.h"
#include "tracefmt/trace_reader.h"

namespace hindsight::e2e {
namespace {

constexpr uint64_t kPageBytes = 4096;

using Pages = std::map<uint64_t, std::string>;  // by address

// Those of a core file.
Pages PagesOf(const std::string& core) {
  const std::string bytes = ReadFile(core);
  Pages pages;
  Elf64_Ehdr header = {};
  if (bytes.size() < sizeof(header)) return pages;
  std::memcpy(&header, bytes.data(), sizeof(header));
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    std::memcpy(&part, bytes.data() + header.e_phoff + i * sizeof(part), sizeof(part));
    if (part.p_type != PT_LOAD) continue;
    for (uint64_t offset = 0; offset < part.p_filesz; offset += kPageBytes) {
      pages[part.p_vaddr + offset] = bytes.substr(part.p_offset + offset, kPageBytes);
    }
  }
  return pages;
}

using Registers = std::map<std::string, std::string>;

// What gdb prints of each thread's registers, by the thread's id.
std::map<int, Registers> RegistersOf(const std::string& program, const std::string& core) {
  static const std::regex kThread(R"(Thread \d+ \(.*LWP (\d+).*\):)");
  const GdbResult gdb = RunGdbOnCore(program, core, {"thread apply all info all-registers"});
  std::map<int, Registers> registers;
  Registers* thread = nullptr;
  for (const absl::string_view line : absl::StrSplit(gdb.child.out, '\n')) {
    std::cmatch match;
    if (std::regex_match(line.begin(), line.end(), match, kThread)) {
      thread = &registers[std::stoi(match[1])];
    } else if (thread != nullptr && !line.empty()) {
      (*thread)[std::string(line.substr(0, line.find(' ')))] = std::string(line);
    }
  }
  EXPECT_FALSE(registers.empty()) << gdb.text;
  return registers;
}

// gdb before version 14 looks for these where Intel's processors have them, on others as well.
bool IsOfAvx512(const std::string& name) {
  static const std::regex kName("k[0-7]|zmm[0-9]+|[xy]mm(1[6-9]|2[0-9]|3[01])|pkru");
  return std::regex_match(name, kName);
}

// Of a vector register as gdb shows it: the 8-byte words that AVX has.
std::vector<std::string> LowestWords(const std::string& text) {
  static const std::regex kWords("v[48]_int64 = \\{([^}]*)\\}");
  std::smatch match;
  if (!std::regex_search(text, match, kWords)) return {text};
  std::vector<std::string> words = absl::StrSplit(match[1].str(), ", ");
  words.resize(4);
  return words;
}

// What instant.c has loaded there, in two of its threads.
void ExpectAvx512(const std::map<int, Registers>& registers) {
  if (!absl::StrContains(ReadFile("/proc/cpuinfo"), " avx512f ")) return;
  uint64_t seed = 80, words[16];
  for (uint64_t& word : words) {
    word = seed = seed * 6364136223846793005u + 1442695040888963407u;
  }
  const std::string mask = absl::StrFormat("0x%x ", words[0] & 0xffff);
  std::vector<std::string> upper;
  for (int i = 8; i < 16; ++i) upper.push_back(absl::StrFormat("0x%x", words[i]));
  const std::string vector = absl::StrCat("v8_int64 = {", absl::StrJoin(upper, ", "), "}");
  size_t found = 0;
  for (const auto& [thread, of_thread] : registers) {
    found += absl::StrContains(of_thread.at("k3"), mask) &&
             absl::StrContains(of_thread.at("zmm31"), vector);
  }
  EXPECT_EQ(found, 2u) << mask << vector;
}

char StateOf(pid_t process) {
  std::ifstream stat(absl::StrCat("/proc/", process, "/stat"));
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(')');
  return name_end == text.npos ? 'X' : text[name_end + 2];
}

// Where a mapping of this name is, as /proc has it; empty pair: nowhere.
std::pair<uint64_t, uint64_t> MappingOf(pid_t process, const std::string& name) {
  std::ifstream maps(absl::StrCat("/proc/", process, "/maps"));
  for (std::string line; std::getline(maps, line);) {
    if (!absl::EndsWith(line, name)) continue;
    char* rest = nullptr;
    const uint64_t start = std::strtoull(line.c_str(), &rest, 16);
    return {start, std::strtoull(rest + 1, nullptr, 16)};
  }
  return {0, 0};
}

bool IsOfFile(const FullKeyframe& snapshot, uint64_t address) {
  const auto& maps = snapshot.maps();
  return std::any_of(maps.begin(), maps.end(), [&](const MapRegion& region) {
    return region.start <= address && address < region.end && region.inode != 0;
  });
}

class GcoreTest : public testing::Test {
 protected:
  // Restartable sequences are told on which processor a thread is whenever it goes on.
  GcoreTest()
      : child_(Child::Start({program_}, {.keep_input_open = true,
                                         .environment = {"GLIBC_TUNABLES=glibc.pthread.rseq=0"}})) {
    size_t position = 0;
    EXPECT_TRUE(child_.WaitForOut("ready\n", &position));
    kill(child_.pid(), SIGSTOP);
    while (StateOf(child_.pid()) != 'T') usleep(1000);
  }
  void TakeSnapshot(const std::string& core) {
    const std::string trace = directory_.File("trace");
    Child snap = Child::Start({Hindsight(), "snap", "-o", trace, "--every=1ms", "--max=1",
                               absl::StrCat("--attach=", child_.pid())});
    ASSERT_TRUE(snap.WaitForFile(trace + "/full/1")) << snap.err();
    snap.Signal(SIGINT);
    ASSERT_EQ(snap.Finish().Ending(), "exit 0");
    const ChildResult verify = RunProcess({Hindsight(), "verify", trace});
    EXPECT_EQ(verify.Ending(), "exit 0") << verify.out << verify.err;
    const ChildResult made = RunProcess({Hindsight(), "core", trace, "1", "-o", core});
    ASSERT_EQ(made.Ending(), "exit 0") << made.err;
  }
  // gdb's core has also what ours leaves out: memory without any rights.
  void ExpectSameMemory(const Pages& own, const Pages& gdbs) {
    const auto trace = TraceReader::Open(directory_.File("trace"));
    ASSERT_TRUE(trace.ok()) << trace.status();
    const FullKeyframe& snapshot = *(*trace)->full_keyframes().at(0);
    const auto [clock_start, clock_end] = MappingOf(child_.pid(), "[vvar]");
    size_t compared = 0, without_rights = 0;
    for (const auto& [address, page] : gdbs) {
      if (address >= clock_start && address < clock_end) continue;
      if (address >> 63 != 0) continue;  // [vsyscall]
      ++compared;
      if (const auto found = own.find(address); found != own.end()) {
        ASSERT_EQ(found->second, page) << std::hex << address;
        continue;
      }
      std::string bytes(kPageBytes, '\0');
      const auto read =
          snapshot.ReadPage(address, {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
      // Of a file that the trace does not have, and not the process's own.
      if (absl::IsNotFound(read) && IsOfFile(snapshot, address)) continue;
      ASSERT_TRUE(read.ok() || (absl::IsNotFound(read) && snapshot.SawAllAt(address)))
          << std::hex << address << " is missing: " << read;
      ASSERT_EQ(bytes, page) << std::hex << address;
      without_rights += read.ok();
    }
    EXPECT_GT(compared, 200u);
    EXPECT_EQ(without_rights, 2u);
  }
  void TakeGdbsCore(const std::string& core) {
    const ChildResult made =
        RunProcess({"gdb", "-nx", "-batch", "-p", absl::StrCat(child_.pid()), "-ex",
                    "set use-coredump-filter off", "-ex", "set dump-excluded-mappings on", "-ex",
                    "generate-core-file " + core},
                   {.environment = {"DEBUGINFOD_URLS=", "HOME=/nonexistent"}});
    ASSERT_EQ(made.Ending(), "exit 0") << made.err;
  }

  const std::string program_ = Runfile("tests/snap/instant");
  TempDir directory_;
  Child child_;
};

TEST_F(GcoreTest, TheSameInstant) {
  const std::string own = directory_.File("own"), gdbs = directory_.File("gdbs");
  ASSERT_NO_FATAL_FAILURE(TakeSnapshot(own));
  ASSERT_NO_FATAL_FAILURE(TakeGdbsCore(gdbs));

  const auto own_registers = RegistersOf(program_, own);
  const auto gdbs_registers = RegistersOf(program_, gdbs);
  EXPECT_EQ(gdbs_registers.size(), 6u);
  EXPECT_EQ(own_registers.size(), gdbs_registers.size());
  for (const auto& [thread, registers] : gdbs_registers) {
    ASSERT_EQ(own_registers.count(thread), 1u) << thread;
    EXPECT_GT(registers.size(), 50u);  // 57 with AVX
    for (const auto& [name, text] : registers) {
      if (IsOfAvx512(name)) continue;
      if (absl::StartsWith(name, "ymm") && own_registers.at(thread).count(name) == 0) {
        // Of a processor without AVX-512; ours has the registers of one with it.
        EXPECT_EQ(LowestWords(own_registers.at(thread).at("z" + name.substr(1))), LowestWords(text))
            << thread << " " << name;
        continue;
      }
      const auto found = own_registers.at(thread).find(name);
      ASSERT_TRUE(found != own_registers.at(thread).end()) << name;
      EXPECT_EQ(found->second, text) << thread;
    }
  }
  ExpectAvx512(own_registers);
  ExpectSameMemory(PagesOf(own), PagesOf(gdbs));
}

}  // namespace
}  // namespace hindsight::e2e

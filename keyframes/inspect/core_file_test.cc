// What a core file says is what the view said, read back by its format alone.

#include "keyframes/inspect/core_file.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/procfs.h>

#include <cstring>
#include <optional>

#include "keyframes/inspect/core_notes.h"
#include "keyframes/inspect/fake_process_view.h"

namespace hindsight {
namespace {

class StringOutput final : public CoreOutput {
 public:
  absl::Status WriteAt(uint64_t offset, absl::Span<const uint8_t> bytes) override {
    if (this->bytes.size() < offset + bytes.size()) this->bytes.resize(offset + bytes.size());
    std::memcpy(&this->bytes[offset], bytes.data(), bytes.size());
    written += bytes.size();
    return absl::OkStatus();
  }
  absl::Status Finish() override {
    finished = true;
    return absl::OkStatus();
  }

  std::string bytes;
  uint64_t written = 0;
  bool finished = false;
};

template <typename T>
T At(const std::string& bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, &bytes.at(offset + sizeof(T) - 1) - sizeof(T) + 1, sizeof(T));
  return value;
}

struct Note {
  std::string owner;
  uint32_t type;
  std::string bytes;
};

std::vector<Elf64_Phdr> Headers(const std::string& core) {
  const auto header = At<Elf64_Ehdr>(core, 0);
  EXPECT_EQ(header.e_type, ET_CORE);
  std::vector<Elf64_Phdr> headers;
  for (int i = 0; i < header.e_phnum; ++i) {
    headers.push_back(At<Elf64_Phdr>(core, header.e_phoff + i * sizeof(Elf64_Phdr)));
  }
  return headers;
}

std::vector<Note> NotesOf(const std::string& core) {
  const Elf64_Phdr segment = Headers(core).at(0);
  EXPECT_EQ(segment.p_type, PT_NOTE);
  std::vector<Note> notes;
  for (uint64_t at = segment.p_offset; at < segment.p_offset + segment.p_filesz;) {
    const auto header = At<Elf64_Nhdr>(core, at);
    at += sizeof(header);
    Note& note = notes.emplace_back();
    note.type = header.n_type;
    note.owner = core.substr(at, header.n_namesz - 1);
    at += (header.n_namesz + 3) / 4 * 4;
    note.bytes = core.substr(at, header.n_descsz);
    at += (header.n_descsz + 3) / 4 * 4;
  }
  return notes;
}

std::optional<std::string> Memory(const std::string& core, uint64_t address) {
  for (const Elf64_Phdr& header : Headers(core)) {
    if (header.p_type != PT_LOAD || address < header.p_vaddr) continue;
    if (address >= header.p_vaddr + header.p_memsz) continue;
    const uint64_t offset = address - header.p_vaddr;
    if (offset >= header.p_filesz) return std::nullopt;
    return core.substr(header.p_offset + offset, kPageBytes);
  }
  ADD_FAILURE() << "no segment has " << address;
  return std::nullopt;
}

constexpr uint64_t kHeap = 0x10000, kGuard = 0x20000, kCode = 0x400000;

class CoreFileTest : public testing::Test {
 protected:
  CoreFileTest() {
    RegisterFile first, second;
    first.rip = kCode;
    first.gpr[kRsp] = kHeap + 8;
    second.rip = kCode + 1;
    second.gpr[kRcx] = 77;
    second.xmm[3][1] = 5;
    second.ymm_high[15][1] = 6;
    second.k[7] = 7;
    second.zmm_high[0][0] = 8;
    second.zmm16[15][7] = 9;
    second.st[2][0] = 10;
    view_.registers = {{100, first}, {101, second}};
    view_.syscall_numbers = {{101, 202}};
    view_.regions = {
        {.start = kHeap, .end = kHeap + 8 * kPageBytes, .protection = PROT_READ | PROT_WRITE},
        {.start = kGuard, .end = kGuard + kPageBytes},
        {.start = kCode,
         .end = kCode + kPageBytes,
         .protection = PROT_READ | PROT_EXEC,
         .file_offset = 3 * kPageBytes,
         .inode = 1,
         .name = "/bin/x"}};
    view_.pages[kHeap + 2 * kPageBytes] = std::vector<uint8_t>(kPageBytes, 'a');
    view_.pages[kHeap + 3 * kPageBytes] = std::vector<uint8_t>(kPageBytes, 0);
    view_.pages[kHeap + 6 * kPageBytes] = std::vector<uint8_t>(kPageBytes, 'b');
    view_.pages[kCode] = std::vector<uint8_t>(kPageBytes, 'c');
  }

  std::string Write(int32_t thread = 100) {
    StringOutput output;
    const auto summary = WriteCore(&view_, {.thread = thread}, &output);
    EXPECT_TRUE(summary.ok()) << summary.status();
    EXPECT_TRUE(output.finished);
    if (summary.ok()) summary_ = *summary;
    written_ = output.written;
    return output.bytes;
  }

  FakeProcessView view_;
  CoreSummary summary_;
  uint64_t written_ = 0;
};

TEST_F(CoreFileTest, MemoryThatIsNotKnownIsNotInTheFile) {
  const std::string core = Write();
  for (uint64_t page = 0; page < 8; ++page) {
    const auto known = view_.pages.find(kHeap + page * kPageBytes);
    const std::optional<std::string> memory = Memory(core, kHeap + page * kPageBytes);
    ASSERT_EQ(memory.has_value(), known != view_.pages.end()) << page;
    if (!memory) continue;
    EXPECT_EQ(*memory, std::string(known->second.begin(), known->second.end()));
  }
  EXPECT_EQ(Memory(core, kGuard), std::nullopt);
  EXPECT_EQ(Memory(core, kCode), std::string(kPageBytes, 'c'));
  EXPECT_EQ(summary_.memory_bytes, 4 * kPageBytes);
  EXPECT_EQ(summary_.unknown_bytes, 5 * kPageBytes);
  EXPECT_EQ(summary_.threads, 2u);
}

TEST_F(CoreFileTest, SegmentsCoverTheMapAndHaveItsRights) {
  const std::string core = Write();
  uint64_t heap = 0, code = 0, guard = 0;
  for (const Elf64_Phdr& header : Headers(core)) {
    if (header.p_type != PT_LOAD) continue;
    EXPECT_EQ(header.p_offset % kPageBytes, 0u);
    if (header.p_flags == (PF_R | PF_W)) heap += header.p_memsz;
    if (header.p_flags == (PF_R | PF_X)) code += header.p_memsz;
    if (header.p_flags == 0) guard += header.p_memsz;
  }
  EXPECT_EQ(heap, 8 * kPageBytes);
  EXPECT_EQ(code, kPageBytes);
  EXPECT_EQ(guard, kPageBytes);
}

TEST_F(CoreFileTest, ZerosAreNotWritten) {
  Write();
  const uint64_t with_zeros = written_;
  view_.pages[kHeap + 3 * kPageBytes] = std::vector<uint8_t>(kPageBytes, 1);
  Write();
  EXPECT_EQ(written_, with_zeros + kPageBytes);
}

TEST_F(CoreFileTest, TheCurrentThreadIsFirst) {
  std::vector<int32_t> order;
  for (const Note& note : NotesOf(Write(101))) {
    if (note.type == NT_PRSTATUS) order.push_back(At<elf_prstatus>(note.bytes, 0).pr_pid);
  }
  EXPECT_EQ(order, (std::vector<int32_t>{101, 100}));
}

TEST_F(CoreFileTest, RegistersOfAThreadFollowIt) {
  const std::vector<Note> notes = NotesOf(Write(101));
  const auto status = At<elf_prstatus>(notes.at(0).bytes, 0);
  user_regs_struct general;
  std::memcpy(&general, &status.pr_reg, sizeof(general));
  EXPECT_EQ(general.rip, kCode + 1);
  EXPECT_EQ(general.rcx, 77u);
  EXPECT_EQ(general.orig_rax, 202u);
  const auto find = [&](uint32_t type) -> const Note& {
    for (const Note& note : notes) {
      if (note.type == type) return note;
    }
    ADD_FAILURE() << type;
    return notes[0];
  };
  const auto vectors = At<user_fpregs_struct>(find(NT_FPREGSET).bytes, 0);
  EXPECT_EQ(vectors.xmm_space[3 * 4 + 2], 5u);
  EXPECT_EQ(vectors.st_space[2 * 4], 10u);
  const Note& xstate = find(NT_X86_XSTATE);
  EXPECT_EQ(xstate.owner, "LINUX");
  ASSERT_EQ(xstate.bytes.size(), 2688u);
  EXPECT_EQ(At<uint64_t>(xstate.bytes, 464), 0xe7u);
  EXPECT_EQ(At<uint64_t>(xstate.bytes, 512), 0xe7u);
  EXPECT_EQ(At<uint64_t>(xstate.bytes, 576 + 15 * 16 + 8), 6u);
  EXPECT_EQ(At<uint64_t>(xstate.bytes, 1088 + 7 * 8), 7u);
  EXPECT_EQ(At<uint64_t>(xstate.bytes, 1152), 8u);
  EXPECT_EQ(At<uint64_t>(xstate.bytes, 1664 + 15 * 64 + 7 * 8), 9u);
}

TEST_F(CoreFileTest, FilesAreListedWithTheirOffsets) {
  for (const Note& note : NotesOf(Write())) {
    if (note.type != NT_FILE) continue;
    EXPECT_EQ(At<uint64_t>(note.bytes, 0), 1u);
    EXPECT_EQ(At<uint64_t>(note.bytes, 8), kPageBytes);
    EXPECT_EQ(At<uint64_t>(note.bytes, 16), kCode);
    EXPECT_EQ(At<uint64_t>(note.bytes, 24), kCode + kPageBytes);
    EXPECT_EQ(At<uint64_t>(note.bytes, 32), 3u);
    EXPECT_EQ(note.bytes.substr(40), std::string("/bin/x", 7));
    return;
  }
  FAIL() << "no NT_FILE";
}

TEST_F(CoreFileTest, ThatThreadsAreMissingIsTheLastNote) {
  const size_t whole = NotesOf(Write()).size();
  EXPECT_EQ(summary_.missing, "");
  for (const Note& note : NotesOf(Write())) EXPECT_NE(note.owner, kHindsightNote);
  view_.missing = "missing: 102";
  const std::vector<Note> notes = NotesOf(Write());
  EXPECT_EQ(summary_.missing, "missing: 102");
  ASSERT_EQ(notes.size(), whole + 1);
  EXPECT_EQ(notes.back().owner, kHindsightNote);
  EXPECT_EQ(notes.back().type, kMissingNote);
  EXPECT_EQ(notes.back().bytes, "missing: 102");
}

TEST_F(CoreFileTest, ManyRegionsAreCountedInASection) {
  view_.regions.clear();
  for (uint64_t i = 0; i < 70'000; ++i) {
    view_.regions.push_back({.start = i * 0x2000, .end = i * 0x2000 + 0x1000});
  }
  const std::string core = Write();
  const auto header = At<Elf64_Ehdr>(core, 0);
  EXPECT_EQ(header.e_phnum, PN_XNUM);
  EXPECT_EQ(At<Elf64_Shdr>(core, header.e_shoff).sh_info, 70'001u);
}

TEST_F(CoreFileTest, AnInterruptEndsIt) {
  const std::atomic<bool> interrupt = true;
  StringOutput output;
  EXPECT_TRUE(absl::IsCancelled(
      WriteCore(&view_, {.thread = 100, .interrupt = &interrupt}, &output).status()));
  EXPECT_FALSE(output.finished);
}

TEST_F(CoreFileTest, AThreadThatIsNotThereIsAnError) {
  StringOutput output;
  EXPECT_TRUE(absl::IsNotFound(WriteCore(&view_, {.thread = 5}, &output).status()));
}

}  // namespace
}  // namespace hindsight

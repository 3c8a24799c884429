#include "emulator/checks/random_program.h"

#include <cstring>
#include <initializer_list>

#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr uint64_t kCode = 0x555555554000;
constexpr uint64_t kCodePages = 3;
constexpr uint64_t kData = 0x7ffff7000000;
constexpr uint64_t kDataPages = 4;
constexpr uint64_t kStack = 0x7ffffffde000;
constexpr uint64_t kBlocks = 60;
constexpr uint64_t kRounds = 400;  // blocks executed before the program ends
// A block has at most ten instructions of at most 20 bytes, and its end.
constexpr uint64_t kRoomPerBlock = 250;
constexpr uint64_t kCodeBytes = kCodePages * kPageBytes - kRoomPerBlock;

class Writer {
 public:
  Writer(std::mt19937_64* random, unsigned patches) : random_(random), patches_(patches) {}

  std::vector<uint8_t> Write() {
    uint64_t at = Below(64);
    for (uint64_t i = 0; i < kBlocks; ++i) {
      blocks_.push_back(at);
      at += kRoomPerBlock - 100 + Below(50);
      if (at + 2 * kRoomPerBlock > kCodeBytes) break;
    }
    exit_ = at;
    for (uint64_t block : blocks_) WriteBlock(block);
    at_ = exit_;
    Bytes({0x0f, 0x05});
    return code_;
  }

 private:
  uint64_t Below(uint64_t limit) { return (*random_)() % limit; }
  void Bytes(std::initializer_list<int> bytes) {
    for (int byte : bytes) code_[at_++] = static_cast<uint8_t>(byte);
  }
  void Offset(uint64_t target, uint64_t after) {
    const auto offset = static_cast<int32_t>(target - after);
    std::memcpy(&code_[at_], &offset, sizeof(offset));
    at_ += sizeof(offset);
  }
  // Somewhere in the data, at times over a page's end.
  void Place() {
    const auto place = static_cast<int32_t>(Below(kDataPages * kPageBytes - 8));
    std::memcpy(&code_[at_], &place, sizeof(place));
    at_ += sizeof(place);
  }

  void WriteBlock(uint64_t begin) {
    at_ = begin;
    // Each begins with add rax,imm8, whose immediate is what patches change.
    Bytes({0x48, 0x83, 0xc0, static_cast<int>(Below(128))});
    for (uint64_t left = Below(7); left > 0; --left) WriteInstruction();
    Bytes({0x49, 0xff, 0xcc});  // dec r12
    Bytes({0x0f, 0x84});        // jz exit
    Offset(exit_, at_ + 4);
    Bytes({0xa8, 1 << Below(8)});                // test al,...
    Bytes({0x0f, Below(2) == 0 ? 0x84 : 0x85});  // jz or jnz
    Offset(blocks_[Below(blocks_.size())], at_ + 4);
    Bytes({0xe9});
    Offset(blocks_[Below(blocks_.size())], at_ + 4);
  }

  void WriteInstruction() {
    if (Below(100) < patches_) {
      Bytes({0xc6, 0x05});  // mov byte [rip + ...],imm8
      if (Below(4) == 0) {
        // of the instruction after it, add rax,imm8
        Offset(3, 0);
        return Bytes({static_cast<int>(Below(128)), 0x48, 0x83, 0xc0, 0});
      }
      // Mostly of the same few blocks, where each begins.
      Offset(blocks_[Below(Below(4) == 0 ? blocks_.size() : 3)] + 3, at_ + 5);
      Bytes({static_cast<int>(Below(128))});
      return;
    }
    switch (Below(14)) {
      case 0:
        return Bytes({0x48, 0x31, 0xc3});  // xor rbx,rax
      case 1:
        return Bytes({0x48, 0xd1, 0xc0});  // rol rax,1
      case 2:
        return Bytes({0x48, 0x0f, 0xaf, 0xc3});  // imul rax,rbx
      case 3:
      case 4:
        Bytes({0x48, 0x89, 0x87});  // mov [rdi + ...],rax
        return Place();
      case 5:
      case 6:
        Bytes({0x48, 0x03, 0x87});  // add rax,[rdi + ...]
        return Place();
      case 7:
        Bytes({0xf0, 0x48, 0x01, 0x87});  // lock add [rdi + ...],rax
        return Place();
      case 8:
        return Bytes({0x53, 0x50, 0x5b, 0x58});  // push rbx; push rax; pop rbx; pop rax
      case 9:
        return Bytes({0xf3, 0x90});  // pause
      case 10:
        return Bytes({0xf3, 0x48, 0x0f, 0xb8, 0xd8});  // popcnt rbx,rax
      case 11:
        return Bytes({0x0f, 0xae, 0xf0});  // mfence
      case 12:
        // push rdi; lea rdi,[rdi + ...]; mov ecx,n; rep stosb; pop rdi
        Bytes({0x57, 0x48, 0x8d, 0xbf});
        Place();
        return Bytes({0xb9, static_cast<int>(Below(9)), 0, 0, 0, 0xf3, 0xaa, 0x5f});
      default:
        return Bytes({0x66, 0x48, 0x0f, 0x6e, 0xc0, 0x66, 0x0f, 0xd4, 0xc8});  // movq, paddq
    }
  }

  std::mt19937_64* random_;
  const unsigned patches_;
  std::vector<uint8_t> code_ = std::vector<uint8_t>(kCodePages * kPageBytes, 0x90);
  std::vector<uint64_t> blocks_;
  uint64_t exit_ = 0;
  uint64_t at_ = 0;
};

}  // namespace

RandomProgram MakeRandomProgram(std::mt19937_64* random, unsigned patches) {
  RandomProgram program;
  const std::vector<uint8_t> code = Writer(random, patches).Write();
  for (uint64_t page = 0; page < kCodePages; ++page) {
    const auto begin = code.begin() + static_cast<ptrdiff_t>(page * kPageBytes);
    program.pages[kCode + page * kPageBytes].assign(begin, begin + kPageBytes);
  }
  // One program in eight finds a page missing.
  const uint64_t missing = (*random)() % (8 * kDataPages);
  for (uint64_t page = 0; page < kDataPages; ++page) {
    if (page == missing) continue;
    std::vector<uint8_t>& bytes = program.pages[kData + page * kPageBytes];
    bytes.resize(kPageBytes);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((*random)());
  }
  program.pages[kStack].resize(kPageBytes);
  program.start.rip = kCode + static_cast<uint64_t>(0);
  while (program.pages[kCode][program.start.rip - kCode] == 0x90) ++program.start.rip;
  program.start.rflags = 0x202;
  program.start.gpr[kRsp] = kStack + 0x800;
  program.start.gpr[kRdi] = kData;
  program.start.gpr[kRax] = (*random)();
  program.start.gpr[kR12] = kRounds;
  program.start.mxcsr = 0x1f80;
  program.start.fcw = 0x37f;
  return program;
}

}  // namespace hindsight

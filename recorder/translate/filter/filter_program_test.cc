// Programs of random instructions, against the kernel: whether it takes them, and what they answer.

#include "recorder/translate/filter/filter_program.h"

#include <linux/audit.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

using Program = std::vector<sock_filter>;

constexpr uint32_t kResultMask = 0x7ff;
constexpr long kNumber = 5000;  // no system call
constexpr uint64_t kArguments[6] = {0x123456789abcdef0, 7, ~uint64_t{0}, 0x8000000080000000, 0, 31};

uint32_t Pick(std::mt19937_64* random, std::initializer_list<uint32_t> of) {
  return of.begin()[(*random)() % of.size()];
}

sock_filter RandomInstruction(std::mt19937_64* random, uint32_t left) {
  sock_filter instruction = {};
  const auto jump = [&] { return static_cast<uint8_t>((*random)() % (left < 4 ? left + 1 : 4)); };
  switch ((*random)() % 12) {
    case 0:
    case 1:
    case 2:
      instruction.code = BPF_LD | BPF_W | BPF_ABS;
      // The addresses of instructions are not the same in both.
      instruction.k = Pick(random, {0, 4, 16, 20, 24, 28, 32, 36, 40, 44, 48, 60, 62, 64});
      break;
    case 3:
      instruction.code = static_cast<uint16_t>(
          Pick(random, {BPF_LD, BPF_LDX}) |
          Pick(random, {BPF_IMM, BPF_W | BPF_LEN, BPF_W | BPF_MEM, BPF_H | BPF_ABS}));
      instruction.k = Pick(random, {0, 1, 3, 15, 16, 0xffffffff});
      break;
    case 4:
    case 5:
      instruction.code = static_cast<uint16_t>(Pick(random, {BPF_ST, BPF_STX}));
      instruction.k = Pick(random, {0, 1, 3, 15, 16});
      break;
    case 6:
    case 7:
    case 8:
      instruction.code =
          static_cast<uint16_t>(BPF_ALU | Pick(random, {BPF_K, BPF_X}) |
                                Pick(random, {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_OR, BPF_AND,
                                              BPF_LSH, BPF_RSH, BPF_NEG, BPF_MOD, BPF_XOR}));
      instruction.k = Pick(random, {0, 1, 3, 31, 32, 0x80000000, 0xfffffff5});
      break;
    case 9:
    case 10:
      instruction.code =
          static_cast<uint16_t>(BPF_JMP | Pick(random, {BPF_K, BPF_X}) |
                                Pick(random, {BPF_JA, BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET, 0x50}));
      instruction.k = jump();
      instruction.jt = jump();
      instruction.jf = jump();
      break;
    default:
      instruction.code = static_cast<uint16_t>(
          (*random)() % 8 == 0 ? (*random)()
                               : Pick(random, {BPF_MISC | BPF_TAX, BPF_MISC | BPF_TXA}));
      break;
  }
  return instruction;
}

// Ends with what makes an error number of its result.
Program RandomProgram(std::mt19937_64* random) {
  Program program;
  const uint32_t size = 1 + (*random)() % 12;
  for (uint32_t i = 0; i < size; ++i) program.push_back(RandomInstruction(random, size - i));
  program.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kResultMask));
  program.push_back(BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO));
  program.push_back(BPF_STMT(BPF_RET | BPF_A, 0));
  return program;
}

constexpr int kRefused = -1, kKilled = -2;

// The error number with which the kernel answers under the filter.
int AskKernel(const Program& program) {
  int answer[2];
  EXPECT_EQ(pipe(answer), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(1);
    Program others = program;
    // Only kNumber is asked: all other calls are allowed.
    others.insert(
        others.begin(),
        {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kNumber, 1, 0),
         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), BPF_STMT(BPF_LD | BPF_IMM, 0)});
    const sock_fprog guarded = {static_cast<unsigned short>(others.size()), others.data()};
    int result = kRefused;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &guarded) == 0) {
      result = kKilled;
      if (write(answer[1], &result, sizeof(result)) != sizeof(result)) _exit(1);
      const uint64_t* a = kArguments;
      errno = 0;
      syscall(kNumber, a[0], a[1], a[2], a[3], a[4], a[5]);
      result = errno;
    }
    if (write(answer[1], &result, sizeof(result)) != sizeof(result)) _exit(1);
    _exit(0);
  }
  close(answer[1]);
  int result = -3;
  while (read(answer[0], &result, sizeof(result)) == sizeof(result)) {
  }
  close(answer[0]);
  int status;
  waitpid(child, &status, 0);
  return result;
}

int AskOurs(const Program& program) {
  if (!IsValidFilter(program.data(), static_cast<uint32_t>(program.size()))) return kRefused;
  seccomp_data data = {.nr = kNumber, .arch = AUDIT_ARCH_X86_64};
  for (int i = 0; i < 6; ++i) data.args[i] = kArguments[i];
  const uint32_t result = RunFilter(program.data(), data);
  constexpr uint32_t kMaxError = 4095;
  switch (result & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ERRNO:
      return static_cast<int>(std::min(result & SECCOMP_RET_DATA, kMaxError));
    case SECCOMP_RET_USER_NOTIF:
    case SECCOMP_RET_TRACE:
    case SECCOMP_RET_LOG:
    case SECCOMP_RET_ALLOW:
      return ENOSYS;
    default:
      return kKilled;
  }
}

TEST(FilterProgramTest, AnswersAsTheKernelDoes) {
  std::mt19937_64 random(20261122);
  int taken = 0, answers = 0;
  for (int i = 0; i < 4000; ++i) {
    const Program program = RandomProgram(&random);
    const int expected = AskKernel(program);
    ASSERT_EQ(AskOurs(program), expected) << "program " << i;
    taken += expected != kRefused;
    answers += expected > 0;
  }
  EXPECT_GT(taken, 400);
  EXPECT_GT(answers, 200);
}

}  // namespace
}  // namespace hindsight

#include "server/rsp/signals.h"

namespace hindsight {
namespace {

constexpr int kGdbUnknown = 143;

// gdb/signals.def, in the order of Linux' numbers from 0 to 31.
constexpr int kGdbSignals[32] = {
    0,   1,  2,  3,   // none, HUP, INT, QUIT
    4,   5,  6,  10,  // ILL, TRAP, ABRT, BUS
    8,   9,  30, 11,  // FPE, KILL, USR1, SEGV
    31,  13, 14, 15,  // USR2, PIPE, ALRM, TERM
    143, 20, 19, 17,  // STKFLT (gdb has none), CHLD, CONT, STOP
    18,  21, 22, 16,  // TSTP, TTIN, TTOU, URG
    24,  25, 26, 27,  // XCPU, XFSZ, VTALRM, PROF
    28,  23, 32, 12,  // WINCH, IO, PWR, SYS
};

}  // namespace

int GdbSignal(int linux_signal) {
  if (linux_signal < 0) return kGdbUnknown;
  if (linux_signal < 32) return kGdbSignals[linux_signal];
  // gdb gave 45 to real-time signal 33 first, found 32 and 64 later.
  if (linux_signal == 32) return 77;
  if (linux_signal < 64) return 45 + (linux_signal - 33);
  if (linux_signal == 64) return 78;
  return kGdbUnknown;
}

}  // namespace hindsight

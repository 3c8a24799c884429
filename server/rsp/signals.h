// Signal numbers: gdb has its own, the same for all systems; the kernel's differ.

#ifndef HINDSIGHT_SERVER_RSP_SIGNALS_H_
#define HINDSIGHT_SERVER_RSP_SIGNALS_H_

namespace hindsight {

inline constexpr int kGdbSignalInt = 2;   // interrupted by the user
inline constexpr int kGdbSignalTrap = 5;  // steps and breakpoints

// gdb's number for amd64 Linux signal `linux_signal`; that of "unknown" (143) if it has none.
int GdbSignal(int linux_signal);

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_RSP_SIGNALS_H_

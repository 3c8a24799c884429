#include "recorder/process/program_lookup.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace hindsight {
namespace {

// execvp's own search path where PATH is not set.
constexpr char kDefaultPath[] = "/bin:/usr/bin";

bool IsRunnableFile(const std::string& path) {
  struct stat st;
  return stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::string FirstBytes(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string bytes(sizeof(Elf64_Ehdr), '\0');
  const ssize_t got = fd.valid() ? read(fd.get(), bytes.data(), bytes.size()) : 0;
  bytes.resize(got > 0 ? got : 0);
  return bytes;
}

bool IsElf(const std::string& bytes) { return absl::StartsWith(bytes, ELFMAG); }

bool IsAmd64Header(const std::string& bytes) {
  if (bytes.size() < sizeof(Elf64_Ehdr)) return false;
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == EM_X86_64;
}

absl::StatusOr<std::string> FindFile(const std::string& name) {
  if (absl::StrContains(name, '/')) {
    struct stat st;
    if (stat(name.c_str(), &st) != 0) {
      const std::string text = absl::StrCat(name, ": ", strerror(errno));
      return errno == EACCES ? absl::PermissionDeniedError(text) : absl::NotFoundError(text);
    }
    if (S_ISDIR(st.st_mode)) return absl::PermissionDeniedError(name + ": is a directory");
    if (!IsRunnableFile(name)) {
      return absl::PermissionDeniedError(name + ": is not an executable file");
    }
    return name;
  }
  const char* path = getenv("PATH");
  bool denied = false;
  for (absl::string_view directory : absl::StrSplit(path ? path : kDefaultPath, ':')) {
    const std::string candidate = directory.empty() ? name : absl::StrCat(directory, "/", name);
    if (IsRunnableFile(candidate)) return candidate;
    denied = denied || access(candidate.c_str(), F_OK) == 0;
  }
  if (denied) return absl::PermissionDeniedError(name + ": is not an executable file");
  return absl::NotFoundError(name + ": command not found");
}

}  // namespace

bool IsAmd64Elf(const std::string& path) {
  const std::string bytes = FirstBytes(path);
  return IsElf(bytes) && IsAmd64Header(bytes);
}

absl::StatusOr<ExecCommand> LookUpProgram(const std::vector<std::string>& arguments) {
  CHECK(!arguments.empty());
  ASSIGN_OR_RETURN(const std::string path, FindFile(arguments[0]));
  const std::string bytes = FirstBytes(path);
  if (IsElf(bytes)) {
    if (!IsAmd64Header(bytes)) {
      return absl::InvalidArgumentError(path + ": is not an x86-64 program");
    }
    return ExecCommand{path, arguments};
  }
  // The kernel runs these itself. What it cannot read is left to it, too.
  if (bytes.empty() || absl::StartsWith(bytes, "#!")) return ExecCommand{path, arguments};
  ExecCommand shell{"/bin/sh", {"/bin/sh", path}};
  shell.arguments.insert(shell.arguments.end(), arguments.begin() + 1, arguments.end());
  return shell;
}

}  // namespace hindsight

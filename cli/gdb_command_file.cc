#include "cli/gdb_command_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/gdb_commands.h"

namespace hindsight {
namespace {

absl::StatusOr<std::filesystem::path> DataDirectory() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data == '/') return std::filesystem::path(data) / "hindsight";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return absl::NotFoundError("no home directory");
  return std::filesystem::path(home) / ".local/share/hindsight";
}

bool Holds(const std::string& path, absl::string_view contents) {
  std::ifstream file(path, std::ios::binary);
  return file && std::string(std::istreambuf_iterator<char>(file), {}) == contents;
}

}  // namespace

absl::StatusOr<std::string> InstallGdbCommands() {
  ASSIGN_OR_RETURN(const std::filesystem::path directory, DataDirectory());
  const std::string path = directory / "hindsight_gdb.py";
  if (Holds(path, GdbCommands())) return path;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return absl::ErrnoToStatus(error.value(), directory.string());
  // Another server may do the same, and a gdb may be reading it.
  const std::string temporary = absl::StrCat(path, ".", getpid());
  std::ofstream file(temporary, std::ios::binary);
  file << GdbCommands();
  file.close();
  if (!file) return absl::InternalError(absl::StrCat(temporary, ": cannot be written"));
  std::filesystem::rename(temporary, path, error);
  if (error) return absl::ErrnoToStatus(error.value(), path);
  return path;
}

}  // namespace hindsight

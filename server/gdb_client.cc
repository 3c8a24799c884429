#include "server/gdb_client.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "server/session/session.h"
#include "server/transport.h"

namespace hindsight {
namespace {

std::string Run(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  CHECK(pipe != nullptr);
  std::string output;
  char bytes[4096];
  while (const size_t size = std::fread(bytes, 1, sizeof(bytes), pipe)) output.append(bytes, size);
  pclose(pipe);
  return output;
}

}  // namespace

std::string RunGdb(Target* target, const GdbScript& script) {
  absl::StatusOr<Listener> listener = Listener::Tcp("");
  CHECK(listener.ok());
  std::thread server([&] {
    const absl::StatusOr<std::unique_ptr<Connection>> connection = listener->Accept();
    CHECK(connection.ok());
    Session session(target, connection->get());
    CHECK(session.Serve().ok());
  });
  const char* directory = std::getenv("TEST_TMPDIR");
  const std::string path = absl::StrCat(directory != nullptr ? directory : "/tmp",
                                        "/hindsight_gdb_client.", getpid(), ".gdb");
  std::ofstream file(path);
  file << "set debuginfod enabled off\nset pagination off\nset confirm off\nset width 0\n";
  for (const std::string& command : script.before) file << command << "\n";
  file << "target " << script.remote << " " << listener->address() << "\n";
  for (const std::string& command : script.commands) file << command << "\n";
  file << "detach\n";
  file.close();
  std::string output = Run(absl::StrCat("timeout 60 gdb -nx -batch -x ", path, " 2>&1"));
  std::remove(path.c_str());
  server.join();
  return output;
}

std::string FirstOutOfOrder(const std::string& output, const std::vector<std::string>& texts) {
  size_t at = 0;
  for (const std::string& text : texts) {
    const size_t found = output.find(text, at);
    if (found == std::string::npos) return text;
    at = found + text.size();
  }
  return "";
}

}  // namespace hindsight

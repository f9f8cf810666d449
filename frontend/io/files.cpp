#include "weft/io/files.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "frontend/io/status.h"
#include "runtime/io/files.h"

namespace weft::io {
namespace fs = std::filesystem;

void write_file(const std::string &path, std::string_view content, Location location) {
  std::span<const std::byte> pieces[] = {std::as_bytes(std::span(content))};
  check(runtime::write_file_atomically(path, pieces), location);
}

void make_writable_folder(const std::string &path, Location location) {
  location = CallerScope::resolve(location);
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error))
    throw Error(ErrorKind::kFile, "'" + path + "' is not a folder", location);
  fs::create_directories(path, error);
  if (error)
    throw Error(ErrorKind::kFile, "cannot make the folder '" + path + "': " + error.message(),
                location);
  // Asked, not tried: a file made to try it would stay where the process is killed meanwhile. The
  // system's answer covers what is mounted read-only as well.
  if (::faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    throw Error(ErrorKind::kFile,
                "cannot write into the folder '" + path +
                    "': " + std::generic_category().message(errno),
                location);
}

} // namespace weft::io

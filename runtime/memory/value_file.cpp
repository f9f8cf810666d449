#include "runtime/memory/value_file.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace weft::runtime {
namespace {

struct Folder {
  std::mutex mutex;
  std::string path; // empty: the environment's
};
Folder &folder() {
  static Folder folder;
  return folder;
}

absl::Status failure(int error, const std::string &what) {
  std::string message = absl::StrCat(what, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG || error == EMFILE || error == ENFILE)
    return absl::ResourceExhaustedError(message);
  return absl::FailedPreconditionError(message);
}

// A file that no folder lists. Some file systems have no such files: there its name goes at once.
int open_in(const std::string &path) {
  int descriptor = open(path.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
    return descriptor;
  std::string name = path + "/weft-value-XXXXXX";
  descriptor = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor >= 0)
    unlink(name.c_str());
  return descriptor;
}

// Calls `step(done)`, which says how many bytes it moved, until all are. Neither a signal nor the
// most that the system moves at once ends it.
template <typename Step> int move_all(int64_t bytes, Step step) {
  for (int64_t done = 0; done < bytes;) {
    ssize_t moved = step(done);
    if (moved < 0 && errno == EINTR)
      continue;
    if (moved <= 0)
      return moved < 0 ? errno : EIO;
    done += moved;
  }
  return 0;
}

} // namespace

void set_memory_folder(std::string path) {
  std::lock_guard lock(folder().mutex);
  folder().path = std::move(path);
}

std::string memory_folder() {
  {
    std::lock_guard lock(folder().mutex);
    if (!folder().path.empty())
      return folder().path;
  }
  for (const char *name : {"WEFT_MEMORY_FOLDER", "TMPDIR"})
    if (const char *path = std::getenv(name); path && *path)
      return path;
  return "/tmp";
}

absl::StatusOr<std::unique_ptr<ValueFile>> ValueFile::make(int64_t bytes,
                                                             const std::string &folder) {
  int descriptor = open_in(folder);
  if (descriptor < 0)
    return failure(errno, absl::StrCat("no file for a value can be made in ", folder));
  std::unique_ptr<ValueFile> file(new ValueFile(descriptor, bytes));
  if (int error = posix_fallocate(descriptor, 0, bytes); error != 0)
    return failure(error, absl::StrCat("no room for a value of ", bytes, " bytes in ", folder));
  return file;
}

ValueFile::~ValueFile() {
  close(descriptor_);
}

absl::Status ValueFile::write(const void *from) const {
  int error = move_all(bytes_, [&](int64_t done) {
    return pwrite(descriptor_, static_cast<const char *>(from) + done,
                  static_cast<size_t>(bytes_ - done), done);
  });
  if (error != 0)
    return failure(error, "a value cannot be written to its file");
  // Written pages are free for others sooner when the disk begins at once.
  sync_file_range(descriptor_, 0, 0, SYNC_FILE_RANGE_WRITE);
  return absl::OkStatus();
}

absl::Status ValueFile::read(int64_t token, void *to, int64_t bytes) {
  int error = move_all(bytes, [&](int64_t done) {
    return pread(static_cast<int>(token), static_cast<char *>(to) + done,
                 static_cast<size_t>(bytes - done), done);
  });
  return error == 0 ? absl::OkStatus() : failure(error, "a value cannot be read from its file");
}

} // namespace weft::runtime

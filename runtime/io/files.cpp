#include "runtime/io/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace weft::runtime {
namespace {

absl::Status failure(const char *what, const std::string &path, int error) {
  std::string message = std::string("cannot ") + what + " '" + path + "': " + std::strerror(error);
  switch (error) {
  case ENOENT:
  case ENOTDIR:
    return absl::NotFoundError(message);
  case EACCES:
  case EPERM:
  case EROFS:
    return absl::PermissionDeniedError(message);
  case ENOSPC:
  case EDQUOT:
    return absl::ResourceExhaustedError(message);
  default:
    return absl::DataLossError(message);
  }
}

class File {
public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0)
      ::close(descriptor_);
  }
  File(const File &) = delete;
  File &operator=(const File &) = delete;
  int get() const {
    return descriptor_;
  }
  bool close() {
    int descriptor = descriptor_;
    descriptor_ = -1;
    return ::close(descriptor) == 0;
  }

private:
  int descriptor_;
};

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

// Of a file that was opened for reading.
absl::StatusOr<size_t> size_of(const File &file, const std::string &path) {
  struct stat status;
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0)
    return failure("read", path, errno);
  if (!S_ISREG(status.st_mode))
    return absl::InvalidArgumentError("cannot read '" + path + "': not a regular file");
  return static_cast<size_t>(status.st_size);
}

// Another name in the same folder, so that the rename stays on one file system; no two writers
// share one.
std::string temporary_beside(const std::string &path) {
  static std::atomic<unsigned> counter{0};
  return path + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(counter++);
}

} // namespace

absl::StatusOr<std::vector<std::byte>> read_file(const std::string &path) {
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  absl::StatusOr<size_t> size = size_of(file, path);
  if (!size.ok())
    return size.status();
  std::vector<std::byte> bytes(*size);
  size_t filled = 0;
  while (filled < bytes.size()) {
    ssize_t count = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return failure("read", path, errno);
    if (count == 0)
      break; // it became shorter meanwhile; the reader of the format will see
    filled += static_cast<size_t>(count);
  }
  bytes.resize(filled);
  return bytes;
}

absl::StatusOr<MappedFile> map_file(const std::string &path) {
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  absl::StatusOr<size_t> size = size_of(file, path);
  if (!size.ok())
    return size.status();
  void *data = *size == 0
                   ? MAP_FAILED
                   : ::mmap(nullptr, *size, PROT_READ, MAP_PRIVATE, file.get(), /*offset=*/0);
  if (data == MAP_FAILED) {
    absl::StatusOr<std::vector<std::byte>> bytes = read_file(path);
    if (!bytes.ok())
      return bytes.status();
    auto kept = std::make_shared<const std::vector<std::byte>>(*std::move(bytes));
    return MappedFile{*kept, kept};
  }
  std::shared_ptr<const void> owner(data, [size = *size](void *mapped) { ::munmap(mapped, size); });
  return MappedFile{{static_cast<const std::byte *>(data), *size}, std::move(owner)};
}

absl::Status write_file_atomically(const std::string &path,
                                   std::span<const std::span<const std::byte>> pieces) {
  struct stat status;
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    return absl::InvalidArgumentError("cannot write '" + path +
                                      "': it is there and not a regular file");
  std::string temporary = temporary_beside(path);
  File file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0)
    return failure("write", path, errno);
  bool ok = true;
  for (std::span<const std::byte> piece : pieces)
    ok = ok && write_all(file.get(), piece);
  ok = ok && ::fsync(file.get()) == 0;
  int error = errno;
  if (!file.close() && ok)
    ok = false, error = errno;
  if (ok && ::rename(temporary.c_str(), path.c_str()) != 0)
    ok = false, error = errno;
  if (ok)
    return absl::OkStatus();
  ::unlink(temporary.c_str());
  return failure("write", path, error);
}

} // namespace weft::runtime

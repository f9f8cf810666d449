#include "runtime/io/files.h"
#include "runtime/core/status.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

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

private:
  int descriptor_;
};

// Of a file that was opened for reading.
absl::StatusOr<size_t> size_of(const File &file, const std::string &path) {
  struct stat status;
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0)
    return failure("read", path, errno);
  if (!S_ISREG(status.st_mode))
    return absl::InvalidArgumentError("cannot read '" + path + "': not a regular file");
  return static_cast<size_t>(status.st_size);
}

constexpr const char *kTemporary = ".tmp.";

// Of another name in the same folder, so that the rename stays on one file system; no two writers
// of a machine share one: PATH.tmp.PROCESS.NUMBER.
std::string temporary_mark() {
  static std::atomic<unsigned> counter{0};
  return kTemporary + std::to_string(::getpid()) + "." + std::to_string(counter++);
}

// The process in what follows kTemporary in such a name; 0 in any other text.
pid_t writer_of(std::string_view rest) {
  const char *end = rest.data() + rest.size();
  pid_t process = 0;
  unsigned number = 0;
  auto dot = std::from_chars(rest.data(), end, process);
  if (dot.ec != std::errc() || dot.ptr == end || *dot.ptr != '.')
    return 0;
  auto last = std::from_chars(dot.ptr + 1, end, number);
  return last.ec == std::errc() && last.ptr == end && process > 0 ? process : 0;
}

// A writer holds a lock on what it writes. Another machine, or another container, that shares the
// folder has processes of its own, which are not to be seen here.
bool is_locked(const std::string &path) {
  File file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  return file.get() < 0 || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0;
}

// Removes the temporary files of `path` whose processes were killed.
void remove_abandoned(const std::string &path) {
  constexpr int kMostEntries = 4096; // of the folder: a moment beside the write itself
  std::filesystem::path whole(path), folder = whole.parent_path();
  const std::string prefix = whole.filename().string() + kTemporary;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, error), end;
  for (int i = 0; i < kMostEntries && !error && entry != end; ++i, entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix))
      continue;
    pid_t writer = writer_of(std::string_view(name).substr(prefix.size()));
    if (writer == 0 || ::kill(writer, 0) == 0 || errno != ESRCH)
      continue;
    if (!is_locked(entry->path().string()))
      ::unlink(entry->path().c_str());
  }
}

// What `path` points to through symbolic links, also where there is no file yet.
std::string behind_links(std::string path) {
  constexpr int kMostLinks = 40; // that the kernel follows
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code no_link;
    std::filesystem::path target = std::filesystem::read_symlink(path, no_link);
    if (no_link)
      break;
    path = (std::filesystem::path(path).parent_path() / target).string();
  }
  return path;
}

// That of the file that is there, if one is; the error of a name that no file can take.
absl::StatusOr<std::optional<mode_t>> mode_of(const std::string &path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ELOOP)
      return failure("write", path, ELOOP);
    return std::nullopt;
  }
  if (!S_ISREG(status.st_mode))
    return absl::InvalidArgumentError("cannot write '" + path +
                                      "': it is there and not a regular file");
  return status.st_mode;
}

// A rename is on the disk once its folder is. Not every file system knows that call for folders, or
// lets them be opened: the file is whole either way, so nothing fails.
void sync_folder_of(const std::string &path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  File file(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.get() >= 0)
    ::fsync(file.get());
}

} // namespace

absl::StatusOr<std::vector<std::byte>> read_file(const std::string &path) {
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  WEFT_ASSIGN_OR_RETURN(size_t size, size_of(file, path));
  std::vector<std::byte> bytes;
  try {
    bytes.resize(size);
  } catch (const std::exception &) { // there are not so many, or a vector has not
    return absl::ResourceExhaustedError("cannot read '" + path + "': there is no memory for its " +
                                        std::to_string(size) + " bytes");
  }
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
  WEFT_ASSIGN_OR_RETURN(size_t size, size_of(file, path));
  void *data = size == 0 ? MAP_FAILED
                         : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), /*offset=*/0);
  if (data == MAP_FAILED) {
    WEFT_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, read_file(path));
    auto kept = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    return MappedFile{*kept, kept};
  }
  std::shared_ptr<const void> owner(data, [size = size](void *mapped) { ::munmap(mapped, size); });
  return MappedFile{{static_cast<const std::byte *>(data), size}, std::move(owner)};
}

absl::StatusOr<NewFile> NewFile::begin(const std::string &path) {
  WEFT_ASSIGN_OR_RETURN(const std::optional<mode_t> replaced, mode_of(path));
  NewFile made(path, behind_links(path), temporary_mark());
  const std::string temporary = made.target_ + made.mark_;
  // What replaces a file is its owner's alone until it is whole, and has the file's permissions
  // then: these may let nobody write it.
  const mode_t mode = replaced ? 0600 : 0666;
  made.mode_ = replaced;
  made.file_ = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (made.file_ < 0)
    return failure("write", path, errno);
  // See is_locked(); where the file system has no locks nothing is removed. The copy holds the lock
  // until the file has its name.
  ::flock(made.file_, LOCK_EX | LOCK_NB);
  made.lock_ = ::fcntl(made.file_, F_DUPFD_CLOEXEC, 0);
  if (made.lock_ < 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return failure("write", path, error);
  }
  return made;
}

absl::StatusOr<NewFile> NewFile::join(const std::string &path, const std::string &mark) {
  NewFile made(path, behind_links(path), mark);
  made.file_ = ::open((made.target_ + mark).c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (made.file_ < 0)
    return failure("write", path, errno);
  return made;
}

NewFile::NewFile(NewFile &&other) noexcept
    : path_(std::move(other.path_)), target_(std::move(other.target_)),
      mark_(std::move(other.mark_)), file_(std::exchange(other.file_, -1)),
      lock_(std::exchange(other.lock_, -1)), mode_(other.mode_) {}

NewFile::~NewFile() {
  if (file_ >= 0)
    ::close(file_);
  if (lock_ >= 0) {
    ::unlink((target_ + mark_).c_str());
    ::close(lock_);
  }
}

absl::Status NewFile::reserve(int64_t bytes) {
  while (::fallocate(file_, /*mode=*/0, /*offset=*/0, bytes) != 0) {
    if (errno == EINTR)
      continue;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
      return failure("write", path_, errno);
    if (::ftruncate(file_, bytes) != 0)
      return failure("write", path_, errno);
    break;
  }
  return absl::OkStatus();
}

absl::Status NewFile::write(int64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return failure("write", path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
    at += written;
  }
  return absl::OkStatus();
}

absl::Status NewFile::close() {
  const int file = std::exchange(file_, -1);
  const bool synced = ::fsync(file) == 0;
  const int error = errno;
  if (::close(file) != 0 || !synced)
    return failure("write", path_, synced ? errno : error);
  return absl::OkStatus();
}

absl::Status NewFile::finish() {
  // A file system without permissions may refuse: then there are none to keep.
  if (mode_)
    ::fchmod(lock_, *mode_ & 0777);
  if (::rename((target_ + mark_).c_str(), target_.c_str()) != 0)
    return failure("write", path_, errno);
  ::close(std::exchange(lock_, -1));
  sync_folder_of(target_);
  remove_abandoned(target_);
  return absl::OkStatus();
}

absl::Status write_file_atomically(const std::string &path,
                                   std::span<const std::span<const std::byte>> pieces) {
  WEFT_ASSIGN_OR_RETURN(NewFile file, NewFile::begin(path));
  int64_t at = 0;
  for (std::span<const std::byte> piece : pieces) {
    WEFT_RETURN_IF_ERROR(file.write(at, piece));
    at += static_cast<int64_t>(piece.size());
  }
  WEFT_RETURN_IF_ERROR(file.close());
  return file.finish();
}

absl::Status write_file_atomically(const std::string &path, std::string_view text) {
  std::span<const std::byte> piece = std::as_bytes(std::span(text));
  return write_file_atomically(path, {&piece, 1});
}

absl::Status check_writable(const std::string &path) {
  WEFT_RETURN_IF_ERROR(mode_of(path).status());
  std::string folder = std::filesystem::path(behind_links(path)).parent_path().string();
  if (::faccessat(AT_FDCWD, folder.empty() ? "." : folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    return failure("write", path, errno);
  return absl::OkStatus();
}

} // namespace weft::runtime

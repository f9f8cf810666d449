#include "runtime/memory/value_file.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "runtime/core/caches.h"

namespace weft::runtime {
namespace {

// Rooms begin at pages, so that each can be given back by itself.
constexpr int64_t kPage = 4096;
int64_t in_pages(int64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

std::atomic<int64_t> held_values{0}, held_bytes{0};
const RegisteredCache registered("values in files", "the program's end, as `programs` says", [] {
  return CacheUse{held_values.load(), held_bytes.load(), -1, -1};
});

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
  std::string name = path + "/weft-values-XXXXXX";
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

// The file of a folder, and which parts of it nobody has.
class ValueFile::Shared {
public:
  explicit Shared(int descriptor) : descriptor(descriptor) {}
  ~Shared() {
    close(descriptor);
  }
  Shared(const Shared &) = delete;
  Shared &operator=(const Shared &) = delete;

  // The offset of that many bytes, a multiple of kPage; or the error, negative.
  int64_t reserve(int64_t bytes) {
    std::lock_guard lock(mutex_);
    auto fits = free_.begin();
    while (fits != free_.end() && fits->second < bytes)
      ++fits;
    int64_t offset = fits == free_.end() ? end_ : fits->first;
    int error;
    do
      error = posix_fallocate(descriptor, offset, bytes);
    while (error == EINTR);
    if (error != 0)
      return -error;
    if (fits == free_.end()) {
      end_ += bytes;
    } else {
      int64_t rest = fits->second - bytes;
      free_.erase(fits);
      if (rest > 0)
        free_[offset + bytes] = rest;
    }
    return offset;
  }

  void give_back(int64_t offset, int64_t bytes) {
    std::lock_guard lock(mutex_);
    // Where a file system cannot, the room serves the next values.
    [[maybe_unused]] int given =
        fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
    auto after = free_.lower_bound(offset);
    if (after != free_.end() && after->first == offset + bytes) {
      bytes += after->second;
      after = free_.erase(after);
    }
    if (after != free_.begin())
      if (auto before = std::prev(after); before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    free_[offset] = bytes;
  }

  const int descriptor;

private:
  std::mutex mutex_;
  std::map<int64_t, int64_t> free_; // bytes by offset; no two meet
  int64_t end_ = 0;
};

namespace {

struct Folder {
  std::mutex mutex;
  std::string path;  // empty: the environment's
  std::string known; // where `file` lies
  std::weak_ptr<void> file;
};
Folder &folder() {
  static auto *folder = new Folder; // tensors in static variables outlive main()
  return *folder;
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
  if (const char *path = std::getenv("WEFT_MEMORY_FOLDER"); path && *path)
    return path;
  if (const char *path = std::getenv("TMPDIR"); path && *path)
    return path;
  return "/var/tmp";
}

bool is_in_memory(const std::string &path) {
  struct statfs system;
  return statfs(path.c_str(), &system) == 0 &&
         (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

absl::StatusOr<std::unique_ptr<ValueFile>> ValueFile::make(int64_t bytes,
                                                           const std::string &path) {
  std::shared_ptr<Shared> file;
  {
    std::lock_guard lock(folder().mutex);
    if (folder().known == path)
      file = std::static_pointer_cast<Shared>(folder().file.lock());
    if (!file) {
      int descriptor = open_in(path);
      if (descriptor < 0)
        return failure(errno, absl::StrCat("no file for values can be made in ", path));
      file = std::make_shared<Shared>(descriptor);
      folder().known = path;
      folder().file = file;
    }
  }
  int64_t offset = file->reserve(in_pages(bytes));
  if (offset < 0)
    return failure(static_cast<int>(-offset),
                   absl::StrCat("no room for a value of ", bytes, " bytes in ", path));
  return std::unique_ptr<ValueFile>(new ValueFile(std::move(file), offset, bytes));
}

ValueFile::ValueFile(std::shared_ptr<Shared> file, int64_t offset, int64_t bytes)
    : file_(std::move(file)), offset_(offset), bytes_(bytes) {
  held_values.fetch_add(1, std::memory_order_relaxed);
  held_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

ValueFile::~ValueFile() {
  held_values.fetch_sub(1, std::memory_order_relaxed);
  held_bytes.fetch_sub(bytes_, std::memory_order_relaxed);
  file_->give_back(offset_, in_pages(bytes_));
}

ValueFile::Token ValueFile::token() const {
  return {file_->descriptor, offset_};
}

absl::Status ValueFile::write(const void *from) const {
  int error = move_all(bytes_, [&](int64_t done) {
    return pwrite(file_->descriptor, static_cast<const char *>(from) + done,
                  static_cast<size_t>(bytes_ - done), offset_ + done);
  });
  if (error != 0)
    return failure(error, "a value cannot be written to its file");
  // Written pages are free for others sooner when the disk begins at once.
  sync_file_range(file_->descriptor, offset_, bytes_, SYNC_FILE_RANGE_WRITE);
  return absl::OkStatus();
}

absl::Status ValueFile::read(Token token, void *to, int64_t bytes) {
  int error = move_all(bytes, [&](int64_t done) {
    return pread(static_cast<int>(token.file), static_cast<char *>(to) + done,
                 static_cast<size_t>(bytes - done), token.offset + done);
  });
  return error == 0 ? absl::OkStatus() : failure(error, "a value cannot be read from its file");
}

} // namespace weft::runtime

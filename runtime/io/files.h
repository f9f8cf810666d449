// Whole files, in and out, and in memory.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft::runtime {

// The bytes of a regular file. NotFound when there is none, InvalidArgument for a folder or a
// device, PermissionDenied or DataLoss when it cannot be read; the message names the file.
absl::StatusOr<std::vector<std::byte>> read_file(const std::string &path);

// What a file holds, while `owner` lives. It reads nothing before it is looked at. The file may be
// deleted or replaced meanwhile (write_file_atomically() replaces), but must not be written or cut
// in place: that shows, and reading what was cut off ends the process (SIGBUS).
struct MappedFile {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};
// As read_file(), which it calls on file systems that map nothing.
absl::StatusOr<MappedFile> map_file(const std::string &path);

// A file that takes the place of `path` in one step, once all of it is written: until then it lies
// beside `path`, and whoever reads `path` finds the old content. Other processes that have the
// folder, also of other machines, may write into it. Errors as write_file_atomically() has them.
class NewFile {
public:
  static absl::StatusOr<NewFile> begin(const std::string &path);
  // The one that another process has begun, by its mark. NotFound where it is not in this folder.
  static absl::StatusOr<NewFile> join(const std::string &path, const std::string &mark);
  NewFile(NewFile &&other) noexcept;
  NewFile &operator=(NewFile &&) = delete;
  // What was begun here and is not finished goes.
  ~NewFile();

  // What its name has behind that of the file that it replaces.
  const std::string &mark() const {
    return mark_;
  }
  // Makes it so long. ResourceExhausted where the disk has no room for that, on file systems that
  // can tell.
  absl::Status reserve(int64_t bytes);
  absl::Status write(int64_t at, std::span<const std::byte> bytes);
  // What was written here is on the disk, and no more is written here.
  absl::Status close();
  // Gives it its name; only where it was begun, after close() wherever it was written.
  absl::Status finish();

private:
  NewFile(std::string path, std::string target, std::string mark)
      : path_(std::move(path)), target_(std::move(target)), mark_(std::move(mark)) {}
  std::string path_, target_, mark_; // as it was given; what it points to; behind that
  int file_ = -1;
  int lock_ = -1;              // of the one who began it, until the file has its name
  std::optional<mode_t> mode_; // of the file that it replaces
};

// Writes the pieces one after another into a file beside `path`, then renames it to `path`: whoever
// reads `path`, and a process that is killed meanwhile, finds the old content or the new one. The
// bytes are on the disk before the rename, and the new name when this returns, where the folder's
// file system can tell. The new file has the old one's permissions; of a symbolic link it is what
// the link points to that is replaced. After an error the old file is as it was and nothing is left
// behind. The message names the file. What a process that was killed has left, PATH.tmp.PROCESS.N,
// goes with the next write to the same path; in a folder of thousands of files some may stay.
absl::Status write_file_atomically(const std::string &path,
                                   std::span<const std::span<const std::byte>> pieces);
// The same of one text.
absl::Status write_file_atomically(const std::string &path, std::string_view text);

// What write_file_atomically() would begin with: the error of a folder that is not there or takes
// no files, and of a name that something else than a regular file has. For what is written after
// long work.
absl::Status check_writable(const std::string &path);

} // namespace weft::runtime

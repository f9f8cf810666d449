// Whole files, in and out, and in memory.
#pragma once

#include <cstddef>
#include <memory>
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

// Files in which programs keep values that a memory limit does not let stay.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft::runtime {

// Where the files lie that are made from now on. Empty, as it is at first: where the environment
// says, which is WEFT_MEMORY_FOLDER, else TMPDIR, else /tmp.
void set_memory_folder(std::string folder);
std::string memory_folder();

// A file of one value, without a name: the system takes its room back when the object goes, or the
// process ends. All its room is there from the beginning, so that a full disk is found before
// anything is computed.
class ValueFile {
public:
  // FailedPrecondition where the folder takes no files, ResourceExhausted where it has no room for
  // so many bytes or the process has too many files open. The message names the folder.
  static absl::StatusOr<std::unique_ptr<ValueFile>> make(int64_t bytes,
                                                         const std::string &folder);
  ~ValueFile();
  ValueFile(const ValueFile &) = delete;
  ValueFile &operator=(const ValueFile &) = delete;

  // The whole value.
  absl::Status write(const void *from) const;
  // Names the file, in this process and while it lives: a program carries it from the write to the
  // reads in memory of its own.
  int64_t token() const {
    return descriptor_;
  }
  // The first `bytes` of the file of that token.
  static absl::Status read(int64_t token, void *to, int64_t bytes);

private:
  ValueFile(int descriptor, int64_t bytes) : descriptor_(descriptor), bytes_(bytes) {}
  int descriptor_;
  int64_t bytes_;
};

} // namespace weft::runtime

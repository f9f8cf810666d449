// Files in which programs keep values that a memory limit does not let stay.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft::runtime {

// Where the files lie that are made from now on. Empty, as it is at first: where the environment
// says, which is WEFT_MEMORY_FOLDER, else TMPDIR, else /var/tmp, which is on a disk as a rule.
void set_memory_folder(std::string folder);
std::string memory_folder();
// Whether the folder's files are memory themselves (tmpfs): values that wait there save none.
bool is_in_memory(const std::string &folder);

// Room for one value. All values of a folder share one file, which has no name: the system takes it
// back when the process ends. The room is there from the beginning, so that a full disk is found
// before anything is computed; it is given back when the object goes.
class ValueFile {
public:
  // Names the room, in this process and while the object lives: a program carries it from the write
  // to the reads in memory of its own.
  struct Token {
    int64_t file, offset;
  };
  // FailedPrecondition where the folder takes no files, ResourceExhausted where it has no room for
  // so many bytes. The message names the folder.
  static absl::StatusOr<std::unique_ptr<ValueFile>> make(int64_t bytes, const std::string &folder);
  ~ValueFile();
  ValueFile(const ValueFile &) = delete;
  ValueFile &operator=(const ValueFile &) = delete;

  // The whole value.
  absl::Status write(const void *from) const;
  Token token() const;
  // The value's first `bytes`.
  static absl::Status read(Token token, void *to, int64_t bytes);

private:
  class Shared;
  ValueFile(std::shared_ptr<Shared> file, int64_t offset, int64_t bytes);
  std::shared_ptr<Shared> file_;
  int64_t offset_, bytes_;
};

} // namespace weft::runtime

// A file of no disk, for readers that take paths.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace weft::fuzz {

class MemoryFile {
public:
  MemoryFile(const uint8_t *data, size_t size) : descriptor_(memfd_create("fuzzed", 0)) {
    if (descriptor_ < 0 || write(descriptor_, data, size) != static_cast<ssize_t>(size))
      std::abort();
  }
  ~MemoryFile() {
    close(descriptor_);
  }
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  std::string path() const {
    return "/proc/self/fd/" + std::to_string(descriptor_);
  }

private:
  int descriptor_;
};

} // namespace weft::fuzz

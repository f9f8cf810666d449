// Memory that is free once earlier runs of a line have ended.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace weft::runtime {

class Buffer;
class Memory;

// The runs of one executor follow each other, so what only runs under way still hold may be written
// by one that comes after them, long before it is free: a loop whose caller runs ahead takes the
// memory of two or three of its rounds, and not that of all which are queued. The events of the
// buffer order the runs (buffer.h). A buffer that another executor's runs hold as well, or anybody
// else, is in use. Of outputs of kOrderedBytes and more. All functions may be called from any
// thread.
class OrderedMemory {
public:
  // The purpose of the buffers that it knows.
  static constexpr const char *kPurpose = "output";
  // Smaller ones take less than the books would.
  static constexpr int64_t kOrderedBytes = int64_t{64} << 10;

  struct Stats {
    int64_t buffers = 0, bytes = 0; // handed on, since the start
  };
  using Buffers = std::vector<std::shared_ptr<Buffer>>;

  // A run that was submitted holds these, until it lets go of them.
  void hold(const Buffers &buffers);
  // Its last use of them: the pointers are null afterwards.
  void let_go(Buffers &buffers);
  // A buffer of `memory`, with that many bytes, that nobody but runs under way holds; null where
  // there is none.
  std::shared_ptr<Buffer> take(const Memory &memory, int64_t bytes);
  Stats stats() const;

private:
  struct Held {
    std::shared_ptr<Buffer> buffer;
    int64_t times; // how many pointers of runs there are
  };
  using Line = std::list<Held>;

  mutable std::mutex mutex_;
  std::unordered_map<int64_t, Line> lines_; // by bytes; what take() looks at next first
  std::unordered_map<const Buffer *, Line::iterator> places_;
  Stats stats_;
};

} // namespace weft::runtime

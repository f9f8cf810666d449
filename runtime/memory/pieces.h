// Which parts of large blocks are unused, and where they lie.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace weft::runtime {

// Blocks are cut into pieces and grow together again: no two unused pieces of a block meet. What is
// taken next follows from which pieces are in use alone, not from how they came to be: a loop that
// ends its rounds with the same pieces finds the same addresses in each. Not thread-safe; addresses
// are compared and never followed.
class Pieces {
public:
  // A block, all of which is in use.
  void add(void *block, int64_t bytes);
  // From now on in use: `bytes` of the smallest unused piece that has them, from the lowest address
  // on; what is left of it stays unused. Null where no piece has so many, or only one of more than
  // `most`.
  void *take(int64_t bytes, int64_t most);
  // A piece that was added or taken is unused from now on. The block that it belongs to, where
  // nothing of that is in use any more; otherwise null.
  void *put(void *piece);
  // Of a block that put() gave.
  int64_t bytes_of(void *block) const;
  // An unused block is no longer there.
  void remove(void *block);

private:
  struct Piece {
    int64_t bytes;
    bool begins_block;
    bool is_used;
  };
  using Place = std::map<char *, Piece>::iterator;
  bool ends_block(Place piece) const {
    auto next = std::next(piece);
    return next == pieces_.end() || next->second.begins_block;
  }
  void join_next(Place piece);

  std::map<char *, Piece> pieces_;
  std::set<std::pair<int64_t, char *>> unused_; // bytes, address
};

} // namespace weft::runtime

#include "runtime/memory/pieces.h"

#include <iterator>

namespace weft::runtime {

void Pieces::add(void *block, int64_t bytes) {
  pieces_.emplace(static_cast<char *>(block), Piece{bytes, true, true});
}

void *Pieces::take(int64_t bytes, int64_t most) {
  auto smallest = unused_.lower_bound({bytes, nullptr});
  if (smallest == unused_.end() || smallest->first > most)
    return nullptr;
  Place piece = pieces_.find(smallest->second);
  unused_.erase(smallest);
  if (int64_t rest = piece->second.bytes - bytes; rest > 0) {
    char *after = piece->first + bytes;
    pieces_.emplace_hint(std::next(piece), after, Piece{rest, false, false});
    unused_.emplace(rest, after);
  }
  piece->second.bytes = bytes;
  piece->second.is_used = true;
  return piece->first;
}

// `piece` is in no set yet.
void Pieces::join_next(Place piece) {
  auto next = std::next(piece);
  if (next == pieces_.end() || next->second.begins_block || next->second.is_used)
    return;
  unused_.erase({next->second.bytes, next->first});
  piece->second.bytes += next->second.bytes;
  pieces_.erase(next);
}

void *Pieces::put(void *pointer) {
  Place piece = pieces_.find(static_cast<char *>(pointer));
  piece->second.is_used = false;
  join_next(piece);
  if (!piece->second.begins_block)
    if (auto before = std::prev(piece); !before->second.is_used) {
      unused_.erase({before->second.bytes, before->first});
      before->second.bytes += piece->second.bytes;
      pieces_.erase(piece);
      piece = before;
    }
  unused_.emplace(piece->second.bytes, piece->first);
  return piece->second.begins_block && ends_block(piece) ? piece->first : nullptr;
}

int64_t Pieces::bytes_of(void *block) const {
  return pieces_.find(static_cast<char *>(block))->second.bytes;
}

void Pieces::remove(void *block) {
  auto piece = pieces_.find(static_cast<char *>(block));
  unused_.erase({piece->second.bytes, piece->first});
  pieces_.erase(piece);
}

} // namespace weft::runtime

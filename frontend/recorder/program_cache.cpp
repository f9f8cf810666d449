#include "frontend/recorder/program_cache.h"

#include "frontend/recorder/slice.h"
#include "llvm/Support/xxhash.h"

namespace weft::recorder {

uint64_t ProgramCache::hash(const Key &key, uint64_t salt) {
  auto *bytes = reinterpret_cast<const uint8_t *>(key.data());
  return llvm::xxh3_64bits(llvm::ArrayRef<uint8_t>(bytes, key.size() * sizeof(uint32_t))) ^ salt;
}

std::shared_ptr<CompiledProgram> ProgramCache::find(const Key &key, uint64_t salt) {
  auto [first, last] = index_.equal_range(hash(key, salt));
  for (auto it = first; it != last; ++it) {
    if (it->second->salt != salt || it->second->key != key) continue;
    order_.splice(order_.begin(), order_, it->second);
    return it->second->program;
  }
  return nullptr;
}

void ProgramCache::insert(Key key, uint64_t salt, std::shared_ptr<CompiledProgram> program, const Config &config) {
  uint64_t h = hash(key, salt);
  bytes_ += program->bytes + static_cast<int64_t>(key.size() * sizeof(uint32_t));
  order_.push_front(Entry{std::move(key), salt, h, std::move(program)});
  index_.emplace(h, order_.begin());
  trim(config);
}

void ProgramCache::trim(const Config &config) {
  // The newest stays, whatever its size: it is about to run.
  while (order_.size() > 1 && (entries() > config.cache_entries || bytes_ > config.cache_bytes)) {
    Entry &oldest = order_.back();
    bytes_ -= oldest.program->bytes + static_cast<int64_t>(oldest.key.size() * sizeof(uint32_t));
    auto [first, last] = index_.equal_range(oldest.hash);
    for (auto it = first; it != last; ++it)
      if (&*it->second == &oldest) {
        index_.erase(it);
        break;
      }
    order_.pop_back();
  }
}

std::string ProgramCache::difference(const Key &key) const {
  // Enough to see a loop's alternation; more would only cost time on a miss.
  constexpr int kCandidates = 16;
  if (order_.empty()) return "the first program";
  IrState &ir = *recorder().ir;
  size_t n = key.size();
  uint32_t nodes = key[n - 3], leaves = key[n - 2], outputs = key[n - 1];
  std::string best = "ops: no recent program has these ops";
  int seen = 0;
  for (const Entry &entry : order_) {
    if (++seen > kCandidates) break;
    const Key &other = entry.key;
    size_t m = other.size();
    if (other[m - 3] != nodes) continue;
    if (m != n || other[m - 2] != leaves || other[m - 1] != outputs) {
      if (other[m - 2] == leaves && other[m - 1] != outputs)
        best = "outputs: " + std::to_string(outputs) + " values are alive instead of " + std::to_string(other[m - 1]);
      continue;
    }
    size_t tail = n - 3 - outputs;
    size_t leaf_table = tail - 2 * static_cast<size_t>(leaves);
    size_t at = 0;
    while (at < n && key[at] == other[at]) ++at;
    if (at >= n) return "options or backend changed";
    if (at >= tail) return "outputs: other values are alive";
    if (at >= leaf_table) {
      size_t leaf = (at - leaf_table) / 2;
      return (at - leaf_table) % 2 ? "donation of input " + std::to_string(leaf) : "type of input " + std::to_string(leaf);
    }
    // Which word of the ops' part it is: walk from the start, since ops have different numbers of operands.
    size_t position = 0;
    std::string found;
    for (uint32_t i = 0; i < nodes && position < leaf_table; ++i) {
      const SignatureText &mine = ir.text(key[position]);
      if (position == at) {
        const SignatureText &theirs = ir.text(other[position]);
        found = mine.name == theirs.name
                    ? "shapes: op " + std::to_string(i) + " " + mine.name + " " + mine.text + " instead of " + theirs.text
                    : "ops: op " + std::to_string(i) + " is " + mine.name + " instead of " + theirs.name;
        break;
      }
      position += 1 + mine.operands;
      if (position > at) {
        found = "dataflow: op " + std::to_string(i) + " " + mine.name + " has another operand";
        break;
      }
    }
    if (found.rfind("ops:", 0) != 0) return found;
    best = found;
  }
  return best;
}

} // namespace weft::recorder

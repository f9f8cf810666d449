#include "compiler/plan/Packing.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "compiler/plan/Lifetimes.h"
#include "compiler/plan/Limits.h"

namespace weft::compiler {
namespace {

// The free parts of an arena that grows at its end.
class FreeList {
public:
  int64_t allocate(int64_t bytes) {
    auto fit = bySize_.lower_bound({bytes, 0});
    int64_t offset;
    if (fit != bySize_.end()) {
      auto [size, start] = *fit;
      offset = start;
      remove(start, size);
      if (size > bytes)
        insert(start + bytes, size - bytes);
      return offset;
    }
    // Grow, from the last free part where it ends the arena.
    offset = end_;
    if (!byStart_.empty() && byStart_.rbegin()->first + byStart_.rbegin()->second == end_) {
      auto [start, size] = *byStart_.rbegin();
      remove(start, size);
      offset = start;
    }
    end_ = offset + bytes;
    return offset;
  }

  void free(int64_t offset, int64_t bytes) {
    if (bytes == 0)
      return;
    auto after = byStart_.lower_bound(offset);
    if (after != byStart_.end() && offset + bytes == after->first) {
      int64_t size = after->second;
      remove(after->first, size);
      bytes += size;
    }
    auto before = byStart_.lower_bound(offset);
    if (before != byStart_.begin() && (--before)->first + before->second == offset) {
      auto [start, size] = *before;
      remove(start, size);
      offset = start;
      bytes += size;
    }
    insert(offset, bytes);
  }

  int64_t end() const {
    return end_;
  }

private:
  void insert(int64_t start, int64_t size) {
    byStart_[start] = size;
    bySize_.insert({size, start});
  }
  void remove(int64_t start, int64_t size) {
    byStart_.erase(start);
    bySize_.erase({size, start});
  }

  std::map<int64_t, int64_t> byStart_;
  std::set<std::pair<int64_t, int64_t>> bySize_;
  int64_t end_ = 0;
};

// Placed values by lifetime: finds all that meet a given one. A segment tree over positions, in
// which each lifetime stands at the O(log n) nodes that cover it, and above them a mark that says
// that something stands below.
class PlacedValues {
public:
  explicit PlacedValues(int32_t positions) {
    while (leaves_ < positions)
      leaves_ *= 2;
    covering_.resize(2 * leaves_);
    starting_.resize(2 * leaves_);
  }

  // A lifetime meets [begin, end] if it covers begin, or begins inside (begin, end].
  void insert(const Lifetime &life, int32_t item) {
    for (int32_t lo = life.begin + leaves_, hi = life.end + leaves_ + 1; lo < hi;
         lo /= 2, hi /= 2) {
      if (lo & 1)
        covering_[lo++].push_back(item);
      if (hi & 1)
        covering_[--hi].push_back(item);
    }
    for (int32_t node = life.begin + leaves_; node > 0; node /= 2)
      starting_[node].push_back(item);
  }

  template <typename F> void forEachMeeting(const Lifetime &life, F f) const {
    for (int32_t node = life.begin + leaves_; node > 0; node /= 2)
      for (int32_t item : covering_[node])
        f(item);
    for (int32_t lo = life.begin + 1 + leaves_, hi = life.end + leaves_ + 1; lo < hi;
         lo /= 2, hi /= 2) {
      if (lo & 1)
        for (int32_t item : starting_[lo++])
          f(item);
      if (hi & 1)
        for (int32_t item : starting_[--hi])
          f(item);
    }
  }

private:
  int32_t leaves_ = 1;
  std::vector<llvm::SmallVector<int32_t, 1>> covering_, starting_;
};

// Where in the sequence the value stands that ends the arena.
size_t topIndex(llvm::ArrayRef<Lifetime> lifetimes, const Packing &packing,
                llvm::ArrayRef<int32_t> sequence) {
  for (size_t k = 0; k < sequence.size(); ++k)
    if (packing.offsets[sequence[k]] + lifetimes[sequence[k]].bytes == packing.arenaBytes)
      return k;
  return 0;
}

} // namespace

Packing packInOrder(llvm::ArrayRef<Lifetime> lifetimes) {
  Packing packing{"program order", std::vector<int64_t>(lifetimes.size()), 0};
  std::vector<int32_t> byBegin(lifetimes.size()), byEnd(lifetimes.size());
  std::iota(byBegin.begin(), byBegin.end(), 0);
  byEnd = byBegin;
  llvm::sort(byBegin, [&](int32_t a, int32_t b) {
    return std::pair(lifetimes[a].begin, a) < std::pair(lifetimes[b].begin, b);
  });
  llvm::sort(byEnd, [&](int32_t a, int32_t b) {
    return std::pair(lifetimes[a].end, a) < std::pair(lifetimes[b].end, b);
  });
  FreeList arena;
  size_t dead = 0;
  for (int32_t i : byBegin) {
    for (; dead < byEnd.size() && lifetimes[byEnd[dead]].end < lifetimes[i].begin; ++dead)
      arena.free(packing.offsets[byEnd[dead]], lifetimes[byEnd[dead]].bytes);
    packing.offsets[i] = arena.allocate(lifetimes[i].bytes);
  }
  packing.arenaBytes = arena.end();
  return packing;
}

int64_t smallestGap(llvm::SmallVectorImpl<std::pair<int64_t, int64_t>> &taken, int64_t bytes,
                    int64_t limit) {
  std::sort(taken.begin(), taken.end());
  int64_t best = -1, bestGap = 0, end = 0;
  auto consider = [&](int64_t stop) {
    int64_t gap = stop - end;
    if (gap >= bytes && (best < 0 || gap < bestGap))
      best = end, bestGap = gap;
  };
  for (auto [start, stop] : taken) {
    consider(start);
    end = std::max(end, stop);
  }
  consider(limit);
  return best;
}

Packing packBestFit(llvm::StringRef name, llvm::ArrayRef<Lifetime> lifetimes,
                    llvm::ArrayRef<int32_t> sequence) {
  Packing packing{name.str(), std::vector<int64_t>(lifetimes.size()), 0};
  int32_t positions = 1;
  for (const Lifetime &life : lifetimes)
    positions = std::max(positions, life.end + 1);
  PlacedValues placed(positions);
  llvm::SmallVector<std::pair<int64_t, int64_t>, 0> taken; // by those that live at the same time
  for (int32_t i : sequence) {
    const Lifetime &life = lifetimes[i];
    if (life.bytes == 0)
      continue;
    taken.clear();
    placed.forEachMeeting(life, [&](int32_t other) {
      taken.emplace_back(packing.offsets[other], packing.offsets[other] + lifetimes[other].bytes);
    });
    packing.offsets[i] =
        smallestGap(taken, life.bytes, std::numeric_limits<int64_t>::max()); // the end is open
    packing.arenaBytes = std::max(packing.arenaBytes, packing.offsets[i] + life.bytes);
    placed.insert(life, i);
  }
  return packing;
}

int64_t countConflicts(llvm::ArrayRef<Lifetime> lifetimes, int64_t limit) {
  // Each value meets those that are live when it begins.
  std::vector<std::pair<int32_t, int32_t>> events; // (position, 0: begins, 1: has ended)
  for (const Lifetime &life : lifetimes) {
    events.emplace_back(2 * life.begin + 1, 0);
    events.emplace_back(2 * (life.end + 1), 1);
  }
  std::sort(events.begin(), events.end());
  int64_t live = 0, pairs = 0;
  for (auto [position, ended] : events) {
    if (ended) {
      --live;
      continue;
    }
    pairs += live++;
    if (pairs >= limit)
      return limit;
  }
  return pairs;
}

Packing pack(llvm::ArrayRef<Lifetime> lifetimes, bool refined) {
  Packing best = packInOrder(lifetimes);
  int64_t bound = best.bound = liveBound(lifetimes);
  if (best.arenaBytes == bound)
    return best;
  int64_t conflicts = countConflicts(lifetimes, kMaxPackingConflicts);
  if (conflicts >= kMaxPackingConflicts)
    return best;

  std::vector<int32_t> bestSequence;
  auto attempt = [&](llvm::StringRef name, const std::vector<int32_t> &sequence) {
    if (best.arenaBytes == bound)
      return;
    Packing packing = packBestFit(name, lifetimes, sequence);
    if (bestSequence.empty() || packing.arenaBytes < best.arenaBytes)
      bestSequence = sequence;
    if (packing.arenaBytes < best.arenaBytes)
      best = std::move(packing), best.bound = bound;
  };
  auto attemptBy = [&](llvm::StringRef name, auto key) {
    std::vector<int32_t> sequence(lifetimes.size());
    std::iota(sequence.begin(), sequence.end(), 0);
    llvm::sort(sequence, [&](int32_t a, int32_t b) {
      return std::pair(key(lifetimes[b]), a) < std::pair(key(lifetimes[a]), b);
    });
    attempt(name, sequence);
  };
  attemptBy("by size",
            [](const Lifetime &life) { return std::pair(life.bytes, life.end - life.begin); });
  attemptBy("by lifetime",
            [](const Lifetime &life) { return std::pair(life.end - life.begin, life.bytes); });
  attemptBy("by area", [](const Lifetime &life) {
    return double(life.bytes) * double(life.end - life.begin + 1);
  });
  if (!refined)
    return best;

  // Local search: place a value that sticks out before one that is placed earlier, and keep what is
  // not worse. The generator's values are fixed by the standard, so that the same program has the
  // same plan everywhere.
  std::vector<int32_t> sequence = bestSequence;
  Packing current = packBestFit("refined", lifetimes, sequence);
  std::minstd_rand random(1);
  int64_t rounds = std::min<int64_t>(kPackingRefinementRounds,
                                     kPackingRefinementPairs / std::max<int64_t>(1, conflicts));
  for (int64_t round = 0; round < rounds && best.arenaBytes > bound; ++round) {
    std::vector<int32_t> changed = sequence;
    size_t from = round % 2 ? random() % changed.size() : topIndex(lifetimes, current, changed);
    size_t to = random() % (from + 1);
    std::rotate(changed.begin() + to, changed.begin() + from, changed.begin() + from + 1);
    Packing packing = packBestFit("refined", lifetimes, changed);
    if (packing.arenaBytes < best.arenaBytes)
      best = packing, best.bound = bound;
    if (packing.arenaBytes > current.arenaBytes)
      continue;
    current = std::move(packing);
    sequence = std::move(changed);
  }
  return best;
}

} // namespace weft::compiler

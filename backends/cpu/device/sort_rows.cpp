// Short rows by insertion; long ones by a radix sort of (key, index) from the least significant
// byte on, whose first pass reads the row and whose last one writes the indices (low bytes that
// hardly any order depends on are left out, and the runs that they decide sorted at the end); the
// few first ones of a long row by a search that keeps the best so far, and a few others by their
// places (sort_places.h). Threads that share a row each look at a part of it; where the row is
// sorted, the parts are runs, which are merged pair by pair. Elements are distinct, so that the
// outcome depends on none of this.
#include "backends/cpu/device/sort_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "backends/cpu/device/sort_keys.h"
#include "backends/cpu/device/sort_places.h"
#include "runtime/executable/program.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

template <typename F> void parallel(int64_t count, int64_t grain, int threads, const F &f) {
  if (threads <= 1 || count <= grain) {
    if (count > 0)
      f(0, int64_t(0), count);
    return;
  }
  auto body = [](void *data, int thread, int64_t begin, int64_t end) -> int32_t {
    (*static_cast<const F *>(data))(thread, begin, end);
    return 0;
  };
  runtime::parallel_for(count, grain, threads, body, const_cast<F *>(&f));
}

// How a problem is solved.
struct Way {
  enum Kind { kInsertion, kRadix, kSelect, kPlaces } kind = kInsertion;
  int64_t rows = 0;
  int64_t parts = 1;    // of each row, one thread each
  int64_t capacity = 0; // elements that a row's worker holds (kSelect, kPlaces), or that each of
                        // its two buffers has (kRadix)
  int64_t workers = 1;  // regions of scratch: one a thread where a row is one part, else one a part
                        // (kSelect) or one for all of them
  int64_t columns = 0;  // rows whose elements lie side by side, and are copied together into rows
                        // and back; 0: none is
  int64_t elements_bytes = 0, counts_bytes = 0, row_bytes = 0,
          result_bytes = 0; // of a worker: its elements and its counts of digits, one a part; of
                            // each of the columns: its copies
  int64_t worker_bytes() const {
    return elements_bytes + counts_bytes + columns * (row_bytes + result_bytes);
  }
};

Way way_of(const SortProblem &p, bool wide, int threads) {
  Way way;
  way.rows = p.outer * p.inner;
  if (way.rows == 0 || p.count == 0)
    return way;
  int64_t width = wide ? sizeof(Wide::Element) : sizeof(Packed::Element);
  bool is_short = p.size <= (wide ? SortLimits::kWideInsertion : SortLimits::kInsertion);
  if (p.inner > 1 && (is_short || way.rows >= threads)) {
    way.columns = std::min(p.inner, SortLimits::kColumns);
    // A cache line more, lest rows of 2^n bytes fight for one set of the cache.
    way.row_bytes = runtime::align(p.size * byte_size(p.dtype)) + runtime::kBufferAlignment;
    way.result_bytes =
        runtime::align(p.count * int64_t(sizeof(int64_t))) + runtime::kBufferAlignment;
  }
  if (is_short) {
    if (way.columns > 0)
      way.workers = std::min<int64_t>(threads, way.rows);
    return way;
  }
  bool select = p.first == 0 && p.size >= SortLimits::kLongRow &&
                p.count <= p.size / SortLimits::kSelectFactor;
  bool places = !select && p.count <= p.size / SortLimits::kPlacesFactor;
  way.kind = select ? Way::kSelect : places ? Way::kPlaces : Way::kRadix;
  if (way.rows < threads) {
    int64_t wanted = (threads + way.rows - 1) / way.rows;
    int64_t longest = std::max<int64_t>(
        1, p.size / std::max(SortLimits::kGrain, select ? SortLimits::kSelectFactor * p.count : 0));
    // Runs are merged in pairs.
    way.parts = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(
        std::min<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted)), longest))));
  }
  way.capacity = select ? 2 * p.count + SortLimits::kCandidates : p.size;
  // The parts of a row share its two buffers; rows that are sorted in parts are sorted one after
  // another.
  way.workers = way.parts == 1 ? std::min<int64_t>(threads, way.rows)
                : select       ? way.rows * way.parts
                               : 1;
  way.elements_bytes = runtime::align((way.kind == Way::kRadix ? 2 : 1) * way.capacity * width);
  if (places)
    way.counts_bytes =
        way.parts * (wide ? sizeof(DigitCounts<Wide::Count>) : sizeof(DigitCounts<Packed::Count>));
  return way;
}

// One row's elements, and one row's result.
template <typename K, typename E> struct RowOf {
  const typename K::Source *x;
  int64_t stride;
  typename K::Key flip; // all ones to sort downwards

  uint64_t key(int64_t i) const {
    return static_cast<typename K::Key>(K::of(x[i * stride]) ^ flip);
  }
  typename E::Element at(int64_t i) const {
    return E::make(key(i), i);
  }
  // What writes those of elements [i, i + n).
  auto keys() const {
    return [this](int64_t i, typename K::Key *to, int64_t n) {
      auto write = [&](int64_t step) {
        for (int64_t k = 0; k < n; ++k)
          to[k] = static_cast<typename K::Key>(K::of(x[(i + k) * step]) ^ flip);
      };
      stride == 1 ? write(1) : write(stride);
    };
  }
};
struct Indices {
  int64_t *out;
  int64_t stride;
  Places places;

  // The element at a place of the row's order.
  void put(int64_t place, int64_t index) const {
    if (place >= places.first && place < places.first + places.count)
      out[(place - places.first) * stride] = index;
  }
};

template <typename K, typename E> class Sorter {
  using Element = typename E::Element;
  using Count = typename E::Count;
  using Row = RowOf<K, E>;
  using Source = typename K::Source;
  using Key = typename K::Key;
  using Counts = DigitCounts<Count>;
  static constexpr int kDigits = sizeof(typename K::Key), kKeyBits = 8 * kDigits;

public:
  Sorter(const SortProblem &problem, const Way &way, const void *x, int64_t *indices, void *scratch,
         int threads)
      : p_(problem), way_(way), x_(static_cast<const Source *>(x)), indices_(indices),
        scratch_(static_cast<char *>(scratch)), threads_(threads) {}

  void run() const {
    if (way_.parts > 1)
      return way_.kind == Way::kSelect   ? select_in_parts()
             : way_.kind == Way::kPlaces ? find_places_in_parts()
                                         : sort_in_parts();
    parallel(way_.rows, std::max<int64_t>(1, SortLimits::kGrain / p_.size), threads_,
             [this](int thread, int64_t begin, int64_t end) {
               if (way_.columns > 0)
                 return sort_columns(begin, end, thread);
               for (int64_t r = begin; r < end; ++r)
                 sort_row(row_of(r), result_of(r), thread);
             });
  }

private:
  Row row_of(int64_t r) const {
    typename K::Key flip =
        p_.descending ? static_cast<typename K::Key>(~typename K::Key(0)) : typename K::Key(0);
    return {x_ + r / p_.inner * p_.size * p_.inner + r % p_.inner, p_.inner, flip};
  }
  Indices result_of(int64_t r) const {
    return {indices_ + r / p_.inner * p_.count * p_.inner + r % p_.inner, p_.inner, places()};
  }

  Places places() const {
    return {p_.first, p_.count};
  }

  Element *elements(int64_t worker) const {
    return reinterpret_cast<Element *>(scratch_ + worker * way_.worker_bytes());
  }

  Counts *counts(int64_t worker) const {
    return reinterpret_cast<Counts *>(scratch_ + worker * way_.worker_bytes() +
                                      way_.elements_bytes);
  }

  void sort_row(const Row &row, Indices to, int64_t worker) const {
    Element *memory = elements(worker);
    switch (way_.kind) {
    case Way::kInsertion:
      return insertion(row, to);
    case Way::kRadix:
      return radix(row, 0, p_.size, memory, memory + p_.size,
                   [&](int64_t at, Element e) { to.put(at, E::index(e)); });
    case Way::kSelect:
      return write(memory, select(row, 0, p_.size, memory), to);
    case Way::kPlaces:
      return find_places(row, memory, *counts(worker), to);
    }
  }

  // Rows whose elements are far apart: neighbours share cache lines, which are read and written
  // once for all of them.
  void sort_columns(int64_t begin, int64_t end, int thread) const {
    char *memory = reinterpret_cast<char *>(counts(thread)) + way_.counts_bytes;
    auto copy = [&](int64_t c) {
      return reinterpret_cast<Source *>(memory + c * way_.row_bytes);
    };
    auto result = [&](int64_t c) {
      return reinterpret_cast<int64_t *>(memory + way_.columns * way_.row_bytes +
                                         c * way_.result_bytes);
    };
    for (int64_t r = begin, columns; r < end; r += columns) {
      columns = std::min({way_.columns, end - r, p_.inner - r % p_.inner});
      Row first = row_of(r);
      for (int64_t k = 0; k < p_.size; ++k)
        for (int64_t c = 0; c < columns; ++c)
          copy(c)[k] = first.x[k * p_.inner + c];
      for (int64_t c = 0; c < columns; ++c)
        sort_row({copy(c), 1, first.flip}, {result(c), 1, places()}, thread);
      int64_t *out = result_of(r).out;
      for (int64_t k = 0; k < p_.count; ++k)
        for (int64_t c = 0; c < columns; ++c)
          out[k * p_.inner + c] = result(c)[k];
    }
  }

  // The best of the candidates, sorted.
  static void write(Element *best, int64_t candidates, Indices to) {
    int64_t count = to.places.count;
    if (candidates > count)
      std::nth_element(best, best + count, best + candidates);
    std::sort(best, best + count);
    write_indices(best, to);
  }
  static void write_indices(const Element *found, Indices to) {
    for (int64_t i = 0; i < to.places.count; ++i)
      to.out[i * to.stride] = E::index(found[i]);
  }

  void insertion(const Row &row, Indices to) const {
    std::array<Element, std::max(SortLimits::kInsertion, SortLimits::kWideInsertion)> sorted;
    for (int64_t i = 0; i < p_.size; ++i) {
      Element e = row.at(i);
      int64_t at = i;
      for (; at > 0 && e < sorted[at - 1]; --at)
        sorted[at] = sorted[at - 1];
      sorted[at] = e;
    }
    write_indices(&sorted[to.places.first], to);
  }

  static Element make_element(int64_t i, Key key) {
    return E::make(key, i);
  }
  // held: of p_.size elements.
  void find_places(const Row &row, Element *held, Counts &counts, Indices to) const {
    Digit digit = Digit::top(kKeyBits, p_.size);
    counts.template count<Key>(digit, 0, p_.size, row.keys());
    DigitRange range(counts, places());
    int64_t left = range.template gather<Key>(digit, 0, p_.size, row.keys(), make_element, held);
    order_found(held, left, range, digit, counts, to);
  }
  void order_found(Element *held, int64_t left, const DigitRange &range, Digit digit,
                   Counts &counts, Indices to) const {
    order_places<E, Key>(held, left, {p_.first - range.before, p_.count}, digit,
                         range.low == range.high, counts);
    write_indices(held, to);
  }

  // The parts of a row count and gather side by side.
  void find_places_in_parts() const {
    Digit digit = Digit::top(kKeyBits, p_.size);
    std::vector<int64_t> found(way_.parts);
    for (int64_t r = 0; r < way_.rows; ++r) {
      Row row = row_of(r);
      Counts *all = counts(0);
      for_each_part([&](int64_t part, int64_t begin, int64_t end) {
        all[part].template count<Key>(digit, begin, end, row.keys());
      });
      for (int64_t part = 1; part < way_.parts; ++part)
        all[0].add(all[part], digit);
      DigitRange range(all[0], places());
      Element *held = elements(0);
      for_each_part([&](int64_t part, int64_t begin, int64_t end) {
        found[part] =
            range.template gather<Key>(digit, begin, end, row.keys(), make_element, held + begin);
      });
      int64_t left = found[0];
      for (int64_t part = 1; part < way_.parts; left += found[part++])
        std::copy_n(held + part_begin(part), found[part], held + left);
      order_found(held, left, range, digit, all[0], result_of(r));
    }
  }
  template <typename F> void for_each_part(const F &f) const {
    parallel(way_.parts, 1, threads_, [&](int, int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part)
        f(part, part_begin(part), part_begin(part + 1));
    });
  }

  // Calls last(place, element) for each element of row[begin, end). a and b: of end - begin
  // elements each; last may write to a.
  template <typename Last>
  static void radix(const Row &row, int64_t begin, int64_t end, Element *a, Element *b,
                    const Last &last) {
    int64_t n = end - begin;
    std::array<std::array<Count, 256>, kDigits> counts{};
    // Of half a wide key at a time: the lower half is seldom looked at.
    constexpr int kCounted = std::min(kDigits, 4);
    auto count_from = [&](int low) {
      for (int64_t i = begin; i < end; ++i) {
        uint64_t key = row.key(i) >> 8 * low;
        for (int d = 0; d < kCounted; ++d)
          ++counts[low + d][key >> 8 * d & 255];
      }
    };
    // The digits to sort by, the most significant first, until few elements should be alike in all
    // of them, were digits independent. One that is the same everywhere moves nothing.
    std::array<int, kDigits> digits;
    int passes = 0;
    double alike = static_cast<double>(n); // as many as an element is like, itself among them
    bool decide = true;                    // whether these digits decide all of the order
    uint64_t first = n > 0 ? row.key(begin) : 0;
    for (int d = kDigits; d-- > 0;) {
      // One pass less would not pay for the look at the end.
      if (d > 0 && alike < SortLimits::kFewAlike) {
        decide = false;
        break;
      }
      if (d % kCounted == kCounted - 1)
        count_from(d - kCounted + 1);
      if (counts[d][first >> 8 * d & 255] == static_cast<Count>(n))
        continue;
      digits[passes++] = d;
      uint64_t pairs = 0;
      for (uint64_t count : counts[d])
        pairs += count * count;
      alike *= static_cast<double>(pairs) / static_cast<double>(n) / static_cast<double>(n);
      Count before = 0;
      for (Count &count : counts[d])
        before += std::exchange(count, before);
    }
    if (passes == 0)
      for (int64_t i = 0; i < n; ++i)
        last(i, row.at(begin + i));
    // The last pass reads b, or writes to a what is in order but for elements that are alike.
    Element *from = nullptr, *to = passes % 2 == 0 ? b : a, *next = passes % 2 == 0 ? a : b;
    if (!decide)
      std::swap(to, next);
    for (int pass = 0; pass < passes; ++pass) {
      int shift = 8 * digits[passes - 1 - pass];
      std::array<Count, 256> &places = counts[shift / 8];
      auto place = [&](const Element &e) {
        return static_cast<int64_t>(places[E::key(e) >> shift & 255]++);
      };
      auto move = [&](const auto &element) {
        if (pass == passes - 1 && decide)
          for (int64_t i = 0; i < n; ++i) {
            Element e = element(i);
            last(place(e), e);
          }
        else
          for (int64_t i = 0; i < n; ++i) {
            Element e = element(i);
            to[place(e)] = e;
          }
      };
      if (pass == 0)
        move([&](int64_t i) { return row.at(begin + i); });
      else
        move([&](int64_t i) { return from[i]; });
      from = to;
      std::swap(to, next);
    }
    if (!decide)
      settle(from, n, 8 * digits[passes - 1], last);
  }

  // Sorts the runs of elements that are alike from this bit of their keys on.
  template <typename Last>
  static void settle(Element *sorted, int64_t n, int shift, const Last &last) {
    for (int64_t begin = 0, end; begin < n; begin = end) {
      uint64_t key = E::key(sorted[begin]) >> shift;
      for (end = begin + 1; end < n && E::key(sorted[end]) >> shift == key;)
        ++end;
      if (end - begin > 1)
        std::sort(sorted + begin, sorted + end);
      for (int64_t i = begin; i < end; ++i)
        last(i, sorted[i]);
    }
  }

  // Gathers the p_.count first of row[begin, end), and perhaps more, in no order; how many. best:
  // of way_.capacity elements.
  int64_t select(const Row &row, int64_t begin, int64_t end, Element *best) const {
    constexpr int64_t kBlock = 32;
    int64_t held = 0;
    // Only keys below it may be among the first: one that equals the largest of those comes after
    // it.
    uint64_t bound = std::numeric_limits<uint64_t>::max();
    auto offer = [&](int64_t i) {
      uint64_t key = row.key(i);
      if (key >= bound)
        return;
      best[held++] = E::make(key, i);
      if (held < way_.capacity)
        return;
      std::nth_element(best, best + p_.count - 1, best + held);
      held = p_.count;
      bound = E::key(best[held - 1]);
    };
    int64_t i = begin;
    // Until there are enough, everything counts: the largest key is no bound then.
    for (; i < end && held < p_.count; ++i)
      best[held++] = row.at(i);
    if (held == p_.count && p_.count > 0)
      bound = E::key(*std::max_element(best, best + held));
    if (row.stride == 1)
      for (; i + kBlock <= end; i += kBlock) {
        if (!any_below(row.x + i, row.flip, static_cast<typename K::Key>(bound)))
          continue;
        for (int64_t k = i; k < i + kBlock; ++k)
          offer(k);
      }
    for (; i < end; ++i)
      offer(i);
    return held;
  }

  static bool any_below(const typename K::Source *x, typename K::Key flip, typename K::Key bound) {
    typename K::Key found = 0;
    for (int k = 0; k < 32; ++k)
      found |= static_cast<typename K::Key>(
          static_cast<typename K::Key>(K::of(x[k]) ^ flip) < bound ? 1 : 0);
    return found != 0;
  }

  int64_t part_begin(int64_t part) const {
    return p_.size * part / way_.parts;
  }

  void select_in_parts() const {
    int64_t parts = way_.parts;
    parallel(way_.rows * parts, 1, threads_, [&](int, int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        Element *best = elements(task);
        int64_t held = select(row_of(task / parts), part_begin(task % parts),
                              part_begin(task % parts + 1), best);
        if (held > p_.count)
          std::nth_element(best, best + p_.count, best + held);
      }
    });
    // Every part is longer than `count`, so that each has given so many. Each merge halves the
    // parts that are left: what they gave fits.
    parallel(way_.rows, 1, threads_, [&](int, int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        Element *best = elements(r * parts);
        int64_t held = p_.count;
        for (int64_t part = 1; part < parts; ++part) {
          std::copy_n(elements(r * parts + part), p_.count, best + held);
          std::nth_element(best, best + p_.count, best + held + p_.count);
        }
        write(best, held, result_of(r));
      }
    });
  }

  void sort_in_parts() const {
    for (int64_t r = 0; r < way_.rows; ++r) {
      Row row = row_of(r);
      Element *a = elements(0), *b = a + p_.size;
      for_each_part([&](int64_t, int64_t begin, int64_t end) {
        Element *run = a + begin;
        radix(row, begin, end, run, b + begin, [run](int64_t at, Element e) { run[at] = e; });
      });
      merge_runs(a, b, result_of(r));
    }
  }

  // The runs in a become one, in rounds; the last one writes indices.
  void merge_runs(Element *a, Element *b, Indices to) const {
    for (int64_t width = 1; width < way_.parts; width *= 2, std::swap(a, b)) {
      int64_t pairs = way_.parts / (2 * width), pieces = way_.parts / pairs;
      bool is_last = pairs == 1;
      parallel(way_.parts, 1, threads_, [&](int, int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          int64_t pair = task / pieces, piece = task % pieces;
          int64_t low = part_begin(pair * 2 * width), middle = part_begin((pair * 2 + 1) * width),
                  high = part_begin((pair + 1) * 2 * width);
          Range range{a + low, a + middle, a + middle, a + high};
          int64_t n = high - low, first = n * piece / pieces, past = n * (piece + 1) / pieces;
          Element *out = b + low;
          if (is_last)
            merge(range, first, past, [&](int64_t at, Element e) { to.put(at, E::index(e)); });
          else
            merge(range, first, past, [out](int64_t at, Element e) { out[at] = e; });
        }
      });
    }
  }

  struct Range {
    const Element *left, *left_end, *right, *right_end;
  };

  // How many of the first `place` elements of the merged range come from the left.
  static int64_t from_left(const Range &range, int64_t place) {
    int64_t lefts = range.left_end - range.left, rights = range.right_end - range.right;
    int64_t low = std::max<int64_t>(0, place - rights), high = std::min(place, lefts);
    while (low < high) {
      int64_t middle = (low + high) / 2;
      if (range.left[middle] < range.right[place - 1 - middle])
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  // Calls put(place, element) for the places [first, past) of the merged range.
  template <typename Put>
  static void merge(const Range &range, int64_t first, int64_t past, const Put &put) {
    int64_t skipped = from_left(range, first), taken = from_left(range, past);
    const Element *left = range.left + skipped, *right = range.right + (first - skipped);
    const Element *left_end = range.left + taken, *right_end = range.right + (past - taken);
    int64_t at = first;
    while (left < left_end && right < right_end) {
      bool is_right = *right < *left;
      put(at++, is_right ? *right : *left);
      right += is_right;
      left += !is_right;
    }
    for (; left < left_end; ++left)
      put(at++, *left);
    for (; right < right_end; ++right)
      put(at++, *right);
  }

  const SortProblem &p_;
  const Way &way_;
  const Source *x_;
  int64_t *indices_;
  char *scratch_;
  int threads_;
};

// 32 bits of an index are enough for all but the longest rows.
bool is_wide(const SortProblem &p) {
  return byte_size(p.dtype) == 8 || p.size > std::numeric_limits<uint32_t>::max();
}

} // namespace

int64_t sort_scratch_bytes(const SortProblem &problem, int threads) {
  Way way = way_of(problem, is_wide(problem), threads);
  return way.workers * way.worker_bytes();
}

void sort_rows(const SortProblem &problem, const void *x, int64_t *indices, void *scratch,
               int threads) {
  bool wide = is_wide(problem);
  Way way = way_of(problem, wide, threads);
  if (way.rows == 0 || problem.count == 0)
    return;
  auto with = [&]<typename K>() {
    if constexpr (sizeof(typename K::Key) < 8) {
      if (!wide)
        return Sorter<K, Packed>(problem, way, x, indices, scratch, threads).run();
    }
    Sorter<K, Wide>(problem, way, x, indices, scratch, threads).run();
  };
  switch (problem.dtype) {
  case DType::kFloat32:
    return with.template operator()<FloatKey<uint32_t, 0x7f800000>>();
  case DType::kFloat64:
    return with.template operator()<FloatKey<uint64_t, 0x7ff0000000000000>>();
  case DType::kBFloat16:
    return with.template operator()<FloatKey<uint16_t, 0x7f80>>();
  case DType::kFloat16:
    return with.template operator()<FloatKey<uint16_t, 0x7c00>>();
  case DType::kInt32:
    return with.template operator()<SignedKey<uint32_t>>();
  case DType::kInt64:
    return with.template operator()<SignedKey<uint64_t>>();
  case DType::kInt16:
    return with.template operator()<SignedKey<uint16_t>>();
  case DType::kInt8:
    return with.template operator()<SignedKey<uint8_t>>();
  case DType::kUInt8:
  case DType::kBool:
    return with.template operator()<UnsignedKey<uint8_t>>();
  }
}

} // namespace weft::backends::cpu

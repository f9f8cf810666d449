// A tile is 6 rows of one panel: its sums take 12 of AVX2's 16 registers, a row of the panel two,
// and the elements of a are spread over lanes as they are read. A part of a panel, 16 KiB, stays in
// the L1 cache while the rows go by.
#include "backends/cpu/device/product_tiles.h"

#include <algorithm>

#include "backends/cpu/device/turn.h"

namespace weft::backends::cpu {
namespace {

constexpr int kLanes = 8;
constexpr int kVectors = kPanelColumns / kLanes;
constexpr int kTileRows = 6;
// A tile asks for a line of the part of a panel that comes next each so many terms: a large b comes
// from memory, and no machine's own prefetcher follows it from part to part. Into the L2 cache, as
// the L1 cache is full.
constexpr int64_t kAskTerms = 4, kLineFloats = 16;
constexpr int kIntoL2 = 2;

struct Task {
  const TiledProduct *product;
  const float *a, *panels, *bias;
  float *c;
  int64_t first_row, last_row, first, last;
  float *room; // for what is copied of a transposed a
};

// What a tile adds, and to what.
struct Tile {
  const float *a, *panel;
  int64_t a_row, terms; // a_row: elements of a from a row to the next, unless kByTerms
  const float *before; // of each row, `before_row` elements from one to the next; null for zeros
  int64_t before_row;
  const float *bias; // of each column, added last; null for none
  float *c;
  int64_t c_row;
  const float *next; // what will be read of panels next; null for nothing
};

// kByTerms: a has the rows' elements of a term, then those of the next; else row by row.
template <int kRows, bool kByTerms> WEFT_INLINE void add_tile(const Tile &tile) {
  Vector<kLanes> sums[kRows][kVectors];
#pragma clang loop unroll(full)
  for (int r = 0; r < kRows; ++r)
#pragma clang loop unroll(full)
    for (int v = 0; v < kVectors; ++v)
      sums[r][v] = Vector<kLanes>{};
  const float *rows[kRows];
#pragma clang loop unroll(full)
  for (int r = 0; r < kRows; ++r)
    rows[r] = tile.a + r * tile.a_row;
  const float *panel = tile.panel;
  auto add_term = [&](int64_t k) __attribute__((always_inline)) {
    Vector<kLanes> b[kVectors];
#pragma clang loop unroll(full)
    for (int v = 0; v < kVectors; ++v)
      b[v] = load<kLanes>(panel + k * kPanelColumns + v * kLanes);
#pragma clang loop unroll(full)
    for (int r = 0; r < kRows; ++r) {
      float factor = kByTerms ? tile.a[k * kRows + r] : rows[r][k];
#pragma clang loop unroll(full)
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] += b[v] * factor;
    }
  };
  int64_t k = 0;
  for (; k + kAskTerms <= tile.terms; k += kAskTerms) {
    if (tile.next != nullptr)
      __builtin_prefetch(tile.next + k / kAskTerms * kLineFloats, 0, kIntoL2);
#pragma clang loop unroll(full)
    for (int64_t i = 0; i < kAskTerms; ++i)
      add_term(k + i);
  }
  for (; k < tile.terms; ++k)
    add_term(k);
  // Unrolled, and each value copied before its address is taken, so that all sums stay in
  // registers.
#pragma clang loop unroll(full)
  for (int r = 0; r < kRows; ++r)
#pragma clang loop unroll(full)
    for (int v = 0; v < kVectors; ++v) {
      Vector<kLanes> sum = sums[r][v];
      if (tile.before != nullptr)
        sum = load<kLanes>(tile.before + r * tile.before_row + v * kLanes) + sum;
      if (tile.bias != nullptr)
        sum += load<kLanes>(tile.bias + v * kLanes);
      store(tile.c + r * tile.c_row + v * kLanes, sum);
    }
}

template <bool kByTerms> WEFT_INLINE void add_rows(const Tile &tile, int64_t rows) {
  switch (rows) {
  case 1:
    return add_tile<1, kByTerms>(tile);
  case 2:
    return add_tile<2, kByTerms>(tile);
  case 3:
    return add_tile<3, kByTerms>(tile);
  case 4:
    return add_tile<4, kByTerms>(tile);
  case 5:
    return add_tile<5, kByTerms>(tile);
  default:
    return add_tile<kTileRows, kByTerms>(tile);
  }
}

// The rows of the next tile: few of them keep no multiplier busy, so that the last two tiles share.
WEFT_INLINE int64_t tile_rows(int64_t left) {
  if (left <= kTileRows)
    return left;
  return left < 2 * kTileRows ? (left + 1) / 2 : kTileRows;
}

// A tile of a panel that has fewer columns, by way of a whole one.
template <bool kByTerms>
WEFT_INLINE void add_narrow(Tile tile, int64_t rows, int64_t columns) {
  float whole[kTileRows * kPanelColumns] = {}, bias[kPanelColumns] = {};
  if (tile.before != nullptr)
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(tile.before + r * tile.before_row, columns, whole + r * kPanelColumns);
  if (tile.bias != nullptr) {
    std::copy_n(tile.bias, columns, bias);
    tile.bias = bias;
  }
  float *c = tile.c;
  tile.before = tile.c = whole;
  tile.before_row = kPanelColumns;
  int64_t c_row = tile.c_row;
  tile.c_row = kPanelColumns;
  add_rows<kByTerms>(tile, rows);
  for (int64_t r = 0; r < rows; ++r)
    std::copy_n(whole + r * kPanelColumns, columns, c + r * c_row);
}

// Tile by tile, the rows' elements of each term. Where the room goes on, a whole vector is copied:
// what follows is written over its end.
WEFT_INLINE void copy_by_terms(const float *a, int64_t a_term, int64_t rows, int64_t terms,
                               float *room) {
  const float *end = room + rows * terms;
  for (int64_t row = 0; row < rows;) {
    int64_t count = tile_rows(rows - row), i = 0;
    float *to = room + row * terms;
    if (row + kLanes <= rows)
      for (; i < terms && to + i * count + kLanes <= end; ++i)
        store(to + i * count, load<kLanes>(a + i * a_term + row));
    for (; i < terms; ++i)
      std::copy_n(a + i * a_term + row, count, to + i * count);
    row += count;
  }
}

template <bool kByTerms> WEFT_INLINE void multiply_rows(const Task &task) {
  const TiledProduct &p = *task.product;
  for (int64_t k = 0; k < p.terms; k += kPartTerms) {
    int64_t terms = std::min(kPartTerms, p.terms - k);
    const float *a = task.a + task.first_row * p.a_row + k * p.a_term;
    if (kByTerms) {
      copy_by_terms(a, p.a_term, task.last_row - task.first_row, terms, task.room);
      a = task.room;
    }
    for (int64_t panel = task.first; panel < task.last; ++panel) {
      int64_t column = panel * kPanelColumns, columns = std::min(kPanelColumns, p.columns - column);
      auto part = [&](int64_t panel, int64_t k) __attribute__((always_inline)) {
        return task.panels + (panel * p.terms + k) * kPanelColumns;
      };
      const float *next = panel + 1 < task.last      ? part(panel + 1, k)
                          : k + kPartTerms < p.terms ? part(task.first, k + kPartTerms)
                                                     : nullptr;
      int64_t next_lines = next == nullptr         ? 0
                           : panel + 1 < task.last ? terms
                                                   : std::min(kPartTerms, p.terms - k - kPartTerms);
      for (int64_t row = task.first_row; row < task.last_row;) {
        int64_t rows = tile_rows(task.last_row - row);
        float *c = task.c + row * p.c_row + column;
        Tile tile{a + (row - task.first_row) * (kByTerms ? terms : p.a_row),
                  part(panel, k),
                  p.a_row,
                  terms,
                  k > 0 ? c : nullptr,
                  p.c_row,
                  task.bias != nullptr && k + kPartTerms >= p.terms ? task.bias + column : nullptr,
                  c,
                  p.c_row,
                  next_lines >= terms / kAskTerms ? next : nullptr};
        if (tile.next != nullptr) {
          next += terms / kAskTerms * kLineFloats;
          next_lines -= terms / kAskTerms;
        }
        if (columns == kPanelColumns)
          add_rows<kByTerms>(tile, rows);
        else
          add_narrow<kByTerms>(tile, rows, columns);
        row += rows;
      }
    }
  }
}

WEFT_INLINE void multiply(const Task &task) {
  if (task.product->a_term == 1)
    multiply_rows<false>(task);
  else
    multiply_rows<true>(task);
}

struct PackTask {
  const TiledProduct *product;
  const float *b;
  int64_t term_stride, column_stride, first, last;
  float *panels;
};

// Whole panels of a row-major b, side by side: of one alone, each term would lie in another page.
WEFT_INLINE void copy_panels(const TiledProduct &p, const float *b, int64_t term_stride,
                             int64_t panels, float *to) {
  for (int64_t k = 0; k < p.terms; ++k)
    for (int64_t i = 0; i < panels; ++i)
      std::memcpy(to + (i * p.terms + k) * kPanelColumns, b + k * term_stride + i * kPanelColumns,
                  sizeof(float) * kPanelColumns);
}

// Terms [k, last) of a panel's columns from `first` on; 0 for columns that there are not.
WEFT_INLINE void pack_element_by_element(const PackTask &task, const float *from, int64_t columns,
                                         int64_t k, int64_t last, int64_t first, float *to) {
  for (; k < last; ++k)
    for (int64_t n = first; n < kPanelColumns; ++n)
      to[k * kPanelColumns + n] =
          n < columns ? from[k * task.term_stride + n * task.column_stride] : 0;
}

WEFT_INLINE void pack(const PackTask &task) {
  const TiledProduct &p = *task.product;
  for (int64_t panel = task.first; panel < task.last; ++panel) {
    int64_t column = panel * kPanelColumns, columns = std::min(kPanelColumns, p.columns - column);
    const float *from = task.b + column * task.column_stride;
    float *to = task.panels + panel * p.terms * kPanelColumns;
    int64_t k = 0;
    if (columns == kPanelColumns && task.column_stride == 1) {
      int64_t together =
          std::min({kPackedTogether, task.last - panel, (p.columns - column) / kPanelColumns});
      copy_panels(p, from, task.term_stride, together, to);
      panel += together - 1;
      continue;
    }
    // Of a transposed b, by whole vectors of columns.
    int64_t whole = task.term_stride == 1 ? columns / kLanes : 0;
    for (; whole > 0 && k + kLanes <= p.terms; k += kLanes)
      for (int64_t part = 0; part < whole; ++part)
        turn<kLanes>(
            [&](int64_t i) __attribute__((always_inline)) {
              return from + (part * kLanes + i) * task.column_stride + k;
            },
            [&](int64_t i) __attribute__((always_inline)) {
              return to + (k + i) * kPanelColumns + part * kLanes;
            });
    if (columns < kPanelColumns)
      pack_element_by_element(task, from, columns, 0, k, whole * kLanes, to);
    pack_element_by_element(task, from, columns, k, p.terms, 0, to);
  }
}

// The same for each kind of processor, with the instructions that it has. Of those of AVX-512 only
// the registers' width would count, and there the library has fast kernels.
using Multiply = void (*)(const Task &task);
using Pack = void (*)(const PackTask &task);
void multiply_plain(const Task &task) {
  multiply(task);
}
WEFT_AVX2 void multiply_avx2(const Task &task) {
  multiply(task);
}
void pack_plain(const PackTask &task) {
  pack(task);
}
WEFT_AVX2 void pack_avx2(const PackTask &task) {
  pack(task);
}

} // namespace

bool prefers_product_tiles() {
  return of_processor(false, true, false);
}

void pack_panels(const TiledProduct &product, const float *b, int64_t term_stride,
                 int64_t column_stride, int64_t first, int64_t last, float *panels) {
  static const Pack function = of_processor<Pack>(pack_plain, pack_avx2, pack_avx2);
  function({&product, b, term_stride, column_stride, first, last, panels});
}

void multiply_tiles(const TiledProduct &product, const float *a, const float *panels,
                    const float *bias, float *c, int64_t first_row, int64_t last_row, int64_t first,
                    int64_t last, float *room) {
  static const Multiply function =
      of_processor<Multiply>(multiply_plain, multiply_avx2, multiply_avx2);
  function({&product, a, panels, bias, c, first_row, last_row, first, last, room});
}

} // namespace weft::backends::cpu

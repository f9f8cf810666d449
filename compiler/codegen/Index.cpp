#include "compiler/codegen/Index.h"

#include <cstdlib>
#include <numeric>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace weft::compiler {

// The digits of a position have one form whatever shapes they were taken through: x / a, x % b and
// (x / a) % b. Schedules tell by it that a value is read where they computed it.

using Kind = IndexSpace::Kind;

// The symbol that the index is, without a coefficient; null for none.
static const IndexSpace::Symbol *single(const IndexSpace &space, const Index &index) {
  bool is = index.constant == 0 && index.terms.size() == 1 && index.terms[0].second == 1;
  return is ? &space.symbol(index.terms[0].first) : nullptr;
}

// Whether `high` is what dividing `low`'s dividend by its divisor leaves, as it is or less what a
// further division took: the next digit.
static bool follows(const IndexSpace &space, const IndexSpace::Symbol &high,
                    const IndexSpace::Symbol &low) {
  const IndexSpace::Symbol *quotient =
      high.kind == Kind::Remainder ? single(space, high.of) : &high;
  if (!quotient || quotient->kind != Kind::Quotient || low.kind != Kind::Remainder)
    return false;
  if (quotient->of == low.of && quotient->by == low.by)
    return true;
  const IndexSpace::Symbol *whole = single(space, low.of);
  return whole && whole->kind == Kind::Quotient && quotient->of == whole->of &&
         quotient->by == whole->by * low.by;
}

Index IndexSpace::intern(Symbol symbol) {
  Index index;
  index.terms.push_back({static_cast<int32_t>(symbols_.size()), 1});
  symbols_.push_back(std::move(symbol));
  return index;
}

Index IndexSpace::scalar(mlir::Value value, int64_t extent) {
  if (extent <= 1)
    return Index::of(0);
  auto [it, isNew] = byValue_.try_emplace(value, symbols_.size());
  if (isNew)
    return intern({Kind::Scalar, extent, true, value, {}, 1});
  return Index{0, {{it->second, 1}}};
}

Index IndexSpace::vector(mlir::Value value, int64_t extent) {
  if (extent <= 1)
    return Index::of(0);
  auto [it, isNew] = byValue_.try_emplace(value, symbols_.size());
  if (isNew)
    return intern({Kind::Vector, extent, false, value, {}, 1});
  return Index{0, {{it->second, 1}}};
}

Index IndexSpace::lane(int64_t lanes) {
  for (auto [id, symbol] : llvm::enumerate(symbols_))
    if (symbol.kind == Kind::Lane && symbol.extent == lanes)
      return Index{0, {{static_cast<int32_t>(id), 1}}};
  return intern({Kind::Lane, lanes, false, nullptr, {}, 1});
}

Index IndexSpace::opaque(Kind kind, const Index &of, int64_t by) {
  if (const Symbol *symbol = single(*this, of)) {
    const Symbol inner = *symbol; // which interning may move
    if (kind == Kind::Quotient && inner.kind == Kind::Quotient)
      return divide(inner.of, inner.by * by).first;
    if (inner.kind == Kind::Remainder && inner.by % by == 0) {
      auto [quotient, remainder] = divide(inner.of, by);
      return kind == Kind::Remainder ? remainder : divide(quotient, inner.by / by).second;
    }
  }
  for (auto [id, symbol] : llvm::enumerate(symbols_))
    if (symbol.kind == kind && symbol.by == by && symbol.of == of)
      return Index{0, {{static_cast<int32_t>(id), 1}}};
  auto [smallest, largest] = range(of);
  assert(smallest >= 0 && "divide() sees to it");
  int64_t extent =
      kind == Kind::Remainder ? by : std::max<int64_t>(1, llvm::divideFloorSigned(largest, by) + 1);
  return intern({kind, extent, uniform(of), nullptr, of, by});
}

Index IndexSpace::add(const Index &a, int64_t b) const {
  Index sum = a;
  sum.constant += b;
  return sum;
}

Index IndexSpace::scale(const Index &a, int64_t factor) const {
  if (factor == 0)
    return Index::of(0);
  Index product = a;
  product.constant *= factor;
  for (auto &[symbol, coefficient] : product.terms)
    coefficient *= factor;
  return product;
}

Index IndexSpace::add(const Index &a, const Index &b) {
  Index sum;
  sum.constant = a.constant + b.constant;
  auto i = a.terms.begin(), j = b.terms.begin();
  while (i != a.terms.end() || j != b.terms.end()) {
    if (j == b.terms.end() || (i != a.terms.end() && i->first < j->first))
      sum.terms.push_back(*i++);
    else if (i == a.terms.end() || j->first < i->first)
      sum.terms.push_back(*j++);
    else {
      if (i->second + j->second != 0)
        sum.terms.push_back({i->first, i->second + j->second});
      ++i, ++j;
    }
  }
  // Neighbouring digits that meet again are one.
  for (auto [h, highCoefficient] : sum.terms)
    for (auto [l, lowCoefficient] : sum.terms) {
      const Symbol high = symbols_[h], low = symbols_[l];
      if (highCoefficient != lowCoefficient * low.by || !follows(*this, high, low))
        continue;
      Index both = high.kind == Kind::Quotient ? low.of : divide(low.of, low.by * high.by).second;
      Index rest = Index::of(sum.constant);
      for (auto &term : sum.terms)
        if (term.first != h && term.first != l)
          rest.terms.push_back(term);
      return add(rest, scale(both, lowCoefficient));
    }
  return sum;
}

std::pair<int64_t, int64_t> IndexSpace::range(const Index &a) const {
  int64_t low = a.constant, high = a.constant;
  for (auto [symbol, coefficient] : a.terms) {
    int64_t far = coefficient * (symbols_[symbol].extent - 1);
    (far < 0 ? low : high) += far;
  }
  return {low, high};
}

bool IndexSpace::uniform(const Index &a) const {
  return llvm::all_of(a.terms, [&](auto term) { return symbols_[term.first].uniform; });
}

std::optional<Index> IndexSpace::withoutLane(const Index &a, int64_t bound) const {
  Index first = Index::of(a.constant);
  int64_t spread = 0, step = a.constant - bound;
  for (auto [id, coefficient] : a.terms) {
    const Symbol &symbol = symbols_[id];
    if (symbol.uniform) {
      first.terms.push_back({id, coefficient});
      step = std::gcd(step, coefficient);
    } else if (symbol.kind == Kind::Lane && coefficient > 0) {
      spread += coefficient * (symbol.extent - 1);
    } else {
      return std::nullopt;
    }
  }
  // `first` is at bound, or whole steps from it.
  if (spread >= std::abs(step))
    return std::nullopt;
  return first;
}

std::pair<Index, Index> IndexSpace::divide(const Index &a, int64_t by) {
  if (by == 1)
    return {a, Index::of(0)};
  Index quotient, rest = Index::of(a.constant);
  for (auto [symbol, coefficient] : a.terms) {
    if (coefficient % by == 0)
      quotient.terms.push_back({symbol, coefficient / by});
    else
      rest.terms.push_back({symbol, coefficient});
  }
  // What is divided starts in [0, by): where a coefficient is negative its constant may be larger
  // than `by`, so that no quotient is negative, as symbols have to be.
  quotient.constant = llvm::divideFloorSigned(range(rest).first, by);
  rest.constant -= quotient.constant * by;
  auto fits = [&](const Index &x, int64_t bound) {
    auto [low, high] = range(x);
    return low >= 0 && high < bound;
  };
  if (fits(rest, by))
    return {quotient, rest};

  // Split rest = coarse + fine, where g divides coarse and `by`, and fine stays below g: then only
  // coarse needs dividing.
  llvm::SmallVector<std::pair<int32_t, int64_t>, 3> order(rest.terms);
  llvm::sort(order, [](auto x, auto y) {
    return std::make_pair(std::abs(x.second), x.first) <
           std::make_pair(std::abs(y.second), y.first);
  });
  for (size_t fineTerms = order.size() + 1; fineTerms-- > 0;) {
    int64_t g = by;
    for (auto [symbol, coefficient] : llvm::ArrayRef(order).drop_front(fineTerms))
      g = std::gcd(g, coefficient);
    Index fine, coarse;
    fine.constant = rest.constant % g;
    coarse.constant = (rest.constant - fine.constant) / g;
    for (auto [i, term] : llvm::enumerate(order)) {
      if (i < fineTerms)
        fine.terms.push_back(term);
      else
        coarse.terms.push_back({term.first, term.second / g});
    }
    if (!fits(fine, g) || (coarse.terms.empty() && fineTerms))
      continue;
    llvm::sort(fine.terms);
    llvm::sort(coarse.terms);
    if (g == by)
      return {add(quotient, coarse), fine};
    return {add(quotient, opaque(Kind::Quotient, coarse, by / g)),
            add(scale(opaque(Kind::Remainder, coarse, by / g), g), fine)};
  }
  return {add(quotient, opaque(Kind::Quotient, rest, by)), opaque(Kind::Remainder, rest, by)};
}

Index IndexSpace::linearize(llvm::ArrayRef<Index> position, llvm::ArrayRef<int64_t> shape) {
  Index linear;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1)
      linear = add(linear, scale(position[i], stride));
    stride *= shape[i];
  }
  return linear;
}

llvm::SmallVector<Index> IndexSpace::delinearize(const Index &linear,
                                                 llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<Index> position(shape.size());
  Index rest = linear;
  // The outermost dim larger than 1 takes what is left: no remainder.
  size_t first = 0;
  while (first < shape.size() && shape[first] == 1)
    ++first;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1)
      continue;
    if (i == first) {
      position[i] = rest;
      break;
    }
    if (shape[i] == 0)
      continue; // an empty tensor has no positions
    std::tie(rest, position[i]) = divide(rest, shape[i]);
  }
  return position;
}

std::pair<Index, std::optional<int64_t>> IndexSpace::splitLanes(const Index &a) const {
  Index base = Index::of(a.constant);
  std::optional<int64_t> stride = 0;
  for (auto term : a.terms) {
    const Symbol &symbol = symbols_[term.first];
    if (symbol.uniform)
      base.terms.push_back(term);
    else if (symbol.kind == Kind::Lane && stride == 0)
      stride = term.second;
    else
      stride = std::nullopt;
  }
  return {base, stride};
}

// The value in a lane of what is made of lane numbers alone. Recursion goes as deep as quotients of
// quotients, which divide() merges where it can.
std::optional<int64_t> IndexSpace::valueAt(const Index &a, int64_t lane) const {
  int64_t sum = a.constant;
  for (auto [id, coefficient] : a.terms) {
    const Symbol &symbol = symbols_[id];
    std::optional<int64_t> value;
    if (symbol.kind == Kind::Lane)
      value = lane;
    else if (symbol.kind == Kind::Quotient || symbol.kind == Kind::Remainder)
      value = valueAt(symbol.of, lane);
    if (!value)
      return std::nullopt;
    if (symbol.kind == Kind::Quotient)
      value = llvm::divideFloorSigned(*value, symbol.by);
    else if (symbol.kind == Kind::Remainder)
      value = *value - llvm::divideFloorSigned(*value, symbol.by) * symbol.by;
    sum += coefficient * *value;
  }
  return sum;
}

std::optional<std::pair<Index, llvm::SmallVector<int64_t>>>
IndexSpace::placesOfLanes(const Index &a, int64_t lanes) const {
  Index base = Index::of(a.constant), varying;
  for (auto term : a.terms)
    (symbols_[term.first].uniform ? base : varying).terms.push_back(term);
  llvm::SmallVector<int64_t> places;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    std::optional<int64_t> place = valueAt(varying, lane);
    if (!place)
      return std::nullopt;
    places.push_back(*place);
  }
  return std::pair(base, places);
}

// How far apart the lanes of `a` are where no digit turns; adds its divisions to `turns`. Recursion
// goes as deep as valueAt's.
std::optional<int64_t> IndexSpace::strideBetween(const Index &a, Turns &turns) const {
  int64_t stride = 0;
  for (auto [id, coefficient] : a.terms) {
    const Symbol &symbol = symbols_[id];
    if (symbol.uniform)
      continue;
    if (symbol.kind == Kind::Lane) {
      stride += coefficient;
    } else if (symbol.kind == Kind::Vector) {
      return std::nullopt;
    } else if (splitLanes(symbol.of).second == 1) {
      if (turns.periods.empty())
        turns.dividend = symbol.of;
      if (turns.dividend != symbol.of)
        return std::nullopt;
      turns.periods.push_back(symbol.by);
      stride += symbol.kind == Kind::Remainder ? coefficient : 0;
    } else if (strideBetween(symbol.of, turns) != 0) {
      return std::nullopt;
    }
  }
  return stride;
}

std::optional<IndexSpace::Turns> IndexSpace::turnsOf(const Index &a) const {
  Turns turns;
  std::optional<int64_t> stride = strideBetween(a, turns);
  if (!stride || turns.periods.empty() ||
      llvm::any_of(turns.periods, [&](int64_t by) { return by % turns.period() != 0; }))
    return std::nullopt;
  turns.stride = *stride;
  return turns;
}

Index IndexSpace::placedAt(const Index &a, const Turns &turns, const Index &place) {
  Index sum = Index::of(a.constant);
  for (auto [id, coefficient] : a.terms) {
    const Symbol symbol = symbols_[id]; // which dividing may move
    Index value{0, {{id, 1}}};
    if (symbol.kind == Kind::Lane) {
      value = add(place, scale(splitLanes(turns.dividend).first, -1));
    } else if (!symbol.uniform) {
      bool isDividend = symbol.of == turns.dividend;
      auto [quotient, remainder] =
          divide(isDividend ? place : placedAt(symbol.of, turns, place), symbol.by);
      value = symbol.kind == Kind::Quotient ? quotient : remainder;
    }
    sum = add(sum, scale(value, coefficient));
  }
  return sum;
}

} // namespace weft::compiler

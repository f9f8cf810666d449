// Loads, stores and prefetches of ElementEmitter: what the lanes of a position are to one another
// decides which kind of access it is.
#include "compiler/codegen/ElementEmitter.h"

#include "compiler/codegen/Limits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace weft::compiler {

using namespace mlir;

Type memoryType(Type element) {
  return element.isInteger(1) ? IntegerType::get(element.getContext(), 8) : element;
}
int64_t memoryBytes(Type element) {
  return llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
}

static bool isVector(Value value) {
  return isa<VectorType>(value.getType());
}

IntegerAttr ElementEmitter::alignmentOf(const Index &base, Type stored) {
  if (bufferAlignment == 0)
    return nullptr;
  int64_t bytes = memoryBytes(stored), steps = base.constant;
  for (auto [symbol, coefficient] : base.terms)
    steps = std::gcd(steps, coefficient);
  int64_t alignment = steps == 0 ? bufferAlignment : std::gcd(bufferAlignment, steps * bytes);
  return alignment > bytes ? b.getI64IntegerAttr(alignment) : IntegerAttr();
}

// Which lanes a constant mask has; none for any other mask.
static std::optional<SmallVector<bool>> lanesOf(Value mask) {
  auto constant = mask.getDefiningOp<arith::ConstantOp>();
  auto bits = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!bits)
    return std::nullopt;
  auto values = bits.getValues<bool>();
  return SmallVector<bool>(values.begin(), values.end());
}

// How many lanes a constant mask of the first ones has; 0 for any other mask.
static int64_t firstLanes(Value mask) {
  auto exists = lanesOf(mask);
  if (!exists)
    return 0;
  auto end = llvm::find(*exists, false);
  return std::find(end, exists->end(), true) == exists->end() ? end - exists->begin() : 0;
}

// Lane i gets element[i] of the `covered` ones from `start` on: vectors that cover all of them, and
// a shuffle for each but the first. The last one ends with the last element.
Value ElementEmitter::loadPicked(Value memref, Type stored, const Index &start, int64_t covered,
                                 ArrayRef<int64_t> element) {
  VectorType type = vectorOf(stored);
  SmallVector<int64_t> lane(width, 0);
  Value picked;
  for (int64_t from = 0; from < covered; from += width) {
    int64_t at = covered < width ? 0 : std::min(from, covered - width);
    Index first = space.add(start, at);
    Value vector;
    if (Value mask = tailMask(covered)) {
      Value none = make<arith::ConstantOp>(DenseElementsAttr::get(type, b.getZeroAttr(stored)));
      vector = make<vector::MaskedLoadOp>(type, memref, ValueRange{scalarIndex(first)}, mask, none);
    } else {
      vector = make<vector::LoadOp>(type, memref, ValueRange{scalarIndex(first)},
                                    /*nontemporal=*/nullptr, alignmentOf(first, stored));
    }
    for (int64_t i = 0, lanes = element.size(); i < lanes; ++i) {
      if (element[i] >= from && element[i] < from + width)
        lane[i] = element[i] - at + (picked ? width : 0);
      else if (picked && element[i] < from)
        lane[i] = from == width ? element[i] : i;
    }
    picked = picked || covered <= width
                 ? make<vector::ShuffleOp>(picked ? picked : vector, vector, lane)
                 : vector;
  }
  return picked;
}

// Where the buffer goes on far enough the vectors begin at a multiple of the stride, so that the
// loads of neighbouring positions (the columns of a pooling window) are the same ones.
Value ElementEmitter::loadStrided(Value memref, Type stored, const Index &base, int64_t stride,
                                  int64_t lanes) {
  int64_t step = std::abs(stride), covered = step * (lanes - 1) + 1;
  Index lowest = stride > 0 ? base : space.add(base, stride * (lanes - 1)), start = lowest;
  int64_t shift = lowest.constant - llvm::divideFloorSigned(lowest.constant, step) * step;
  Index aligned = space.add(lowest, -shift);
  int64_t elements = cast<MemRefType>(memref.getType()).getDimSize(0);
  if (auto [low, high] = space.range(aligned);
      wholeBuffers && low >= 0 && high + step * lanes <= elements) {
    start = aligned;
    covered = step * lanes;
  } else {
    shift = 0;
  }
  SmallVector<int64_t> element;
  for (int64_t i = 0; i < lanes; ++i)
    element.push_back(shift + step * (stride > 0 ? i : lanes - 1 - i));
  return loadPicked(memref, stored, start, covered, element);
}

// Lanes whose places beside one another are known (a repeated element, every other one of a stack),
// and few enough elements apart; null for others.
Value ElementEmitter::loadKnown(Value memref, Type stored, const Index &linear, Value mask) {
  auto exists = mask ? lanesOf(mask) : SmallVector<bool>(width, true);
  auto places = exists && mostStride > 1 ? space.placesOfLanes(linear, width) : std::nullopt;
  if (!places)
    return nullptr;
  auto &[base, element] = *places;
  std::optional<std::pair<int64_t, int64_t>> reach;
  for (auto [place, is] : llvm::zip(element, *exists))
    if (is)
      reach = reach ? std::pair(std::min(reach->first, place), std::max(reach->second, place))
                    : std::pair(place, place);
  if (!reach || reach->second - reach->first >= mostStride * width)
    return nullptr;
  for (auto [place, is] : llvm::zip(element, *exists))
    place = is ? place - reach->first : 0;
  return loadPicked(memref, stored, space.add(base, reach->first),
                    reach->second - reach->first + 1, element);
}

// The same where a mask says which lanes exist (those of a window that lie in the image): it is
// taken apart like the vectors.
static Value loadStridedMasked(ElementEmitter &e, Value memref, Type stored, const Index &base,
                               int64_t stride, Value mask) {
  int64_t step = std::abs(stride), width = e.width, covered = step * (width - 1) + 1;
  Index lowest = stride > 0 ? base : e.space.add(base, stride * (width - 1));
  VectorType type = e.vectorOf(stored);
  Value none = e.make<arith::ConstantOp>(DenseElementsAttr::get(type, e.b.getZeroAttr(stored)));
  Value no = e.broadcast(e.make<arith::ConstantOp>(e.b.getBoolAttr(false)));
  SmallVector<int64_t> lane(width, 0);
  Value picked;
  for (int64_t from = 0; from < covered; from += width) {
    SmallVector<int64_t> asked(width, width); // lanes of `mask`, then of `no`
    for (int64_t i = 0; i < width; ++i) {
      int64_t element = step * (stride > 0 ? i : width - 1 - i);
      bool here = element >= from && element < from + width;
      if (here)
        asked[element - from] = i;
      lane[i] = here                              ? element - from + (picked ? width : 0)
                : from == width && element < from ? element
                                                  : i;
    }
    Value wanted = e.make<vector::ShuffleOp>(mask, no, asked);
    Value loaded = e.make<vector::MaskedLoadOp>(
        type, memref, ValueRange{e.scalarIndex(e.space.add(lowest, from))}, wanted, none);
    picked = picked || covered <= width
                 ? e.make<vector::ShuffleOp>(picked ? picked : loaded, loaded, lane)
                 : loaded;
  }
  return picked;
}

std::optional<ElementEmitter::Turn> ElementEmitter::turnOf(const Index &linear) {
  auto turns = width > 1 ? space.turnsOf(linear) : std::nullopt;
  if (!turns || turns->period() < width)
    return std::nullopt;
  periods.insert_range(turns->periods);
  int64_t period = turns->period();
  Index base = space.splitLanes(turns->dividend).first;
  auto [row, column] = space.divide(base, period);
  Index next = space.scale(space.add(row, 1), period);
  Turn turn;
  turn.stride = turns->stride;
  turn.first = scalarIndex(space.placedAt(linear, *turns, base));
  turn.second = scalarIndex(space.placedAt(linear, *turns, next));
  turn.before = min(sub(period, column), width);
  Value number = laneNumbers();
  turn.turned = compare(arith::CmpIPredicate::sge, number,
                        broadcast(make<arith::IndexCastOp>(b.getI32Type(), turn.before)));
  return turn;
}

// Where the lanes of a row share an element, such as the rows' numbers of a matrix that is swept as
// one run, two elements are loaded; where they lie together, two vectors. A gather takes as many
// loads as there are lanes.
Value ElementEmitter::loadTurned(Value memref, Type stored, const Index &linear, Value mask) {
  auto turns = space.turnsOf(linear);
  // What lane 0 reads must exist where it is read without a mask, and what the others read beside
  // it. Without instructions for masked loads of its elements a vector is loaded lane by lane.
  int64_t lanes = mask ? firstLanes(mask) : width;
  bool isShared = turns && turns->stride == 0 && lanes > 0,
       isTogether = turns && turns->stride == 1 && memoryBytes(stored) >= kLeastMaskedBytes;
  if (!isShared && !isTogether)
    return nullptr;
  std::optional<Turn> turn = turnOf(linear);
  if (!turn)
    return nullptr;
  if (isShared) {
    Value isWithin = compare(arith::CmpIPredicate::slt, turn->before, lanes);
    Value next = make<arith::SelectOp>(isWithin, turn->second, turn->first);
    Value before = make<memref::LoadOp>(memref, ValueRange{turn->first}),
          after = make<memref::LoadOp>(memref, ValueRange{next});
    return make<arith::SelectOp>(turn->turned, broadcast(after), broadcast(before));
  }
  VectorType type = vectorOf(stored);
  Value none = make<arith::ConstantOp>(DenseElementsAttr::get(type, b.getZeroAttr(stored)));
  Value all = broadcast(make<arith::ConstantOp>(b.getBoolAttr(true)));
  Value first = make<arith::XOrIOp>(turn->turned, all), second = turn->turned;
  if (mask) {
    first = make<arith::AndIOp>(first, mask);
    second = make<arith::AndIOp>(second, mask);
  }
  Value before = make<vector::MaskedLoadOp>(type, memref, ValueRange{turn->first}, first, none);
  Value begun = sub(turn->second, turn->before);
  return make<vector::MaskedLoadOp>(type, memref, ValueRange{begun}, second, before);
}

Value ElementEmitter::load(Value memref, Type element, const Index &linear, Value mask) {
  auto [base, stride] = space.splitLanes(linear);
  Type stored = memoryType(element);
  Value value;
  if (stride == 0) {
    value = make<memref::LoadOp>(memref, ValueRange{scalarIndex(base)});
  } else {
    VectorType type = vectorOf(stored);
    Value none = mask || stride != 1
                     ? make<arith::ConstantOp>(DenseElementsAttr::get(type, b.getZeroAttr(stored)))
                     : nullptr;
    if (stride == 1) {
      Value at = scalarIndex(base);
      if (mask)
        value = make<vector::MaskedLoadOp>(type, memref, ValueRange{at}, mask, none);
      else
        value = make<vector::LoadOp>(type, memref, ValueRange{at}, /*nontemporal=*/nullptr,
                                     alignmentOf(base, stored));
    } else if (stride && mostStride > 1 && std::abs(*stride) <= mostStride) {
      int64_t lanes = mask ? firstLanes(mask) : width;
      value = lanes ? loadStrided(memref, stored, base, *stride, lanes)
                    : loadStridedMasked(*this, memref, stored, base, *stride, mask);
    } else if (Value known = stride ? Value() : loadKnown(memref, stored, linear, mask)) {
      value = known;
    } else if (Value turned = stride ? Value() : loadTurned(memref, stored, linear, mask)) {
      value = turned;
    } else {
      Value all = mask ? mask : broadcast(make<arith::ConstantOp>(b.getBoolAttr(true)));
      value = make<vector::GatherOp>(type, memref, ValueRange{constantIndex(0)},
                                     vectorIndex(linear), all, none);
    }
  }
  if (stored == element)
    return value;
  Value zero = make<arith::ConstantOp>(cast<TypedAttr>(b.getZeroAttr(value.getType())));
  return compare(arith::CmpIPredicate::ne, value, zero);
}

// The first lanes of a vector as vectors of 8, 4, 2 and 1 lanes. LLVM 22 stores more than one
// element where a mask with a single lane meets a truncation to 8 or 16 bits, on machines with
// AVX-512: the bytes behind belong to others. Without it, it stores lane by lane.
void ElementEmitter::storeFirst(Value memref, Value value, const Index &base, int64_t lanes) {
  Type element = getElementTypeOrSelf(value.getType());
  int64_t from = 0;
  for (int64_t piece = width; piece >= 1; piece /= 2) {
    if (!(lanes & piece))
      continue;
    Value at = scalarIndex(space.add(base, from));
    if (piece == 1) {
      memref::StoreOp::create(b, loc, make<vector::ExtractOp>(value, from), memref, ValueRange{at});
    } else {
      Value part = make<vector::ShuffleOp>(value, value,
                                           llvm::to_vector(llvm::seq<int64_t>(from, from + piece)));
      vector::StoreOp::create(b, loc, part, memref, ValueRange{at}, /*nontemporal=*/nullptr,
                              alignmentOf(space.add(base, from), element));
    }
    from += piece;
  }
}

void ElementEmitter::store(Value memref, Value value, const Index &linear, Value mask) {
  auto [base, stride] = space.splitLanes(linear);
  if (stride != 0)
    value = broadcast(value);
  else if (isVector(value))
    value = make<vector::ExtractOp>(value, 0); // one place: a dim of size 1 lies along the lanes
  if (getElementTypeOrSelf(value.getType()).isInteger(1))
    value = make<arith::ExtUIOp>(isVector(value) ? Type(vectorOf(b.getI8Type())) : b.getI8Type(),
                                 value);
  if (stride == 0) {
    memref::StoreOp::create(b, loc, value, memref, ValueRange{scalarIndex(base)});
  } else if (stride == 1) {
    int64_t first =
        mask && memoryBytes(getElementTypeOrSelf(value.getType())) <= 2 ? firstLanes(mask) : 0;
    if (first)
      return storeFirst(memref, value, base, first);
    Value at = scalarIndex(base);
    if (mask)
      vector::MaskedStoreOp::create(b, loc, memref, ValueRange{at}, mask, value);
    else
      vector::StoreOp::create(b, loc, value, memref, ValueRange{at}, /*nontemporal=*/nullptr,
                              alignmentOf(base, getElementTypeOrSelf(value.getType())));
  } else {
    Value all = mask ? mask : broadcast(make<arith::ConstantOp>(b.getBoolAttr(true)));
    vector::ScatterOp::create(b, loc, Type(), memref, ValueRange{constantIndex(0)},
                              vectorIndex(linear), all, value, IntegerAttr());
  }
}

Value ElementEmitter::differ(Value memref, Value other) {
  return compare(arith::CmpIPredicate::ne, make<memref::ExtractAlignedPointerAsIndexOp>(memref),
                 make<memref::ExtractAlignedPointerAsIndexOp>(other));
}

void ElementEmitter::prefetch(Value memref, const Index &linear, bool write) {
  auto [base, stride] = space.splitLanes(linear);
  if (stride != 1)
    return;
  int64_t bytes = memoryBytes(cast<MemRefType>(memref.getType()).getElementType());
  for (int64_t at = 0; at < width * bytes; at += kLineBytes)
    prefetchLine(memref, space.add(base, at / bytes), write);
}

void ElementEmitter::prefetchLine(Value memref, const Index &linear, bool write, bool nearest) {
  memref::PrefetchOp::create(b, loc, memref, ValueRange{scalarIndex(linear)}, write,
                             /*localityHint=*/nearest ? 3 : 2,
                             /*isDataCache=*/true);
}

} // namespace weft::compiler

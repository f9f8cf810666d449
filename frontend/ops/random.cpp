#include "weft/random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/requests/requests.h"
#include "frontend/tensor/beside.h"
#include "frontend/tensor/impl.h"
#include "frontend/tensor/starting.h"
#include "runtime/core/float16.h"
#include "runtime/memory/buffer.h"
#include "weft/autograd.h"
#include "weft/composites.h"
#include "weft/jit.h"

namespace weft {

using namespace recorder;

namespace {

// Which of so many equal parts of a draw is drawn.
struct Part {
  int64_t index = 0, count = 1;
};

// The state, which every program that draws writes, and what it takes to go on when one of them
// fails.
struct Stream {
  Tensor state;
  Tensor start; // the state that was set last
  int64_t losses = 0;
  std::optional<Part> part = {}; // of the rank that has the device, where ranks are threads
};

// Each time the state is lost the counter goes on here, far from all samples before.
constexpr int64_t kBlocksToALoss = int64_t(1) << 40;

Tensor state_tensor(int64_t key, int64_t counter, uint8_t device) {
  const int64_t words[] = {key, counter};
  return wrap_quietly(
      make_leaf(type_info(DType::kInt64, {2}, device), buffer_of(words, sizeof words, device)));
}

} // namespace

// Under the recorder's lock.
struct recorder::GeneratorStreams {
  // In a session, whose error it is where the generator was moved from.
  static GeneratorStreams &of(const Generator &generator) {
    return held(generator.streams_, Session::op(), "generator", Session::location());
  }

  uint64_t seed = 0;
  uint64_t born = next_birth();
  Part part;
  // 1 until another part is set: a program that was recorded before draws what it drew.
  std::shared_ptr<HostState> part_holds = std::make_shared<HostState>(1, 1);
  std::map<uint8_t, Stream> streams; // by device

  Part part_on(uint8_t device) {
    read_state(part_holds);
    return of(device).part.value_or(part);
  }
  // The state that a draw begins at, so many blocks behind the stream's.
  Var begin(uint8_t device, int64_t blocks) {
    Var whole = state(device);
    return blocks == 0 ? whole : emit_random_advance(whole, blocks);
  }
  // After it the stream moves on by what all parts take.
  void move_on(uint8_t device, int64_t blocks) {
    NoGrad no_grad;
    write(of(device).state, emit_random_advance(state(device), blocks));
  }

  Stream &of(uint8_t device) {
    if (auto known = streams.find(device); known != streams.end())
      return known->second;
    auto fresh = [&] {
      return state_tensor(static_cast<int64_t>(seed), 0, device);
    };
    Stream stream{.state = fresh(), .start = fresh()};
    // With the generator: a function that is recorded leaves one of before changed.
    stream.state.impl()->born = born;
    return streams.emplace(device, std::move(stream)).first->second;
  }

  // The state to draw with. After a program that failed over an index it is again what it was. One
  // that failed otherwise has lost what it would have written; the generator, which all of a
  // process may share, is not to end with it.
  Var state(uint8_t device) {
    Stream &stream = of(device);
    Var state = read(stream.state, "generator");
    if (state.value->node || !is_lost(state.value.get()))
      return state;
    std::vector<int64_t> start = stream.start.to_vector<int64_t>();
    write(stream.state,
          read(state_tensor(start[0], start[1] + ++stream.losses * kBlocksToALoss, device),
               "generator"));
    return read(stream.state, "generator");
  }

  ~GeneratorStreams() {
    UnderLock lock;
    streams.clear();
  }
};

Generator::Generator(uint64_t seed) : streams_(std::make_shared<GeneratorStreams>()) {
  streams_->seed = seed;
}

void Generator::manual_seed(uint64_t seed, Location location) {
  Session session("manual_seed", location); // others draw from it meanwhile
  GeneratorStreams &streams = GeneratorStreams::of(*this);
  streams.seed = seed;
  for (auto &[device, stream] : streams.streams) {
    // In place: programs that were recorded with this generator draw from the new seed, too.
    write(stream.state, read(state_tensor(static_cast<int64_t>(seed), 0, device), "state"));
    stream.start = state_tensor(static_cast<int64_t>(seed), 0, device);
    stream.losses = 0;
  }
}

void Generator::set_part(int part, int parts, Location location) {
  Session session("set_part", location);
  if (parts < 1 || part < 0 || part >= parts)
    fail(ErrorKind::kValue, "there is no part " + std::to_string(part) + " of " +
                                std::to_string(parts) + ": parts count from 0");
  GeneratorStreams &streams = GeneratorStreams::of(*this);
  std::exchange(streams.part_holds, std::make_shared<HostState>(1, 1))->front() = 0;
  if (thread_rank == 0)
    streams.part = {part, parts};
  else
    streams.of(default_device()).part = {part, parts};
}

Tensor Generator::state(Device device, Location location) const {
  Session session("state", location);
  return state_storage(device).detach().clone();
}

const Tensor &Generator::state_storage(Device device, Location location) const {
  Session session("state_storage", location);
  return GeneratorStreams::of(*this).of(static_cast<uint8_t>(device.index())).state;
}

void Generator::set_state(const Tensor &state, Location location) {
  Session session("set_state", location);
  const TypeInfo &type = *checked(state, "state")->type;
  if (type.dtype != DType::kInt64 || type.dims != Shape{2})
    fail(ErrorKind::kShape, "state is " + describe(type) + "; a generator's state is int64 [2]");
  NoGrad no_grad;
  Stream &stream = GeneratorStreams::of(*this).of(type.device);
  stream.state.copy_(state, location);
  stream.start = state.detach().clone();
}

Generator &default_generator() {
  static auto *generator = [] {
    auto *made = new Generator(0);
    GeneratorStreams::of(*made).born = 0; // whoever draws from it first
    return made;
  }();
  return *generator;
}

void manual_seed(uint64_t seed, Location location) {
  default_generator().manual_seed(seed, location);
}

namespace {

void want_samples(DType dtype) {
  if (!is_floating(dtype))
    fail(ErrorKind::kDType, std::string("samples are floating-point numbers, not ") + name(dtype) +
                                "; randint draws integers");
}
void want_range(double low, double high, DType dtype) {
  auto both = [&] {
    return "low is " + std::to_string(low) + ", high is " + std::to_string(high);
  };
  if (!(low <= high))
    fail(ErrorKind::kValue, both() + ": low must not be above high");
  double most = largest_finite(dtype);
  if (low < -most || high > most || high - low > most)
    fail(ErrorKind::kValue,
         both() + ": they and what lies between them must be finite numbers of " + name(dtype));
}
void want_deviation(double deviation) {
  if (!(deviation >= 0))
    fail(ErrorKind::kValue,
         "deviation is " + std::to_string(deviation) + "; it must not be negative");
}

constexpr int kSampleBits = 24; // that a uniform sample of float32 has

// Whether samples of a part have a state of their own: no block holds some of two parts.
bool has_own_blocks(const Part &part, int64_t elements) {
  return part.count == 1 || elements % kSamplesTogether == 0;
}

// Samples, and moves the generator on by as much as those of all parts take.
Var draw(Generator &generator, DType dtype, const Shape &shape, bool normal) {
  want_samples(dtype);
  NoGrad no_grad;
  GeneratorStreams &streams = GeneratorStreams::of(generator);
  uint8_t device = call_device.device;
  Part part = streams.part_on(device);
  int64_t elements = type_info(dtype, shape)->elements;
  if (normal || has_own_blocks(part, elements)) {
    int64_t blocks = random_blocks(elements, normal);
    Var samples = emit_random(normal, streams.begin(device, part.index * blocks), dtype, shape);
    streams.move_on(device, part.count * blocks);
    return samples;
  }
  // From the blocks on that the part before it has samples of, too.
  int64_t first = part.index * elements, behind = first % kSamplesTogether;
  const int64_t start[] = {behind}, limit[] = {behind + elements}, step[] = {1};
  Var samples = emit_random(false, streams.begin(device, random_blocks(first - behind, false)),
                            dtype, {limit[0]});
  streams.move_on(device, random_blocks(part.count * elements, false));
  return emit_reshape(emit_slice(samples, start, limit, step), shape);
}

// x * scale + shift, with parameters that do not recompile.
Var affine(const Var &x, double scale, double shift) {
  Var y = scale == 1 ? x : emit_mul(x, broadcast(make_scalar(scale, x.dtype()), x.dims()));
  return shift == 0 ? y : emit_add(y, broadcast(make_scalar(shift, x.dtype()), x.dims()));
}

} // namespace

Tensor rand(const Shape &shape, Generator &generator, DType dtype, Location location) {
  Session session("rand", location);
  return wrap(draw(generator, dtype, shape, false));
}
Tensor rand(const Shape &shape, DType dtype, Location location) {
  return rand(shape, default_generator(), dtype, location);
}

Tensor randn(const Shape &shape, Generator &generator, DType dtype, Location location) {
  Session session("randn", location);
  return wrap(draw(generator, dtype, shape, true));
}
Tensor randn(const Shape &shape, DType dtype, Location location) {
  return randn(shape, default_generator(), dtype, location);
}

Tensor rand_like(const Tensor &x, Generator &generator, Location location) {
  Session session("rand_like", location);
  BesideTensor scope(x);
  return cut_as(rand(x.shape(), generator, x.dtype()), x);
}
Tensor randn_like(const Tensor &x, Generator &generator, Location location) {
  Session session("randn_like", location);
  BesideTensor scope(x);
  return cut_as(randn(x.shape(), generator, x.dtype()), x);
}

namespace {

// The largest number of the dtype below `high`, which the dtype may have rounded.
double largest_below(double high, DType dtype) {
  if (dtype == DType::kFloat64)
    return std::nextafter(high, -HUGE_VAL);
  if (dtype == DType::kFloat32)
    return std::nextafter(static_cast<float>(high), -HUGE_VALF);
  constexpr uint16_t kSign = 0x8000;
  auto bits = static_cast<uint16_t>(scalar_bits(high, dtype));
  bits = bits == 0 ? kSign | 1 : bits & kSign ? bits + 1 : bits - 1;
  return dtype == DType::kBFloat16 ? bfloat16_to_float(bits) : float16_to_float(bits);
}

} // namespace

Tensor uniform(const Shape &shape, double low, double high, DType dtype, Generator &generator,
               Location location) {
  Session session("uniform", location);
  want_samples(dtype);
  want_range(low, high, dtype);
  Var samples = rounded(
      affine(draw(generator, computing_dtype(dtype), shape, false), high - low, low), dtype);
  // The largest samples may round to `high`, which is not to be among them.
  double most = std::max(low, largest_below(high, dtype));
  return wrap(emit_minimum(samples, broadcast(make_scalar(most, dtype), samples.dims())));
}

Tensor normal(const Shape &shape, double mean, double deviation, DType dtype, Generator &generator,
              Location location) {
  Session session("normal", location);
  want_deviation(deviation);
  return wrap(rounded(affine(draw(generator, computing_dtype(dtype), shape, true), deviation, mean),
                      dtype));
}

namespace {

// The state in memory, which the next samples begin at. Moves the generator on by what they take.
std::array<int64_t, 2> take(Generator &generator, int64_t blocks) {
  NoGrad no_grad;
  Location location = Session::location();
  GeneratorStreams &streams = GeneratorStreams::of(generator);
  uint8_t device = call_device.device;
  while (true) {
    Var state = streams.state(device);
    Value *value = state.value.get();
    if (value->node)
      submit({&value, 1}, {CutReason::kInit, location});
    std::vector<char> room;
    const void *words = host_bytes(value, location, room);
    // Another thread may have drawn while this one waited without the lock.
    const Tensor &storage = streams.of(device).state;
    if (read(storage, "generator").value.get() != value)
      continue;
    std::array<int64_t, 2> before;
    std::memcpy(before.data(), words, sizeof before);
    write(storage, read(state_tensor(before[0], before[1] + blocks, device), "generator"));
    return before;
  }
}

Var of_samples(const Var &samples, const StartingValue &value, DType dtype) {
  return rounded(affine(samples, value.scale, value.shift), dtype);
}

Tensor start_samples(StartingValue value, const Shape &shape, DType dtype, Generator &generator) {
  want_samples(dtype);
  const TypeInfo *type = type_info(dtype, shape);
  bool normal = value.kind == StartingValue::Kind::kNormal;
  value.computed = computing_dtype(dtype);
  value.location = Session::location();
  std::shared_ptr<const StartingValue> start =
      active_trace() ? nullptr : with_program(value, *type);
  if (!start)
    return wrap(of_samples(draw(generator, value.computed, shape, normal), value, dtype));
  StartingValue drawn = *start;
  drawn.state = take(generator, random_blocks(type->elements, normal));
  return wrap_start(std::make_shared<const StartingValue>(std::move(drawn)), type);
}

} // namespace

Var recorder::recorded_start(const StartingValue &start, const TypeInfo &type) {
  NoGrad no_grad;
  if (start.kind == StartingValue::Kind::kConstant)
    return broadcast(make_scalar(Scalar(start.shift), type.dtype), type.dims);
  Var state = read(state_tensor(start.state[0], start.state[1], type.device), "generator");
  bool normal = start.kind == StartingValue::Kind::kNormal;
  return of_samples(emit_random(normal, state, start.computed, type.dims), start, type.dtype);
}

Tensor start_uniform(const Shape &shape, double low, double high, DType dtype, Generator &generator,
                     Location location) {
  Session session("uniform", location);
  want_samples(dtype);
  want_range(low, high, dtype);
  return start_samples({.kind = StartingValue::Kind::kUniform, .scale = high - low, .shift = low},
                       shape, dtype, generator);
}

Tensor start_normal(const Shape &shape, double mean, double deviation, DType dtype,
                    Generator &generator, Location location) {
  Session session("normal", location);
  want_deviation(deviation);
  return start_samples({.kind = StartingValue::Kind::kNormal, .scale = deviation, .shift = mean},
                       shape, dtype, generator);
}

Tensor start_constant(const Shape &shape, double value, DType dtype, Location location) {
  Session session("full", location);
  const TypeInfo *type = type_info(dtype, shape);
  make_fitting_scalar(value, dtype); // refuses what the dtype cannot hold
  return wrap_start(with_program({.kind = StartingValue::Kind::kConstant,
                                  .computed = computing_dtype(dtype),
                                  .shift = value},
                                 *type),
                    type);
}

Tensor start_copy(const Tensor &tensor, std::optional<DType> dtype, std::optional<Device> device,
                  Location location) {
  Session session("copy", location);
  TensorImpl *impl = checked(tensor, "tensor");
  DType to = dtype && is_floating(impl->type->dtype) ? *dtype : impl->type->dtype;
  uint8_t there = device ? static_cast<uint8_t>(device->index()) : impl->type->device;
  const TypeInfo *type = type_info(to, impl->type->dims, there);
  NoGrad no_grad;
  // What it starts from, unless that was rounded before it is converted.
  if (impl->start && (to == impl->type->dtype || impl->type->dtype == impl->start->computed)) {
    StartingValue value = *impl->start;
    if (value.kind == StartingValue::Kind::kConstant && impl->type->dtype == DType::kFloat32)
      value.shift = static_cast<float>(value.shift);
    if (std::shared_ptr<const StartingValue> start = with_program(std::move(value), *type))
      return wrap_start(std::move(start), type);
  }
  if (there != impl->type->device) {
    Tensor moved = tensor.detach().to(device_at(there));
    return to == impl->type->dtype ? moved : start_copy(moved, to, {}, location);
  }
  if (to == impl->type->dtype || active_trace())
    return tensor.detach().clone().to(to);
  Var x = read(tensor, "tensor");
  Value *value = x.value.get();
  if (value->node)
    submit({&value, 1}, {CutReason::kInit, location});
  Var made = converted(value, to);
  return made ? wrap_quietly(std::move(made)) : tensor.detach().to(to);
}

namespace {

// floor(u * count) of uniform u, int64 [shape], where a sample has bits enough. In float64 the
// product is exact, so that truncation is the floor.
Var few_offsets(Generator &generator, uint64_t count, const Shape &shape) {
  Var samples = emit_cast(draw(generator, DType::kFloat32, shape, false), DType::kFloat64);
  return emit_cast(affine(samples, static_cast<double>(count), 0), DType::kInt64);
}

// The same of u of three samples, whose 72 bits are enough for each count: a long multiplication in
// digits of 24 bits. As int64 that wraps.
Var many_offsets(Generator &generator, uint64_t count, const Shape &shape) {
  constexpr uint64_t kBase = uint64_t(1) << kSampleBits;
  auto number = [&](int64_t x) {
    return broadcast(make_scalar(x, DType::kInt64), shape);
  };
  auto constant = [&](int64_t x) {
    return broadcast(emit_constant(x, DType::kInt64), shape);
  };
  Var digits[3], by[3]; // the lowest first
  for (int i = 2; i >= 0; --i)
    digits[i] = few_offsets(generator, kBase, shape);
  for (int i = 0; i < 3; ++i)
    by[i] = number(static_cast<int64_t>(count >> (i * kSampleBits) & (kBase - 1)));
  Var column, below; // of the product, from the lowest; and the last one before it
  for (int place = 0; place < 5; ++place) {
    below = column;
    if (below)
      column = emit_shift_right(below, constant(kSampleBits));
    for (int i = std::max(0, place - 2); i <= std::min(2, place); ++i) {
      Var product = emit_mul(digits[i], by[place - i]);
      column = column ? emit_add(column, product) : product;
    }
  }
  return emit_or(emit_shift_left(column, constant(kSampleBits)),
                 emit_and(below, constant(kBase - 1)));
}

} // namespace

Tensor randint(int64_t low, int64_t high, const Shape &shape, Generator &generator,
               Location location) {
  Session session("randint", location);
  if (low >= high)
    fail(ErrorKind::kValue, "the range [" + std::to_string(low) + ", " + std::to_string(high) +
                                ") must hold at least one integer");
  uint64_t count = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  Var offsets = count <= uint64_t(1) << kSampleBits ? few_offsets(generator, count, shape)
                                                    : many_offsets(generator, count, shape);
  return wrap(emit_add(offsets, broadcast(make_scalar(low, DType::kInt64), offsets.dims())));
}

Tensor randint(int64_t high, const Shape &shape, Generator &generator, Location location) {
  return randint(0, high, shape, generator, location);
}

Tensor bernoulli(const Shape &shape, double p, DType dtype, Generator &generator,
                 Location location) {
  Session session("bernoulli", location);
  if (!(p >= 0 && p <= 1))
    fail(ErrorKind::kValue, "p is " + std::to_string(p) + "; it must be in [0, 1]");
  Var samples = draw(generator, DType::kFloat32, shape, false);
  Var below =
      emit_compare(Comparison::kLt, samples, broadcast(make_scalar(p, DType::kFloat32), shape));
  return wrap(dtype == DType::kBool ? below : emit_cast(below, dtype));
}

Tensor bernoulli(const Tensor &p, Generator &generator, Location location) {
  Session session("bernoulli", location);
  NoGrad no_grad;
  BesideTensor beside(p);
  Var given = floating_only(p, "p");
  DType wide = computing_dtype(given.dtype());
  Tensor share = wrap(given).to(wide), samples = wrap(draw(generator, wide, given.dims(), false));
  // What is no probability, NaN too, gives the number that the check refuses.
  Tensor drawn = where((share >= 0) & (share <= 1), (samples < share).to(int32), 2);
  Var checked =
      emit_check_index(read(drawn, "p"), 2, "bernoulli: an element of p is not in [0, 1]");
  return wrap(emit_cast(checked, given.dtype()));
}

Tensor dropout(const Tensor &x, double p, bool training, Generator &generator, Location location) {
  Session session("dropout", location);
  if (!(p >= 0 && p <= 1))
    fail(ErrorKind::kValue, "p is " + std::to_string(p) + "; it must be in [0, 1]");
  if (!training || p == 0)
    return x;
  Var input = floating_operand(x);
  GeneratorStreams &streams = GeneratorStreams::of(generator);
  int64_t elements = input.type().elements;
  Part part = streams.part_on(input.device());
  if (!has_own_blocks(part, elements)) { // what the op computes, of samples that draw() gives
    BesideTensor beside(x);
    Tensor wide = wrap(input).to(computing_dtype(input.dtype())),
           samples = wrap(draw(generator, DType::kFloat32, input.dims(), false));
    double scale = p < 1 ? 1 / (1 - p) : 0,
           least = std::ldexp(std::ceil(std::ldexp(p, kSampleBits)), -kSampleBits);
    return where(samples >= least, wide * scale, 0.0).to(input.dtype());
  }
  int64_t blocks = random_blocks(elements, false);
  Var result = emit_dropout(input, streams.begin(input.device(), part.index * blocks), p)[0];
  streams.move_on(input.device(), part.count * blocks);
  return wrap(result);
}

Tensor multinomial(const Tensor &probabilities, int64_t samples, bool replacement,
                   Generator &generator, Location location) {
  Session session("multinomial", location);
  NoGrad no_grad;
  Var given = floating_only(probabilities, "probabilities");
  const Shape &dims = given.dims();
  if (given.ndim() < 1 || given.ndim() > 2 || dims.back() == 0)
    fail(ErrorKind::kShape, "probabilities have shape " + to_string(dims) +
                                "; they must be [n] or [rows, n], for at least one category");
  int64_t n = dims.back();
  if (samples < 1 || (!replacement && samples > n))
    fail(ErrorKind::kValue, "samples is " + std::to_string(samples) + "; it must be positive" +
                                (replacement ? ""
                                             : ", and without replacement at most the " +
                                                   std::to_string(n) + " categories"));
  // Of 53 bits: a category of a large vocabulary may be rarer than one of 24 can tell.
  auto samples_of = [&](const Shape &shape) {
    return wrap(draw(generator, DType::kFloat64, shape, false));
  };
  Tensor p = wrap(given).to(float64), total = sum(p, -1, true);
  Tensor valid = all(p >= 0, -1, true) & is_finite(total) & (total > 0), chosen;
  if (!replacement)
    valid = valid & (sum(p > 0, -1, true) >= samples);
  // What is drawn from another row fails below, and nothing before it.
  p = where(valid, p, 1.0);
  if (replacement) {
    Shape shape = dims;
    shape.back() = samples;
    // Below the last end, so that there is a category whose end lies beyond; one without extent has
    // none.
    Tensor ends = cumsum(p, -1);
    chosen = searchsorted(ends, samples_of(shape) * ends.narrow(-1, n - 1, 1), /*right=*/true);
  } else {
    // Exponential clocks with rates p: the order in which they ring is that of draws without
    // replacement (Efraimidis and Spirakis 2006).
    Tensor rates = where(p > 0, p / -log1p(-samples_of(dims)), 0.0);
    chosen = topk(rates, samples, -1).second;
  }
  chosen = where(valid, chosen, n);
  return wrap(emit_check_index(
      read(chosen, "probabilities"), n,
      replacement ? "multinomial: each row of probabilities must be finite, without negative "
                    "numbers, and not all 0"
                  : "multinomial: each row of probabilities must be finite, without negative "
                    "numbers, and without replacement positive for as many categories as there are "
                    "samples"));
}

} // namespace weft

#include "weft/nn/key_value_cache.h"

#include <algorithm>

#include "frontend/recorder/record/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/autocast.h"
#include "weft/autograd.h"
#include "weft/nn/init.h"
#include "weft/ops.h"

namespace weft::nn {
namespace {

[[noreturn]] void fail(ErrorKind kind, const std::string &what, Location location) {
  fail_at(location, kind, "KeyValueCache: " + what);
}

// The level of names above a layer's number.
class Level : public Module {
public:
  Parameter add(int64_t layer, Tensor value, Location location) {
    return buffer(std::to_string(layer), std::move(value), location);
  }
};

} // namespace

KeyValueCache::KeyValueCache(const KeyValueCacheOptions &options, Location location)
    : options_(options) {
  CallerScope scope(location);
  const KeyValueCacheOptions &o = options;
  if (std::min({o.layers, o.batch, o.heads, o.size, o.capacity}) < 1)
    fail(ErrorKind::kValue,
         "layers, batch, heads, size and capacity must be at least 1, they are " +
             to_string(Shape{o.layers, o.batch, o.heads, o.size, o.capacity}),
         location);
  if (!is_floating(o.dtype))
    fail(ErrorKind::kDType, std::string("dtype must be floating point, it is ") + name(o.dtype),
         location);
  lengths_ = buffer("lengths",
                    Tensor::from(std::vector<int64_t>(static_cast<size_t>(o.batch)), {o.batch}));
  Level keys, values;
  child("keys", keys);
  child("values", values);
  // What a mask leaves out counts 0 times: the buffers must not begin with NaN.
  for (int64_t i = 0; i < o.layers; ++i) {
    keys_.push_back(
        keys.add(i, init::constant({o.batch, o.heads, o.capacity, o.size}, 0, o.dtype), location));
    values_.push_back(values.add(
        i, init::constant({o.batch, o.heads, o.capacity, o.size}, 0, o.dtype), location));
  }
}

KeyValueCache::Places KeyValueCache::next(int64_t count, Location location) const {
  ModuleCall scope(*this, location);
  if (count < 1 || count > options_.capacity)
    fail(ErrorKind::kValue,
         "it has room for 1 to " + std::to_string(options_.capacity) + " tokens, " +
             std::to_string(count) + " are to come",
         location);
  const int64_t heads = options_.batch * options_.heads, capacity = options_.capacity;
  // Positions follow from the new lengths, so that whatever computes with them computes the lengths
  // as well: a run that fails takes both back.
  {
    NoGrad no_grad;
    Tensor(lengths_) += count;
  }
  Places places;
  places.positions = lengths_.unsqueeze(1) + arange(-count, 0);
  places.mask = (arange(capacity) <= places.positions.unsqueeze(-1)).unsqueeze(1);
  // A position beyond the capacity would be one of the next head: it gets a row that no buffer has.
  Tensor within = arange(heads).reshape({options_.batch, 1, options_.heads}) * capacity +
                  places.positions.unsqueeze(2);
  places.rows = where((places.positions < capacity).unsqueeze(2), within, heads * capacity);
  return places;
}

Tensor KeyValueCache::attend(int64_t layer, const Places &places, const Tensor &query,
                             const Tensor &given_key, const Tensor &given_value,
                             Location location) const {
  ModuleCall scope(*this, location);
  Tensor key = given_key, value = given_value;
  const int64_t batch = options_.batch, heads = options_.heads, size = options_.size;
  if (layer < 0 || layer >= options_.layers)
    fail(ErrorKind::kValue,
         "it has " + std::to_string(options_.layers) + " layers, none of number " +
             std::to_string(layer),
         location);
  const int64_t count = places.positions.size(1);
  const Shape shape = {batch, heads, count, size};
  if (key.shape() != shape || value.shape() != shape || query.ndim() != 4 ||
      query.size(0) != batch || query.size(1) % heads != 0 || query.size(2) != count ||
      query.size(3) != size)
    fail(ErrorKind::kShape,
         "query, key and value are " + to_string(query.shape()) + ", " + to_string(key.shape()) +
             " and " + to_string(value.shape()) + "; keys and values must be " + to_string(shape) +
             ", queries the same with any multiple of the heads",
         location);
  const size_t at = static_cast<size_t>(layer);
  // A DTypeScope or nn::to() may have made them of another one than the options say.
  const DType dtype = keys_[at].dtype();
  if (autocast_dtype() && is_floating(key.dtype()) && is_floating(value.dtype()))
    key = key.to(dtype), value = value.to(dtype);
  if (key.dtype() != dtype || value.dtype() != dtype)
    fail(ErrorKind::kDType,
         std::string("key and value are ") + name(key.dtype()) + " and " + name(value.dtype()) +
             ", the cache is " + name(dtype) + " (KeyValueCacheOptions::dtype)",
         location);
  {
    NoGrad no_grad;
    recorder::Session session("KeyValueCache", location);
    const Tensor rows = places.rows.flatten();
    // Without the number: programs that serve all capacities have one text.
    const char *full = "KeyValueCache: a text would have more tokens than the cache's capacity; "
                       "make a cache of a larger one";
    for (const auto &[buffer, part] :
         {std::pair<const Tensor &, const Tensor &>(keys_[at], key),
          std::pair<const Tensor &, const Tensor &>(values_[at], value)}) {
      // Token by token, as the rows are: a prompt's length is the first dim of what is written.
      const Tensor table = buffer.reshape({-1, size}),
                   given = part.detach().transpose(1, 2).reshape({-1, size});
      recorder::write(table, recorder::emit_index_put(
                                 recorder::read(table, "cache"), recorder::read(rows, "rows"),
                                 recorder::read(given, "key and value"), 0, full));
    }
  }
  // The queries of one head stand below each other, so that its keys are read once and as they are.
  const int64_t group = query.size(1) / heads;
  Tensor asked = query.reshape({batch, heads, group * count, size});
  Tensor mask = places.mask;
  if (group > 1 && count > 1)
    mask = mask.unsqueeze(2)
               .expand({batch, 1, group, count, options_.capacity})
               .reshape({batch, 1, group * count, options_.capacity});
  return attention(asked, keys_[at], values_[at], mask).reshape(query.shape());
}

void KeyValueCache::set_lengths(const std::vector<int64_t> &lengths, Location location) {
  ModuleCall scope(*this, location);
  if (static_cast<int64_t>(lengths.size()) != options_.batch)
    fail(ErrorKind::kValue,
         "it has " + std::to_string(options_.batch) + " texts, " + std::to_string(lengths.size()) +
             " lengths were given",
         location);
  for (int64_t length : lengths)
    if (length < 0 || length > options_.capacity)
      fail(ErrorKind::kValue,
           "a length is " + std::to_string(length) + "; it must be in [0, " +
               std::to_string(options_.capacity) + "]",
           location);
  NoGrad no_grad;
  lengths_.copy_(Tensor::from(lengths, {options_.batch}));
}

} // namespace weft::nn

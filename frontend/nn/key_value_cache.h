// Keys and values that a decoder has computed, so that each further token costs one position and
// not the whole text.
#pragma once

#include <vector>

#include "weft/nn/module.h"

namespace weft::nn {

struct KeyValueCacheOptions {
  int64_t layers = 0;    // of the model
  int64_t batch = 1;     // texts
  int64_t heads = 0;     // of keys and values
  int64_t size = 0;      // of a head
  int64_t capacity = 0;  // tokens of a text, at most
  DType dtype = float32; // of keys and values
};

// Room for `capacity` tokens of each text, in buffers: "lengths", int64 [batch], says how many of
// them a text has; "keys.i" and "values.i", [batch, heads, capacity, size], are those of layer i.
// Shapes never change, and where is written is a tensor: each step of a decoder is one and the same
// program, for this batch and capacity. A server whose batches vary fills them up to a few sizes.
// Texts of one batch may have different lengths: a token stands in the cache at its position in its
// own text, so that it is computed as if its text was alone.
//
//   nn::KeyValueCache cache = model.make_cache(batch, capacity);
//   model(prompts, cache);               // [batch, T]; shorter texts are filled up behind
//   cache.set_lengths(lengths);          // so that what they are filled with is never seen
//   Tensor logits = model(ids, cache);   // [batch, 1]: a step
class KeyValueCache : public Module {
public:
  // Throws Error when a size is below 1, or dtype is not floating point.
  explicit KeyValueCache(const KeyValueCacheOptions &options,
                         Location location = Location::current());

  // Where the next tokens of each text stand.
  struct Places {
    Tensor positions; // int64 [batch, T]: in its text
    Tensor mask;      // bool [batch, 1, T, capacity]: what each sees, itself and all before it
    Tensor rows;      // int64 [batch, T, heads]: of the buffers as [batch * heads * capacity, size]
  };
  // Of `count` tokens behind those that the texts have, which count as theirs from now on. One
  // beyond the capacity is an error of the run, after which the texts are what they were before.
  // Throws Error unless 1 <= count <= capacity.
  Places next(int64_t count, Location location = Location::current()) const;
  // Writes the keys and values of these tokens, [batch, heads, T, size], and attends to all that
  // the layer has: query [batch, n * heads, T, size] -> the same. Queries i n to i n + n - 1 share
  // the keys and values of head i. Throws Error for other shapes or dtypes, or no such layer.
  Tensor attend(int64_t layer, const Places &places, const Tensor &query, const Tensor &key,
                const Tensor &value, Location location = Location::current()) const;

  // How many tokens each text has: one number for each of the batch; 0 for all empties the cache.
  // Throws Error for another count of them, or one outside [0, capacity].
  void set_lengths(const std::vector<int64_t> &lengths, Location location = Location::current());
  // int64 [batch].
  const Tensor &lengths() const {
    return lengths_;
  }
  // How many texts it is for.
  int64_t batch() const {
    return options_.batch;
  }
  // How many tokens of a text it has room for.
  int64_t capacity() const {
    return options_.capacity;
  }

private:
  KeyValueCacheOptions options_;
  Parameter lengths_;
  std::vector<Parameter> keys_, values_;
};

} // namespace weft::nn

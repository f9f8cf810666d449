// Random tensors from a counter-based generator (Philox 4x32-10): one stream on every backend and
// thread count.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/tensor.h"

namespace weft {

namespace recorder {
struct GeneratorStreams;
}

// A handle to a stream of random numbers. Its state is a tensor, so that a step that draws from it
// is pure and repeatable. Each device has a stream of its own, all of them from the same seed. One
// that was moved from has no stream: using it throws Error until it is assigned another one.
class Generator {
public:
  explicit Generator(uint64_t seed);
  // Starts the streams of this seed from their beginning.
  void manual_seed(uint64_t seed, Location location = Location::current());
  // From now on what is drawn is part `part` of `parts` equal ones of a draw of all of them, in
  // rows: ranks that hold parts of a batch draw, and drop, what one process does of the whole. But
  // for normal samples: those of parts are others than those of the whole, and so is what is drawn
  // after them unless a part has a multiple of 64 elements. What parameters start from is drawn
  // whole. In a rank that is a thread (run_ranks) it says so of that rank's device alone. Error
  // kValue: there is no such part.
  void set_part(int part, int parts, Location location = Location::current());
  // {key, counter}, int64 [2]: a copy that later draws do not change; for checkpoints.
  Tensor state(Device device = current_device(), Location location = Location::current()) const;
  // Of the stream of the state's device. Errors: not int64 [2].
  void set_state(const Tensor &state, Location location = Location::current());
  // The storage itself, which every draw on the device writes.
  const Tensor &state_storage(Device device = current_device(),
                              Location location = Location::current()) const;

private:
  friend struct recorder::GeneratorStreams;
  std::shared_ptr<recorder::GeneratorStreams> streams_;
};

// The generator that is used where none is given. All threads share it.
Generator &default_generator();
// Seeds the default generator.
void manual_seed(uint64_t seed, Location location = Location::current());

// Uniform over [0, 1), of any floating dtype: float32 samples have 24 random bits, float64 ones 53,
// bfloat16 and float16 ones 8 and 11.
Tensor rand(const Shape &shape, DType dtype = float32, Location location = Location::current());
Tensor rand(const Shape &shape, Generator &generator, DType dtype = float32,
            Location location = Location::current());
// Standard normal, of any floating dtype.
Tensor randn(const Shape &shape, DType dtype = float32, Location location = Location::current());
Tensor randn(const Shape &shape, Generator &generator, DType dtype = float32,
             Location location = Location::current());
// rand() in x's shape and dtype, on its device, and cut as x is.
Tensor rand_like(const Tensor &x, Generator &generator = default_generator(),
                 Location location = Location::current());
// randn(), alike.
Tensor randn_like(const Tensor &x, Generator &generator = default_generator(),
                  Location location = Location::current());
// Uniform over [low, high). What would round to high is the largest number below it. Error: low,
// high or their distance is no finite number of the dtype.
Tensor uniform(const Shape &shape, double low, double high, DType dtype = float32,
               Generator &generator = default_generator(), Location location = Location::current());
// Normal with this mean and standard deviation.
Tensor normal(const Shape &shape, double mean, double deviation, DType dtype = float32,
              Generator &generator = default_generator(), Location location = Location::current());
// Positive, with the mean 1 / rate. Error: rate is not positive.
Tensor exponential(const Shape &shape, double rate = 1, DType dtype = float32,
                   Generator &generator = default_generator(),
                   Location location = Location::current());
// The number of the first success, 1, 2, ..., of trials with probability p, which is in (0, 1].
Tensor geometric(const Shape &shape, double p, DType dtype = float32,
                 Generator &generator = default_generator(),
                 Location location = Location::current());
// Cauchy's distribution around the median; half of it within `scale`.
Tensor cauchy(const Shape &shape, double median = 0, double scale = 1, DType dtype = float32,
              Generator &generator = default_generator(), Location location = Location::current());
// exp of normal(shape, mean, deviation).
Tensor log_normal(const Shape &shape, double mean = 1, double deviation = 2, DType dtype = float32,
                  Generator &generator = default_generator(),
                  Location location = Location::current());
// Laplace's distribution: exponential on both sides of the mean, with the mean distance `scale`.
Tensor laplace(const Shape &shape, double mean = 0, double scale = 1, DType dtype = float32,
               Generator &generator = default_generator(), Location location = Location::current());
// softmax((logits + g) / tau) along dim, where g are samples of Gumbel's distribution: of a
// category with these logits a sample that is smooth in them (Jang et al. 2017). hard: the one-hot
// vector of its largest element, with the derivative of the smooth one.
Tensor gumbel_softmax(const Tensor &logits, double tau = 1, bool hard = false, int64_t dim = -1,
                      Generator &generator = default_generator(),
                      Location location = Location::current());
// Integers of [low, high), int64: each as likely as the others, but for a share of 2^-8 where there
// are 2^64 of them, and of less where there are fewer. Error: high is not above low.
Tensor randint(int64_t low, int64_t high, const Shape &shape,
               Generator &generator = default_generator(), Location location = Location::current());
// Those of [0, high).
Tensor randint(int64_t high, const Shape &shape, Generator &generator = default_generator(),
               Location location = Location::current());
// 1 with probability p, else 0.
Tensor bernoulli(const Shape &shape, double p, DType dtype = float32,
                 Generator &generator = default_generator(),
                 Location location = Location::current());
// The same with a probability for each element, in p's shape and floating dtype. A run fails where
// one is not in [0, 1].
Tensor bernoulli(const Tensor &p, Generator &generator = default_generator(),
                 Location location = Location::current());
// The numbers of categories, int64 [samples] or [rows, samples], drawn with these probabilities,
// floating [n] or [rows, n], which need not add up to 1; without replacement no category twice. A
// run fails where a row has a negative number, no finite positive sum, or without replacement fewer
// positive numbers than samples. Probabilities below 2^-53 of a row's sum do not count.
Tensor multinomial(const Tensor &probabilities, int64_t samples, bool replacement = false,
                   Generator &generator = default_generator(),
                   Location location = Location::current());
// 0 with probability p, else x / (1 - p); x itself unless training (Srivastava et al. 2014).
Tensor dropout(const Tensor &x, double p, bool training = true,
               Generator &generator = default_generator(), Location location = Location::current());

} // namespace weft

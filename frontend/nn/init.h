// Values that parameters start from: new tensors of DTypeScope's dtype, where random drawn from the
// default generator (weft::manual_seed). Those of constants, uniform and normal ones come into
// memory when they are read first: what is loaded or converted before costs nothing.
#pragma once

#include <optional>

#include "weft/random.h"
#include "weft/tensor.h"

namespace weft::nn::init {

// What a weight [out, in, ...] reads and writes a unit: in and out, each times the product of the
// further dims.
struct Fans {
  double in, out;
};
// Throws Error for fewer than 2 dimensions.
Fans fans(const Shape &shape, Location location = Location::current());

// All elements `value`, in memory of its own: recorded constants of one shape would share theirs,
// and the first step that writes them would not be the program of the others.
Tensor constant(const Shape &shape, double value, std::optional<DType> dtype = {},
                Location location = Location::current());
// Uniform over [-bound, bound), drawn in float32 and rounded to a parameter's narrower dtype, which
// may give the bound: as of a model that is converted afterwards.
Tensor uniform(const Shape &shape, double bound, Location location = Location::current());
// Normal, drawn and rounded as uniform() is.
Tensor normal(const Shape &shape, double mean = 0, double deviation = 1,
              Location location = Location::current());
// The same over [low, high).
Tensor uniform(const Shape &shape, double low, double high,
               Location location = Location::current());
// Normal, restricted to [low, high]: each sample is what the inverse of the distribution function
// gives for a uniform one.
Tensor truncated_normal(const Shape &shape, double mean = 0, double deviation = 1, double low = -2,
                        double high = 2, Location location = Location::current());
// Uniform with bound gain * sqrt(6 / (in + out)) (Glorot and Bengio 2010).
Tensor xavier_uniform(const Shape &shape, double gain = 1, Location location = Location::current());
// Normal with deviation gain * sqrt(2 / (in + out)), of the same source.
Tensor xavier_normal(const Shape &shape, double gain = 1, Location location = Location::current());
// Which of the fans keeps its variance: forward, or backward.
enum class Fan { kIn, kOut };
// Uniform with bound sqrt(6 / ((1 + slope^2) * fan)) (He et al. 2015), the fan being kIn. PyTorch's
// layers take slope = sqrt(5), which is a bound of 1 / sqrt(in).
Tensor kaiming_uniform(const Shape &shape, double slope = 0,
                       Location location = Location::current());
Tensor kaiming_uniform(const Shape &shape, double slope, Fan fan,
                       Location location = Location::current());
// Normal with deviation sqrt(2 / ((1 + slope^2) * fan)), of the same source.
Tensor kaiming_normal(const Shape &shape, double slope = 0,
                      Location location = Location::current());
// The same for either fan.
Tensor kaiming_normal(const Shape &shape, double slope, Fan fan,
                      Location location = Location::current());
// gain times a matrix with orthonormal rows or columns, whichever are fewer, uniform among such
// (Saxe et al. 2014): [out, in, ...] is read as [out, the rest].
Tensor orthogonal(const Shape &shape, double gain = 1, Location location = Location::current());

// Writes samples into a tensor, a parameter or a part of one, and returns it: those that uniform()
// gives over [low, high), in the tensor's dtype. As in PyTorch they are no part of a history.
// Error: its dtype is not floating, here and in all that draw.
Tensor uniform_(Tensor tensor, double low = 0, double high = 1,
                Location location = Location::current());
// The same with normal samples.
Tensor normal_(Tensor tensor, double mean = 0, double deviation = 1,
               Location location = Location::current());
// Writes the value into each element, and returns the tensor.
Tensor constant_(Tensor tensor, double value, Location location = Location::current());
// constant_ of 0.
Tensor zeros_(Tensor tensor, Location location = Location::current());
// constant_ of 1.
Tensor ones_(Tensor tensor, Location location = Location::current());
// Writes what truncated_normal() gives for the tensor's shape.
Tensor truncated_normal_(Tensor tensor, double mean = 0, double deviation = 1, double low = -2,
                         double high = 2, Location location = Location::current());
// Writes what xavier_uniform() gives for the tensor's shape.
Tensor xavier_uniform_(Tensor tensor, double gain = 1, Location location = Location::current());
// Writes what xavier_normal() gives for the tensor's shape.
Tensor xavier_normal_(Tensor tensor, double gain = 1, Location location = Location::current());
// Writes what kaiming_uniform() gives for the tensor's shape.
Tensor kaiming_uniform_(Tensor tensor, double slope = 0, Fan fan = Fan::kIn,
                        Location location = Location::current());
// Writes what kaiming_normal() gives for the tensor's shape.
Tensor kaiming_normal_(Tensor tensor, double slope = 0, Fan fan = Fan::kIn,
                       Location location = Location::current());
// Writes what orthogonal() gives for the tensor's shape.
Tensor orthogonal_(Tensor tensor, double gain = 1, Location location = Location::current());

// The value, computed now, in memory of its own, for a parameter to take over (copy_): it would
// share the source's, and as long as that lives a step could not write in place and would be
// another program than later ones.
Tensor copy_of(const Tensor &source, Location location = Location::current());

// Computes new parameters that were recorded now (reason `init`), and the default generator's state
// after them: left to the first step, its advance would make that step a program of its own.
void submit(std::vector<Tensor> tensors, Location location = Location::current());

} // namespace weft::nn::init

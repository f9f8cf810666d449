#include "weft/data/loader.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "runtime/core/ends.h"
#include "weft/data/random.h"
#include "weft/error.h"

namespace weft::data {
namespace {

// This rank's items of any batch, from seed and position alone. Keeps the order of the epoch it was
// last asked about.
class Sampler {
public:
  Sampler(int64_t size, const LoaderOptions &options) : size_(size), options_(options) {
    double sum = 0;
    for (double weight : options_.weights) {
      if (weight > 0)
        last_ = static_cast<int64_t>(sums_.size());
      sums_.push_back(sum += weight);
    }
  }

  int64_t batches() const {
    if (options_.drop_last || size_ == 0)
      return size_ / options_.batch_size;
    return 1 + (size_ - 1) / options_.batch_size; // any batch_size: no sum that could overflow
  }

  std::vector<int64_t> items(const LoaderState &at) {
    std::vector<int64_t> all = items_of_all(at);
    if (options_.ranks == 1)
      return all;
    int64_t rows = static_cast<int64_t>(all.size()) / options_.ranks;
    auto first = all.begin() + options_.rank * rows;
    return {first, first + rows};
  }

private:
  // Of all ranks: as many for each.
  std::vector<int64_t> items_of_all(const LoaderState &at) {
    int64_t first = at.batch * options_.batch_size, ranks = options_.ranks;
    int64_t count = std::min(options_.batch_size, size_ - first);
    std::vector<int64_t> items(static_cast<size_t>((count + ranks - 1) / ranks * ranks));
    if (!sums_.empty()) {
      SplitMix64 generator(derived_seed(derived_seed(at.seed, at.epoch), at.batch));
      // Draws a point of [0, sum of all weights) and takes the first item whose running sum lies
      // above it. An item of weight 0 is never drawn.
      for (int64_t &item : items)
        item = std::min<int64_t>(
            std::upper_bound(sums_.begin(), sums_.end(), generator.uniform() * sums_.back()) -
                sums_.begin(),
            last_);
    } else if (options_.replacement) {
      SplitMix64 generator(derived_seed(derived_seed(at.seed, at.epoch), at.batch));
      for (int64_t &item : items)
        item = static_cast<int64_t>(generator.below(size_));
    } else if (options_.shuffle) {
      shuffle_for(at);
      for (size_t i = 0; i < items.size(); ++i)
        items[i] = order_[(first + i) % order_.size()];
    } else {
      for (size_t i = 0; i < items.size(); ++i)
        items[i] = (first + static_cast<int64_t>(i)) % size_;
    }
    return items;
  }

  void shuffle_for(const LoaderState &at) {
    if (!order_.empty() && seed_ == at.seed && epoch_ == at.epoch)
      return;
    order_.resize(size_);
    std::iota(order_.begin(), order_.end(), 0);
    SplitMix64 generator(derived_seed(at.seed, at.epoch));
    for (int64_t i = size_ - 1; i > 0; --i)
      std::swap(order_[i], order_[generator.below(i + 1)]);
    seed_ = at.seed, epoch_ = at.epoch;
  }

  int64_t size_;
  LoaderOptions options_;
  std::vector<double> sums_; // of the weights up to each item
  int64_t last_ = 0;         // item with a weight: what rounding up to the sum of all means
  std::vector<int64_t> order_;
  uint64_t seed_ = 0;
  int64_t epoch_ = -1;
};

thread_local const Location *asking = nullptr; // the line of the loader that asks a data set

HostBatch ask(const Dataset &dataset, std::span<const int64_t> items, uint64_t seed,
              const Location &made_at) {
  struct Scope {
    explicit Scope(const Location &at) : before(std::exchange(asking, &at)) {}
    ~Scope() {
      asking = before;
    }
    const Location *before;
  } scope(made_at);
  return dataset.fetch_seeded(items, seed);
}

// An array without elements and dims is none.
bool is_left_out(const HostArray &array) {
  return array.shape.empty() && array.bytes.empty();
}

Tensor to_tensor(const HostArray &array) {
  return is_left_out(array)
             ? Tensor()
             : Tensor::from_bytes(array.bytes.data(), array.dtype, array.shape);
}

// What a data set gave for `rows` items: its shape says as much as its bytes hold.
void check(const HostArray &array, const char *what, size_t rows, Location location) {
  int64_t bytes = byte_size(array.dtype);
  for (int64_t dim : array.shape)
    if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes))
      bytes = -1;
  std::string given = std::string("DataLoader: the data set gave the ") + what + " as " +
                      name(array.dtype) + " " + to_string(array.shape);
  if (bytes != static_cast<int64_t>(array.bytes.size()))
    throw Error(ErrorKind::kShape,
                given + ", but " + std::to_string(array.bytes.size()) + " bytes for it", location);
  if (array.shape.empty() || array.shape[0] != static_cast<int64_t>(rows))
    throw Error(ErrorKind::kShape,
                given + ", but was asked for " + std::to_string(rows) +
                    " items: dim 0 counts them",
                location);
}

} // namespace

Location asked_at(Location otherwise) {
  return asking ? *asking : otherwise;
}

static int64_t size_of(const Dataset &dataset, Location location) {
  int64_t size = dataset.size();
  if (size < 0)
    throw Error(ErrorKind::kValue,
                "DataLoader: the data set's size() is " + std::to_string(size) +
                    "; it must not be negative",
                location);
  return size;
}

struct DataLoader::Impl {
  struct Prepared {
    HostBatch batch = {};
    Batch tensors = {}; // of LoaderOptions::device: made ahead
    std::exception_ptr error = nullptr;
  };

  Impl(DatasetPtr data, const LoaderOptions &opts, Location location)
      : dataset(std::move(data)), options(opts), made_at(location),
        sampler(size_of(*dataset, location), opts) {
    position.seed = opts.seed;
  }
  ~Impl() {
    stop();
  }

  LoaderState after(LoaderState at) const {
    if (++at.batch == sampler.batches())
      ++at.epoch, at.batch = 0;
    return at;
  }

  Prepared prepare(const LoaderState &at) {
    try {
      // This seed starts another stream than the sampler's, and than that of any other rank.
      uint64_t seed = derived_seed(derived_seed(~at.seed, at.epoch), at.batch);
      if (options.rank > 0)
        seed = derived_seed(seed, options.rank);
      std::vector<int64_t> items = sampler.items(at);
      Prepared prepared{.batch = ask(*dataset, items, seed, made_at)};
      check(prepared.batch.input, "input", items.size(), made_at);
      if (!is_left_out(prepared.batch.target))
        check(prepared.batch.target, "target", items.size(), made_at);
      if (options.device) {
        prepared.tensors = tensors_of(prepared.batch);
        prepared.batch = {};
      }
      return prepared;
    } catch (...) {
      return {.error = std::current_exception()};
    }
  }

  Batch tensors_of(const HostBatch &batch) const {
    DeviceScope scope(options.device ? *options.device : current_device());
    return {to_tensor(batch.input), to_tensor(batch.target)};
  }

  // Prepares batches from `at` on, until it is told to stop or one fails.
  void work(LoaderState at) {
    for (;; at = after(at)) {
      Prepared prepared = prepare(at);
      bool failed = prepared.error != nullptr;
      std::unique_lock lock(ahead->mutex);
      ahead->queue.push_back(std::move(prepared));
      ahead->changed.notify_all();
      if (failed)
        return;
      ahead->changed.wait(lock, [&] {
        return ahead->stopping || static_cast<int64_t>(ahead->queue.size()) < options.prefetch;
      });
      if (ahead->stopping)
        return;
    }
  }

  // Ends the thread and forgets what it prepared.
  void stop() {
    if (!thread.joinable())
      return;
    if (runtime::is_forked_child())
      return runtime::join(thread);
    {
      std::lock_guard lock(ahead->mutex);
      ahead->stopping = true;
    }
    ahead->changed.notify_all();
    thread.join();
    ahead->queue.clear();
    ahead->stopping = false;
  }

  Prepared take() {
    if (options.prefetch == 0)
      return prepare(position);
    if (runtime::is_forked_child())
      throw Error(ErrorKind::kState,
                  std::string("DataLoader prepares batches ahead on a thread: ") +
                      runtime::why_not_compute());
    if (!thread.joinable()) {
      runtime::expect_forks();
      thread = std::thread([this, at = position] { work(at); });
    }
    std::unique_lock lock(ahead->mutex);
    ahead->changed.wait(lock, [&] { return !ahead->queue.empty(); });
    Prepared prepared = std::move(ahead->queue.front());
    ahead->queue.pop_front();
    ahead->changed.notify_all();
    return prepared;
  }

  DatasetPtr dataset;
  LoaderOptions options;
  Location made_at;     // where errors of the data set stand
  Sampler sampler;      // the thread's, while it runs
  LoaderState position; // of the next batch that is handed out
  bool in_loop = false; // the last batch was a loop's: the next loop is over another epoch

  std::thread thread;
  struct Ahead {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Prepared> queue;
    bool stopping = false;
  };
  std::unique_ptr<Ahead, runtime::DeleteUnlessForked> ahead{new Ahead};
};

DataLoader::DataLoader(DatasetPtr dataset, LoaderOptions options, Location location) {
  if (!dataset)
    throw Error(ErrorKind::kValue, "DataLoader: the data set is null", location);
  if (options.batch_size < 1)
    throw Error(ErrorKind::kValue,
                "DataLoader: batch_size must be at least 1, not " +
                    std::to_string(options.batch_size),
                location);
  if (options.prefetch < 0)
    throw Error(ErrorKind::kValue,
                "DataLoader: prefetch must not be negative, it is " +
                    std::to_string(options.prefetch),
                location);
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks)
    throw Error(ErrorKind::kValue,
                "DataLoader: there is no rank " + std::to_string(options.rank) + " of " +
                    std::to_string(options.ranks),
                location);
  if (options.batch_size % options.ranks != 0)
    throw Error(ErrorKind::kValue,
                "DataLoader: a batch of " + std::to_string(options.batch_size) +
                    " does not divide among " + std::to_string(options.ranks) +
                    " ranks; batch_size is that of all together",
                location);
  if (const std::vector<double> &weights = options.weights; !weights.empty()) {
    if (static_cast<int64_t>(weights.size()) != dataset->size())
      throw Error(ErrorKind::kValue,
                  "DataLoader: there are " + std::to_string(weights.size()) + " weights for " +
                      std::to_string(dataset->size()) + " items",
                  location);
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (!(weights[i] >= 0) || !std::isfinite(weights[i]))
        throw Error(ErrorKind::kValue,
                    "DataLoader: weight " + std::to_string(i) + " is " +
                        std::to_string(weights[i]) + "; it must be finite and not negative",
                    location);
      sum += weights[i];
    }
    if (!(sum > 0) || !std::isfinite(sum))
      throw Error(ErrorKind::kValue,
                  "DataLoader: the weights add up to " + std::to_string(sum) +
                      "; one must be above 0",
                  location);
  }
  impl_ = std::make_unique<Impl>(std::move(dataset), options, location);
  if (impl_->sampler.batches() == 0)
    throw Error(ErrorKind::kValue,
                "DataLoader: no batch of " + std::to_string(options.batch_size) +
                    " in a data set of " + std::to_string(impl_->dataset->size()) + " items" +
                    (options.drop_last ? "; pass a smaller batch_size or drop_last = false" : ""),
                location);
}
DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader &&) noexcept = default;
DataLoader &DataLoader::operator=(DataLoader &&) noexcept = default;

DataLoader::Impl &DataLoader::held(const char *call, Location location) const {
  return recorder::held(impl_, call, "loader", location);
}

int64_t DataLoader::batches(Location location) const {
  return held("batches", location).sampler.batches();
}

Batch DataLoader::next(Location location) {
  return take(/*in_loop=*/false, location);
}

Batch DataLoader::take(bool in_loop, Location location) {
  Impl &impl = held("next", location);
  Impl::Prepared prepared = impl.take();
  if (prepared.error) {
    impl.stop(); // its thread has ended; a later call starts over at the same position
    std::rethrow_exception(prepared.error);
  }
  Batch batch = impl.options.device ? prepared.tensors : impl.tensors_of(prepared.batch);
  impl.position = impl.after(impl.position);
  impl.in_loop = in_loop;
  return batch;
}

LoaderState DataLoader::state(Location location) const {
  return held("state", location).position;
}

void DataLoader::restore(const LoaderState &state, Location location) {
  Impl &impl = held("restore", location);
  const int64_t batches = impl.sampler.batches();
  if (state.epoch < 0 || state.batch < 0 || state.batch >= batches)
    throw Error(ErrorKind::kValue,
                "DataLoader::restore: there is no batch " + std::to_string(state.batch) +
                    " of epoch " + std::to_string(state.epoch) + "; an epoch has " +
                    std::to_string(batches) + " batches",
                location);
  impl.stop();
  impl.position = state;
  impl.in_loop = false;
}

DataLoader::Iterator DataLoader::begin(Location location) {
  Impl &impl = held("begin", location);
  if (impl.in_loop && impl.position.batch != 0) { // a loop was left early
    impl.stop();
    ++impl.position.epoch;
    impl.position.batch = 0;
  }
  return Iterator(this, impl.position.epoch, location);
}

Batch &DataLoader::Iterator::operator*() {
  if (!batch_)
    batch_ = loader_->take(/*in_loop=*/true, location_);
  return *batch_;
}

DataLoader::Iterator &DataLoader::Iterator::operator++() {
  if (!batch_)
    loader_->take(/*in_loop=*/true, location_); // an element that was skipped is still consumed
  batch_.reset();
  return *this;
}

bool DataLoader::Iterator::operator==(std::default_sentinel_t) const {
  // Where the last batch was handed out the loader stands in the next epoch, the iterator at it.
  return !batch_ && loader_->state(location_).epoch != epoch_;
}

} // namespace weft::data

// Batches of a data set: in order, shuffled or drawn at random, prepared ahead on a thread, and
// resumable at any batch.
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "weft/data/dataset.h"
#include "weft/tensor.h"

namespace weft::data {

struct LoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false; // a new order every epoch, each item once
  bool replacement =
      false; // every item drawn independently and uniformly; takes precedence over `shuffle`
  // As `replacement`, each item as often as its weight says; one for each item, not all 0. Empty:
  // all alike.
  std::vector<double> weights = {};
  bool drop_last = false; // leave out the last batch of an epoch when it is not full
  uint64_t seed = 0;      // of shuffling and drawing; nothing else in the process influences them
  int64_t prefetch =
      2; // batches prepared ahead by one thread; 0: no thread, a batch is made when asked for
  // Of several ranks that share each batch: this one gets part `rank` of `ranks` equal ones, in
  // rows, of what a loader without ranks hands out; batch_size is that of all together. A last
  // batch that does not divide is filled up from the start of its epoch's order. The position is
  // the batch's, so that a loader of another number of ranks goes on from it.
  int rank = 0, ranks = 1;
  // Where batches lie: they are brought there ahead, by the thread that prepares them. Nothing: the
  // device of the thread that asks, when it asks.
  std::optional<Device> device = {};
};

// Where a loader stands. The order of an epoch depends on seed and epoch alone, so this is all
// there is to store.
struct LoaderState {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t batch = 0; // the next one, within the epoch
  bool operator==(const LoaderState &) const = default;
};

// What the loader hands out.
struct Batch {
  // dim 0 is the batch; the last batch of an epoch may be smaller (without drop_last). The target
  // is undefined where the data set left it out.
  Tensor input, target;
};

// Not safe for use by several threads at once. Its own thread ends with it, whatever batches are
// still under way. One that was moved from throws Error until it is assigned another one.
class DataLoader {
public:
  // Throws Error when batch_size, prefetch, rank or a weight is out of range, batch_size does not
  // divide among the ranks, or an epoch would hold no batch.
  DataLoader(DatasetPtr dataset, LoaderOptions options, Location location = Location::current());
  // Takes a data set by value: DataLoader(TextDataset(ids, 128), {...}).
  template <typename D>
    requires std::derived_from<D, Dataset>
  DataLoader(D dataset, LoaderOptions options, Location location = Location::current())
      : DataLoader(std::make_shared<const D>(std::move(dataset)), options, location) {}
  ~DataLoader();
  DataLoader(DataLoader &&) noexcept;
  DataLoader &operator=(DataLoader &&) noexcept;

  // How many batches an epoch has.
  int64_t batches(Location location = Location::current()) const;

  // The next batch of an endless sequence of epochs. Rethrows what Dataset::fetch threw; the same
  // batch is tried again next time. Error, at the loader's line: the data set gave an array whose
  // shape is not that of its bytes, or of another number of items.
  Batch next(Location location = Location::current());

  // The position after the batches that were handed out so far, however many are prepared.
  LoaderState state(Location location = Location::current()) const;

  // Continues where another loader over the same data with the same options stood. Throws Error
  // when the position does not exist.
  void restore(const LoaderState &state, Location location = Location::current());

  // One epoch: `for (auto &[input, target] : loader)`. Directly after a loop that was left early
  // the next one is over a new epoch; after restore() or next() a loop runs the rest of their
  // epoch.
  class Iterator {
  public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    // The same batch until ++, after which the reference is none.
    Batch &operator*();
    Iterator &operator++();
    void operator++(int) {
      ++*this;
    }
    bool operator==(std::default_sentinel_t) const;

  private:
    friend class DataLoader;
    Iterator(DataLoader *loader, int64_t epoch, Location location)
        : loader_(loader), epoch_(epoch), location_(location) {}
    DataLoader *loader_;
    int64_t epoch_;
    Location location_; // of the loop
    std::optional<Batch> batch_ = {}; // the current one, once it was asked for
  };
  // The start of a loop over an epoch.
  Iterator begin(Location location = Location::current());
  // The end that every such loop has.
  std::default_sentinel_t end() const {
    return {};
  }

private:
  struct Impl;
  // in_loop: for a loop over the epoch.
  Batch take(bool in_loop, Location location);
  Impl &held(const char *call, Location location) const;
  std::unique_ptr<Impl> impl_;
};

} // namespace weft::data

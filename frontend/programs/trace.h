// Records a function apart from the rest: what it reads, what it writes, what it returns.
#pragma once

#include <unordered_map>

#include "frontend/recorder/slices/slice.h"
#include "frontend/tensor/impl.h"
#include "weft/jit.h"

namespace weft::recorder {

// A storage from before the recording that the function touched. A leaf of its own stands in for
// what it held: two storages may share a value at this call, and not at a later one.
struct TouchedStorage {
  Tensor tensor; // keeps the storage
  ValueRef stand_in;
  bool requires_grad = false;
  GradRef gradient_of; // the leaf whose gradient the storage is, if the function asked that leaf
  Var written;         // the storage's new value; null where it was only read
};

// A leaf from before the recording whose gradient the function asked for, made or dropped.
struct TouchedGradient {
  enum class After : uint8_t { kSame, kNone, kNew };

  GradRef leaf;
  After after = After::kSame;
  Var value; // of a new gradient
};

// State of a C++ object that the function changed, or went by.
struct TouchedState {
  std::shared_ptr<HostState> state;
  HostState before, after;
  bool is_read = false; // the recording is right only where the state is `before`
  bool is_set = false;  // all of it was written

  bool is_changed() const {
    return after != before || (is_set && !is_read);
  }
};

// What one recording of a function gives. All values are still recorded ops, which only this
// recording may use; nothing was written for good.
struct Recording {
  Recording() = default;
  Recording(Recording &&other) noexcept = default;
  Recording &operator=(Recording &&) = delete;
  ~Recording();

  // Sets has_history where `grad`, which is not `known`, can be differentiated.
  void note_history(const GradRef &grad, const GradNode *known = nullptr);

  std::vector<Var> placeholders;      // stand for the arguments
  std::vector<Var> written_arguments; // new values; null where the argument was only read
  std::vector<Var> outputs;           // what the function returned; null for undefined tensors
  std::vector<TouchedStorage> storages;
  std::vector<TouchedGradient> gradients;
  std::unordered_map<Value *, size_t> storage_of; // by the leaf that stands in for it
  // A result, or what was written, has a history: a plain call would leave it behind, a program
  // does not.
  bool has_history = false;
  // The function asks for an argument's gradient, which a placeholder does not have, or says what
  // is done with it: it adds a hook, or freezes the argument.
  bool reads_argument_gradient = false;
  bool changes_leaves = false;      // set_requires_grad() of tensors from outside
  std::vector<TouchedState> states; // read_state(), write_state()
  std::shared_ptr<const void> result_shape;
  Slice slice; // of everything above
  // Empty, or why the slice is no program of one device's.
  std::string several_devices;
  // Of the slice; of one without ops, that of what it hands on.
  uint8_t device() const {
    if (!slice.nodes.empty())
      return slice.device;
    for (const Var &output : outputs)
      if (output)
        return output.device();
    return 0;
  }
  struct Tracer {
    uint32_t number = 0; // Node::tracer of its ops; 0 when it was moved from
    Tracer() = default;
    Tracer(Tracer &&other) noexcept : number(std::exchange(other.number, 0)) {}
  } tracer;
  uint64_t first = 0; // Node::number: its ops have this one or a higher one
};

// What stands for an argument while the function is recorded.
struct ArgumentType {
  TypeRef type;
  bool requires_grad = false; // as a leaf
  bool operator==(const ArgumentType &other) const = default;
};

// `what` is "jit" or "trace". many_sizes: as Trace has it.
Recording record(const char *what, const ErasedFunction &function,
                 const std::vector<ArgumentType> &arguments, Location location,
                 bool many_sizes = false);

// For a thread that met what another one's recording writes: gives the recorder's lock up until
// some recording, or a claim, has ended.
void wait_for_a_recording(Location location);

} // namespace weft::recorder

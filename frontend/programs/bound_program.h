// A program that stands for calls of a recorded function: where its arguments come from at each
// call, and where its results go.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontend/programs/trace.h"
#include "frontend/recorder/programs/find_program.h"
#include "frontend/recorder/runs/evaluation.h"
#include "weft/explain.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace weft::recorder {

// Where an argument of the program comes from.
struct Source {
  enum class Kind : uint8_t {
    kArgument, // of the call
    kStorage,  // from before the recording: read again at each call
    kGradient, // what the leaf has then
    kConstant, // made by the function
  };
  Kind kind = Kind::kConstant;
  uint32_t argument = 0;
  Tensor storage; // of kStorage
  GradRef leaf;   // of kGradient
  Var constant;
  bool written = false; // the program may take its memory for the new value
};

// Where a result of the program goes; each may go to several places.
struct Target {
  TypeRef type;
  std::vector<uint32_t> outputs;      // results of the call
  std::vector<uint32_t> arguments;    // written in place
  std::vector<Tensor> storages;       // written in place
  std::vector<GradRef> gradients;     // written in place
  std::vector<GradRef> new_gradients; // the leaf gets another tensor
};

// Its program is null where nothing is computed.
struct BoundProgram : FoundProgram {
  std::vector<Source> sources;
  std::vector<Target> targets;
  // What an argument of the program holds goes there unchanged.
  std::vector<std::pair<Source, Target>> passed;
  std::vector<GradRef> dropped_gradients;
  std::vector<TouchedState> states; // those that a call changes
  uint32_t outputs = 0;             // results of the call
};

// Without a program: where the arguments of the recording's slice come from, and where its results
// go.
BoundProgram bind_recording(const Recording &recording);

// What another recording of the same ops reads otherwise: another number or other data that the
// function made, another captured tensor. Empty: nothing.
std::string difference(const BoundProgram &then, const BoundProgram &now, Location location);

// A storage that the program writes is, in this call, also an argument that it takes for something
// else, so that the program is not what the function would do. Arguments that are slices of one
// storage, and share no element, are several storages in that sense. So it is where the program
// writes what from_blob made, which the function would refuse.
bool has_aliases(const BoundProgram &bound, const std::vector<Tensor> &arguments);

// One call, under the recorder's lock. To other threads it is one step: what it reads is of one
// moment, and what it writes, states of C++ objects included, is written at that moment, so that no
// write of theirs comes between. The results are tensors of their own: one that is an argument or a
// captured tensor, unchanged, shares its value, not its storage.
// fits: asked whenever the lock was given up on the way, before all is read again: whether this is
// still the program for the call. Nothing where it is not.
std::optional<std::vector<Tensor>> call(BoundProgram &bound, const std::vector<Tensor> &arguments,
                                        Location location, llvm::function_ref<bool()> fits);

} // namespace weft::recorder

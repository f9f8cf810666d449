// How many steps each parameter took part in. Private to this folder.
#pragma once

#include <optional>
#include <vector>

#include "weft/jit.h"
#include "weft/tensor.h"

namespace weft::optim {

// As PyTorch counts: a parameter without a gradient (frozen, or not reached by the loss) is no
// older after the step, so that moments that begin later are corrected as those of a first step.
// Parameters of one history share a count, a float64 [], so that a model all of which is trained
// has one, and what depends on it is computed once a step.
//
// Which parameters share is state of this object, and not of tensors: recordings of a step go by it
// and change it (weft/jit.h).
class StepCounts {
public:
  // `shared` is the count of all at the start, 0.
  StepCounts(size_t parameters, const Tensor &shared);

  // Records a step of the parameters i with taking[i]. The others part from those that they shared
  // a count with. finite: a bool [] that is false where the step is not taken, which then counts
  // for nobody; null: it is.
  void advance(const std::vector<bool> &taking, const Tensor *finite = nullptr);
  // Who shares a count: to go back to, where a step was not taken after all.
  const std::vector<size_t> &slots() const {
    return *slots_;
  }
  void set_slots(const std::vector<size_t> &slots) {
    *slots_ = slots;
  }
  // Which count is parameter i's: parameters of one slot share it. `shared` is slot 0's.
  size_t slot(size_t i) const {
    return (*slots_)[i];
  }
  const Tensor &count(size_t slot) const {
    return counts_[slot];
  }
  // The counts that parameters have, and those that they parted from in the last advance().
  std::vector<Tensor> tensors() const;

  // Takes values over, by parameter where one has a count of its own; `shared` is what slot 0 has.
  // Returns what was written.
  std::vector<Tensor> load(double shared, const std::vector<std::optional<double>> &own,
                           Location location);

private:
  std::shared_ptr<recorder::HostState> slots_;   // by parameter
  std::vector<Tensor> counts_;                   // by slot: one more than parameters, so that one
                                                 // is always free
  std::shared_ptr<recorder::HostState> stepped_; // by slot: 1 where it is not known to be 0
};

} // namespace weft::optim

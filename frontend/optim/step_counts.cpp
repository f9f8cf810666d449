#include "weft/optim/step_counts.h"

#include <algorithm>
#include <map>

#include "weft/nn/init.h"

namespace weft::optim {

StepCounts::StepCounts(size_t parameters, const Tensor &shared)
    : slots_(std::make_shared<recorder::HostState>(parameters, 0)), counts_{shared},
      stepped_(std::make_shared<recorder::HostState>(parameters + 1, 0)) {
  DeviceScope scope(shared.device());
  // Made now: a tensor that is made while weft::jit records would be a constant of that program.
  for (size_t i = 0; i < parameters; ++i)
    counts_.push_back(nn::init::constant({}, 0, float64));
}

void StepCounts::advance(const std::vector<bool> &taking, const Tensor *finite) {
  recorder::read_state(slots_);
  recorder::write_state(stepped_);
  recorder::HostState &slots = *slots_, &stepped = *stepped_;
  std::vector<size_t> takers(counts_.size()), absent(counts_.size());
  for (size_t i = 0; i < slots.size(); ++i)
    ++(taking[i] ? takers : absent)[slots[i]];

  size_t free = 0;
  std::vector<size_t> target(counts_.size());
  for (size_t slot = 0; slot < counts_.size(); ++slot) {
    target[slot] = slot;
    if (takers[slot] == 0 || absent[slot] == 0)
      continue;
    while (takers[free] + absent[free] != 0)
      ++free;
    target[slot] = free;
    recorder::read_state(stepped_);
    // Two counts of 0 need no copy: a model part of which is frozen from the start records none.
    if (stepped[slot] || stepped[free])
      recorder::before_program([&] { counts_[free].copy_(counts_[slot]); });
    stepped[free] |= stepped[slot];
    ++free;
  }
  for (size_t i = 0; i < slots.size(); ++i)
    if (!taking[i])
      slots[i] = target[slots[i]];
  for (size_t slot = 0; slot < counts_.size(); ++slot)
    if (takers[slot] != 0) {
      if (finite)
        counts_[slot] += finite->to(counts_[slot].device()).to(float64);
      else
        counts_[slot] += 1.0;
      stepped[slot] = 1;
    }
}

std::vector<Tensor> StepCounts::tensors() const {
  std::vector<bool> used(counts_.size());
  for (size_t slot : *slots_)
    used[slot] = true;
  std::vector<Tensor> tensors;
  for (size_t slot = 0; slot < counts_.size(); ++slot)
    if (used[slot])
      tensors.push_back(counts_[slot]);
  return tensors;
}

std::vector<Tensor> StepCounts::load(double shared, const std::vector<std::optional<double>> &own,
                                     Location location) {
  std::map<double, size_t> slot_of{{shared, 0}};
  recorder::write_state(slots_);
  recorder::write_state(stepped_);
  for (size_t i = 0; i < own.size(); ++i)
    (*slots_)[i] = own[i] ? slot_of.emplace(*own[i], slot_of.size()).first->second : 0;
  std::vector<Tensor> written;
  for (auto [value, slot] : slot_of) {
    (*stepped_)[slot] |= value != 0;
    if (slot == 0)
      continue;
    counts_[slot].copy_(nn::init::constant({}, value, float64, location), location);
    written.push_back(counts_[slot]);
  }
  return written;
}

} // namespace weft::optim

// The implementation of weft_model.h.
#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/abi/read_struct.h"
#include "runtime/aot/entry.h"
#include "runtime/aot/overlap.h"
#include "runtime/aot/weft_model.h"
#include "runtime/core/status.h"
#include "runtime/core/thrown.h"
#include "runtime/executable/run_failure.h"
#include "runtime/executor/device.h"

using namespace weft;
using namespace weft::runtime;

namespace {

thread_local std::string last_error;

int32_t fail(const absl::Status &status) {
  last_error = std::string(status.message());
  return 1;
}

// What a function gives that was given no model: nothing, and the error.
template <typename Result> Result without_model(const char *function, Result nothing) {
  fail(absl::InvalidArgumentError(absl::StrCat(function, " was given no model")));
  return nothing;
}

// The callers are C: of what a function throws they get the text (no memory, a user's kernel).
template <typename Body> int32_t done(Body body) {
  try {
    absl::Status status = body();
    return status.ok() ? 0 : fail(status);
  } catch (...) {
    try {
      return fail(absl::InternalError("the call " + thrown_text()));
    } catch (...) {
      last_error = "no memory"; // needs none
      return 1;
    }
  }
}

absl::Status check_pointers(const std::vector<weft_tensor_info> &infos, const void *const *pointers,
                            const char *what) {
  for (size_t i = 0; i < infos.size(); ++i) {
    if (infos[i].bytes == 0)
      continue;
    if (pointers == nullptr || pointers[i] == nullptr)
      return absl::InvalidArgumentError(absl::StrCat(what, " ", i, " is NULL"));
    if (!is_aligned(pointers[i], infos[i].dtype))
      return absl::InvalidArgumentError(
          absl::StrCat(what, " ", i, " is not aligned to its elements of ",
                       byte_size(static_cast<DType>(infos[i].dtype)), " bytes"));
  }
  return absl::OkStatus();
}

// One run: what the caller gives and what is held become a program's inputs; its outputs become the
// caller's, or new values of what is held.
class Run {
public:
  Run(weft_model &entry, SizedProgram &sized, const void *const *inputs, void *const *outputs)
      : entry_(entry), sized_(sized), held_(entry.shared->held),
        specs_(sized.executable->output_specs()), in_(entry.reads.size()), out_(specs_.size()),
        beside_(specs_.size()), targets_(specs_.size()) {
    size_t given = 0;
    // Programs only read inputs that are not donated, which those of the caller never are.
    for (size_t i = 0; i < in_.size(); ++i)
      in_[i] = entry.reads[i] == kCaller ? borrow(const_cast<void *>(inputs[given++]),
                                                  sized.executable->input_specs()[i].bytes)
                                         : held_.buffer(static_cast<size_t>(entry.reads[i]));
    size_t taken = 0;
    for (size_t i = 0; i < out_.size(); ++i) {
      if (entry.writes[i] == kCaller)
        targets_[i] = outputs[taken++];
      out_[i] = place_of(i);
    }
  }
  ~Run() {
    for (std::shared_ptr<Buffer> &spare : beside_)
      if (spare)
        held_.give_back(std::move(spare));
  }

  absl::Status run() {
    auto work = [&](const RunContext &) {
      return sized_.executable->run(sized_.context, *sized_.resources, in_, out_);
    };
    absl::Status status;
    try {
      // Threads and libraries belong to the executor; the rest runs here.
      status =
          sized_.executable->is_serial() ? work(sized_.context) : cpu_device().executor().run(work);
      if (status.ok())
        hand_over();
    } catch (...) { // half of what is held may be written
      status = absl::InternalError("the run " + thrown_text());
    }
    if (!status.ok() && writes_state_ && !has_kept_inputs(status))
      held_.lose(status);
    return status;
  }

private:
  Buffer *borrow(void *data, int64_t bytes) {
    buffers_.push_back(Buffer::borrow(data, bytes, nullptr));
    return buffers_.back().get();
  }

  Buffer *place_of(size_t i) {
    const OutputSpec &spec = specs_[i];
    bool is_held = entry_.writes[i] != kCaller;
    writes_state_ = writes_state_ || is_held;
    if (is_held && spec.donated_input == -1)
      beside_[i] = held_.take(spec.bytes);
    if (spec.donated_input != -1) {
      Buffer *&input = in_[static_cast<size_t>(spec.donated_input)];
      if (is_held)
        return input;
      // The output is made in the input's place: start from a copy where the caller wants it.
      if (spec.bytes > 0)
        std::memcpy(targets_[i], input->data(), static_cast<size_t>(spec.bytes));
      return input = borrow(targets_[i], spec.bytes);
    }
    if (spec.alias_input != -1)
      return in_[static_cast<size_t>(spec.alias_input)];
    if (spec.alias_output != -1)
      return out_[static_cast<size_t>(spec.alias_output)];
    return is_held ? beside_[i].get() : borrow(targets_[i], spec.bytes);
  }

  // Copies what an output only refers to, before any value is replaced; then replaces them all.
  void hand_over() {
    std::vector<std::pair<size_t, std::shared_ptr<Buffer>>> values;
    for (size_t i = 0; i < out_.size(); ++i) {
      void *target = beside_[i] ? beside_[i]->data() : targets_[i];
      if (specs_[i].bytes > 0 && target != nullptr && out_[i]->data() != target)
        std::memcpy(target, out_[i]->data(), static_cast<size_t>(specs_[i].bytes));
      if (entry_.writes[i] == kCaller)
        continue;
      int32_t donor = specs_[i].donated_input == -1
                          ? kCaller
                          : entry_.reads[static_cast<size_t>(specs_[i].donated_input)];
      values.emplace_back(entry_.writes[i], donor == kCaller
                                                ? std::move(beside_[i])
                                                : held_.share(static_cast<size_t>(donor)));
    }
    held_.exchange(std::move(values));
  }

  weft_model &entry_;
  SizedProgram &sized_;
  HeldTensors &held_;
  std::span<const OutputSpec> specs_;
  std::vector<std::shared_ptr<Buffer>> buffers_; // the caller's memory
  std::vector<Buffer *> in_, out_;
  std::vector<std::shared_ptr<Buffer>> beside_; // by output: where its new value is written
  std::vector<void *> targets_;                 // by output: the caller's
  bool writes_state_ = false;
};

// Of a run at this size.
absl::Status check_apart(const weft_model &entry, const SizedProgram &sized,
                         const void *const *inputs, void *const *outputs) {
  std::vector<GivenMemory> given;
  std::span<const InputSpec> in = sized.executable->input_specs();
  std::span<const OutputSpec> out = sized.executable->output_specs();
  given.reserve(in.size() + out.size());
  for (size_t i = 0, number = 0; i < in.size(); ++i)
    if (entry.reads[i] == kCaller) {
      given.push_back({static_cast<const char *>(inputs[number]), in[i].bytes, false, number});
      ++number;
    }
  for (size_t i = 0, number = 0; i < out.size(); ++i)
    if (entry.writes[i] == kCaller) {
      given.push_back({static_cast<const char *>(outputs[number]), out[i].bytes, true, number});
      ++number;
    }
  return check_apart(std::move(given));
}

absl::Status run(weft_model &entry, const int64_t *const *dims, const void *const *inputs,
                 void *const *outputs) {
  WEFT_RETURN_IF_ERROR(check_pointers(entry.input_infos, inputs, "input"));
  WEFT_RETURN_IF_ERROR(check_pointers(entry.output_infos, outputs, "output"));
  WEFT_ASSIGN_OR_RETURN(int64_t size, size_of(entry, dims));
  std::lock_guard lock(entry.shared->mutex);
  WEFT_RETURN_IF_ERROR(entry.shared->held.check());
  WEFT_ASSIGN_OR_RETURN(SizedProgram * sized, at_size(entry, size));
  WEFT_RETURN_IF_ERROR(check_apart(entry, *sized, inputs, outputs));
  return Run(entry, *sized, inputs, outputs).run();
}

absl::Status output_dims(weft_model &entry, const int64_t *const *dims, int32_t index,
                         int64_t *result) {
  if (index < 0 || static_cast<size_t>(index) >= entry.output_infos.size() || result == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("there is no output ", index,
                                                   ", or its dims are "
                                                   "to go to NULL"));
  WEFT_ASSIGN_OR_RETURN(int64_t size, size_of(entry, dims));
  std::lock_guard lock(entry.shared->mutex);
  WEFT_ASSIGN_OR_RETURN(SizedProgram * sized, at_size(entry, size));
  std::span<const OutputSpec> specs = sized->executable->output_specs();
  for (size_t i = 0; i < specs.size(); ++i)
    if (entry.writes[i] == kCaller && index-- == 0)
      std::ranges::copy(specs[i].dims, result);
  return absl::OkStatus();
}

// Calls copy(value of the state, its bytes) with the model's lock.
template <typename Copy>
int32_t with_state(const weft_model *model, const char *name, const void *data, uint64_t bytes,
                   Copy copy) {
  return done([&]() -> absl::Status {
    if (model == nullptr || name == nullptr)
      return absl::InvalidArgumentError("a state of a model was asked for by NULL");
    std::lock_guard lock(model->shared->mutex);
    const HeldTensors &held = model->shared->held;
    WEFT_RETURN_IF_ERROR(held.check());
    WEFT_ASSIGN_OR_RETURN(size_t index, held.find_state(name));
    const weft_tensor_info &info = held.info(index);
    if (static_cast<uint64_t>(info.bytes) != bytes)
      return absl::InvalidArgumentError(absl::StrCat("the state '", name, "' is ", show(info),
                                                     ", which takes ", info.bytes, " bytes, not ",
                                                     bytes));
    if (bytes == 0)
      return absl::OkStatus();
    if (data == nullptr)
      return absl::InvalidArgumentError(absl::StrCat("the value of '", name, "' is NULL"));
    copy(held.buffer(index)->data(), static_cast<size_t>(bytes));
    return absl::OkStatus();
  });
}

} // namespace

extern "C" {

int32_t weft_model_open(const weft_model_code *code, const weft_model_options *options,
                        weft_model **model) {
  if (code == nullptr || model == nullptr)
    return fail(absl::InvalidArgumentError("weft_model_open was given NULL"));
  *model = nullptr;
  return done([&]() -> absl::Status {
    absl::StatusOr<weft_model_options> all = weft_model_options{};
    if (options != nullptr)
      all = read_struct(*options, offsetof(weft_model_options, weights) + sizeof options->weights,
                        "options");
    WEFT_RETURN_IF_ERROR(all.status());
    auto opened = std::make_unique<SharedModel>();
    WEFT_RETURN_IF_ERROR(open_entries(*code, *all, *opened));
    *model = opened.release()->entries.front().get();
    return absl::OkStatus();
  });
}

void weft_model_close(weft_model *model) {
  if (model == nullptr)
    return;
  const weft_model *opened = model->shared->entries.front().get();
  if (model != opened)
    fail(absl::InvalidArgumentError(
        absl::StrCat("weft_model_close was given the entry '", model->name, "' of the model '",
                     model->shared->name, "'; close what weft_model_open() gave")));
  else
    delete model->shared;
}

weft_model *weft_model_entry(weft_model *model, const char *name) {
  if (model == nullptr || name == nullptr) {
    fail(absl::InvalidArgumentError("weft_model_entry was given NULL"));
    return nullptr;
  }
  for (const std::unique_ptr<weft_model> &entry : model->shared->entries)
    if (entry->name == name)
      return entry.get();
  done([&] {
    auto name_of = [](std::string *text, const std::unique_ptr<weft_model> &entry) {
      text->append(entry->name);
    };
    return absl::NotFoundError(absl::StrCat("the model '", model->shared->name, "' has no entry '",
                                            name, "'; it has ",
                                            absl::StrJoin(model->shared->entries, ", ", name_of)));
  });
  return nullptr;
}

int32_t weft_model_entry_count(const weft_model *model) {
  if (model == nullptr)
    return without_model("weft_model_entry_count", 0);
  return static_cast<int32_t>(model->shared->entries.size());
}
const char *weft_model_entry_name(const weft_model *model, int32_t index) {
  if (model == nullptr)
    return without_model<const char *>("weft_model_entry_name", nullptr);
  return index < 0 || index >= weft_model_entry_count(model)
             ? nullptr
             : model->shared->entries[static_cast<size_t>(index)]->name.c_str();
}

int32_t weft_model_input_count(const weft_model *model) {
  if (model == nullptr)
    return without_model("weft_model_input_count", 0);
  return static_cast<int32_t>(model->input_infos.size());
}
int32_t weft_model_output_count(const weft_model *model) {
  if (model == nullptr)
    return without_model("weft_model_output_count", 0);
  return static_cast<int32_t>(model->output_infos.size());
}

const weft_tensor_info *weft_model_input(const weft_model *model, int32_t index) {
  if (model == nullptr)
    return without_model<const weft_tensor_info *>("weft_model_input", nullptr);
  return index < 0 || index >= weft_model_input_count(model)
             ? nullptr
             : &model->input_infos[static_cast<size_t>(index)];
}
const weft_tensor_info *weft_model_output(const weft_model *model, int32_t index) {
  if (model == nullptr)
    return without_model<const weft_tensor_info *>("weft_model_output", nullptr);
  return index < 0 || index >= weft_model_output_count(model)
             ? nullptr
             : &model->output_infos[static_cast<size_t>(index)];
}

int32_t weft_model_run(weft_model *model, const void *const *inputs, void *const *outputs) {
  if (model == nullptr)
    return fail(absl::InvalidArgumentError("weft_model_run was given no model"));
  if (model->programs.varies())
    return fail(absl::InvalidArgumentError(
        absl::StrCat("the entry '", model->name, "' takes a ", model->programs.name, " from ",
                     model->programs.low(), " to ", model->programs.high(),
                     ": run it with weft_model_run_sized(), which is given the shapes")));
  return done([&] { return run(*model, nullptr, inputs, outputs); });
}
int32_t weft_model_run_sized(weft_model *model, const int64_t *const *dims,
                             const void *const *inputs, void *const *outputs) {
  if (model == nullptr)
    return fail(absl::InvalidArgumentError("weft_model_run_sized was given no model"));
  return done([&] { return run(*model, dims, inputs, outputs); });
}
int32_t weft_model_output_dims(weft_model *model, const int64_t *const *dims, int32_t index,
                               int64_t *output_dims) {
  if (model == nullptr)
    return fail(absl::InvalidArgumentError("weft_model_output_dims was given no model"));
  return done([&] { return ::output_dims(*model, dims, index, output_dims); });
}

int32_t weft_model_state_count(const weft_model *model) {
  if (model == nullptr)
    return without_model("weft_model_state_count", 0);
  return static_cast<int32_t>(model->shared->held.state().size());
}
const weft_tensor_info *weft_model_state(const weft_model *model, int32_t index) {
  if (model == nullptr)
    return without_model<const weft_tensor_info *>("weft_model_state", nullptr);
  const HeldTensors &held = model->shared->held;
  return index < 0 || index >= weft_model_state_count(model)
             ? nullptr
             : &held.info(held.state()[static_cast<size_t>(index)]);
}

int32_t weft_model_get_state(const weft_model *model, const char *name, void *data,
                             uint64_t bytes) {
  return with_state(model, name, data, bytes,
                    [&](const void *value, size_t size) { std::memcpy(data, value, size); });
}
int32_t weft_model_set_state(weft_model *model, const char *name, const void *data,
                             uint64_t bytes) {
  return with_state(model, name, data, bytes,
                    [&](void *value, size_t size) { std::memcpy(value, data, size); });
}

int32_t weft_model_save_state(const weft_model *model, const char *path) {
  if (model == nullptr || path == nullptr)
    return fail(absl::InvalidArgumentError("weft_model_save_state was given NULL"));
  std::lock_guard lock(model->shared->mutex);
  return done([&] { return model->shared->held.save(path); });
}
int32_t weft_model_load_state(weft_model *model, const char *path) {
  if (model == nullptr || path == nullptr)
    return fail(absl::InvalidArgumentError("weft_model_load_state was given NULL"));
  std::lock_guard lock(model->shared->mutex);
  return done([&] { return model->shared->held.load(path); });
}

const char *weft_model_error(void) {
  return last_error.c_str();
}

} // extern "C"

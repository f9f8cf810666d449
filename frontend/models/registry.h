// The models of this library by name, each with its default config and what it takes: for tools,
// tests and benchmarks that go over all of them. A record stands beside its model, and nowhere else
// is there a list.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "weft/jit.h"
#include "weft/nn/module.h"

namespace weft::models {

// A model of any type. A module like any other: copies share parameters.
class AnyModel {
public:
  template <typename M>
    requires(!std::same_as<M, AnyModel> && std::derived_from<M, nn::Module>)
  explicit AnyModel(M model) : held_(std::make_shared<Held<M>>(std::move(model))) {}

  // Its results, in order: a struct's are those that visit_tensors names. Throws Error when the
  // number of inputs is not that which the model takes.
  std::vector<Tensor> operator()(const std::vector<Tensor> &inputs,
                                 Location location = Location::current()) const {
    CallerScope scope(location);
    return held(location).call(inputs);
  }
  // The module itself, for its parameters and its training flag.
  nn::Module &module(Location location = Location::current()) const {
    return held(location).module();
  }
  // Parameters and buffers, so that a trace names them.
  nn::NamedTensors state(Location location = Location::current()) const {
    return module(location).state(location);
  }
  // As nn::Module's.
  std::shared_ptr<const void> identity() const {
    return held_ ? held_->module().identity() : nullptr;
  }

private:
  struct Base {
    virtual ~Base() = default;
    virtual std::vector<Tensor> call(const std::vector<Tensor> &inputs) const = 0;
    virtual nn::Module &module() = 0;
  };
  template <typename M> struct Held : Base {
    explicit Held(M m) : model(std::move(m)) {}
    std::vector<Tensor> call(const std::vector<Tensor> &inputs) const override {
      tensor_tree::Flatten results;
      auto flatten = [&](auto result) {
        results(result);
      };
      if constexpr (std::is_invocable_v<const M &, const Tensor &>) {
        if (inputs.size() == 1) {
          flatten(model(inputs[0]));
          return std::move(results.tensors);
        }
      }
      if constexpr (std::is_invocable_v<const M &, const Tensor &, const Tensor &>) {
        if (inputs.size() == 2) {
          flatten(model(inputs[0], inputs[1]));
          return std::move(results.tensors);
        }
      }
      if constexpr (std::is_invocable_v<const M &, const Tensor &, const Tensor &,
                                        const Tensor &>) {
        if (inputs.size() == 3) {
          flatten(model(inputs[0], inputs[1], inputs[2]));
          return std::move(results.tensors);
        }
      }
      fail_at(Location::current(), ErrorKind::kValue,
              "AnyModel: the model does not take " + std::to_string(inputs.size()) + " inputs");
    }
    nn::Module &module() override {
      return model;
    }
    M model;
  };
  Base &held(Location location) const {
    return recorder::held(held_, "AnyModel", "model", location);
  }
  std::shared_ptr<Base> held_;
};

// Record::kind of models that take a batch of images and give logits of classes.
inline constexpr const char *kImageClassifier = "image classifier";

// What a model takes: a batch of these. Floating-point numbers, or indices below `count`.
struct Input {
  Shape sample;      // the shape of one
  int64_t count = 0; // 0: float32; else int64 in [0, count)
};

// What a classifier of images is made for. image: rows and columns of the images; counts for models
// that are made for one size.
struct ClassifierSizes {
  int64_t classes = 1000, channels = 3, image = 224;
};

// What tools know of a model.
struct Record {
  std::string name;   // torchvision's, or that of the file on the hub
  std::string kind;   // what it is for: "image classifier", ...
  std::string source; // who describes it, and where
  std::vector<Input> inputs;
  std::function<AnyModel()> make = {}; // with its default config, in training
  // The same with other sizes; empty where the model is no image classifier.
  std::function<AnyModel(const ClassifierSizes &)> make_classifier = {};

  // Inputs of this batch: uniform in [0, 1), or among the indices.
  std::vector<Tensor> example(int64_t batch, Location location = Location::current()) const;
};

// All of them, by name.
std::vector<Record> all();
// The record of this name. Throws Error (kValue) with the names next to it where there is none.
Record find(const std::string &name, Location location = Location::current());
// One more. Throws Error when the name is taken.
void add(Record record, Location location = Location::current());

// As a static object, the model's record:
//
//   const Registration<Mlp> small({.name = "mlp_small", .kind = "classifier", .source = "here",
//                                  .inputs = {{.sample = {64}}}}, MlpConfig{.sizes = {64, 10}});
template <typename M> struct Registration {
  template <typename Config> Registration(Record record, Config config) {
    record.make = [config] {
      return AnyModel(M(config));
    };
    if constexpr (requires { config.classes, config.channels; }) {
      if (record.kind == kImageClassifier)
        record.make_classifier = [config](const ClassifierSizes &sizes) {
          Config own = config;
          own.classes = sizes.classes;
          own.channels = sizes.channels;
          if constexpr (requires { own.image; })
            own.image = sizes.image;
          return AnyModel(M(own));
        };
    }
    add(std::move(record));
  }
};

// Images of three channels, 224 x 224, which most classifiers here were trained on.
std::vector<Input> image_input();

} // namespace weft::models

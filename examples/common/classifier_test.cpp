// What ClassifierTrainer refuses; that it learns and resumes is tested by the programs' tests.
#include "examples/common/classifier.h"

#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>

#include "examples/common/training_state.h"
#include "tests/support/errors.h"
#include "weft/weft.h"

namespace examples {
namespace {

using namespace weft;

// `count` items of two numbers each, of the classes 0, 1, 2 in turn.
data::DatasetPtr items(int64_t count) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < count; ++i)
    labels.push_back(i % 3);
  return std::make_shared<data::TensorDataset>(ones({count, 2}), Tensor::from(labels, {count}));
}

ClassifierTrainer trainer_of(nn::Linear model, data::DatasetPtr test) {
  return ClassifierTrainer(
      {.classes = 3,
       .epochs = 2,
       .batch = 2,
       .lr = 0.25,
       .format = "weft test checkpoint",
       .run = "this run"},
      model, [model](const Tensor &x) { return model(x); }, items(4), std::move(test));
}

// Gives each item these logits.
nn::Linear model_of(const std::vector<float> &logits) {
  return nn::Linear(zeros({3, 2}), Tensor::from(logits));
}

TEST(Classifier, CountsWhatItIsTakenFor) {
  Tested tested = trainer_of(model_of({1, 3, 2}), items(7)).test();
  EXPECT_EQ(tested.confusion.at(0, 1), 3);
  EXPECT_EQ(tested.confusion.at(1, 1), 2);
  EXPECT_EQ(tested.confusion.total(), 7);
  EXPECT_EQ(tested.top_share(), 1) << "there are fewer classes than are looked at";
}

TEST(Classifier, LogitsThatAreNoNumbersAreAnError) {
  for (const std::vector<float> &logits :
       {std::vector<float>{NAN, NAN, NAN}, {0, NAN, 0}, {INFINITY, 0, 0}})
    EXPECT_MESSAGE(trainer_of(model_of(logits), items(3)).test(),
                   "the model gives logits that are not finite for images to test on; a lower "
                   "--lr than 0.250000 may help");
}

TEST(Classifier, ASetToTestOnHasAnItem) {
  data::DatasetPtr none = std::make_shared<data::Subset>(items(3), std::vector<int64_t>{});
  EXPECT_MESSAGE(trainer_of(model_of({0, 0, 0}), none), "there are no images to test on");
}

TEST(Classifier, ACheckpointStandsWithinTheRun) {
  nn::Linear model = model_of({0, 0, 0});
  optim::AdamW optimizer(model.parameters(), {.lr = 0.25, .weight_decay = 1e-2});
  const char *folder = std::getenv("TEST_TMPDIR");
  const std::string path = std::string(folder ? folder : "/tmp") + "/checkpoint.safetensors";
  auto resumed = [&](const std::string &epoch, const std::string &batch) {
    TrainingState state = training_state(model, optimizer);
    state.metadata = {{"run", "this run"}, {"epoch", epoch}, {"batch", batch}};
    save_training_state(path, "weft test checkpoint", state);
    ClassifierTrainer trainer = trainer_of(model_of({0, 0, 0}), items(3));
    trainer.resume(path);
    return trainer.steps_done();
  };
  EXPECT_EQ(resumed("1", "1"), 3);
  EXPECT_EQ(resumed("2", "0"), 4);
  EXPECT_MESSAGE(resumed("2", "1"), "it stands at batch '1' behind the last epoch");
  EXPECT_MESSAGE(resumed("3", "0"), "its epoch is '3'");
  EXPECT_MESSAGE(resumed("0", "2"), "it stands at batch '2' of 2");
}

} // namespace
} // namespace examples

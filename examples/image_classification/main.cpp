// Trains a model of the library to tell classes of pictures apart. See README.md.
#include <chrono>
#include <cstdio>

#include "examples/common/classifier.h"
#include "examples/common/command_line.h"
#include "examples/image_classification/images.h"
#include "weft/io/files.h"
#include "weft/io/progress.h"
#include "weft/models/models.h"
#include "weft/weft.h"

namespace {

struct Arguments {
  std::string data, model = "resnet18", out = "image_classification_out", precision = "float32";
  int64_t epochs = 20, batch = 32, checkpoint_every = 0;
  double lr = 1e-3;
  bool resume = false, no_flip = false, list = false;
  image_classification::ImagesOptions images;
};

// Larger tables are in the file alone.
constexpr size_t kShownClasses = 25;

int list_models() {
  for (const weft::models::Record &record : weft::models::all())
    if (record.make_classifier)
      std::printf("%s\n", record.name.c_str());
  return 0;
}

weft::DType dtype_of(const std::string &precision) {
  return precision == "bfloat16"  ? weft::bfloat16
         : precision == "float16" ? weft::float16
                                  : weft::float32;
}

// Everything of a run that a checkpoint must agree with, as text.
std::string spell(const Arguments &arguments, const image_classification::Images &images) {
  char text[320];
  std::snprintf(
      text, sizeof text,
      "model %s, %zu classes, %lld images to train on, size %lld, area %a, flip %d, epochs %lld, "
      "batch %lld, lr %a, seed %llu",
      arguments.model.c_str(), images.classes.size(), static_cast<long long>(images.train->size()),
      static_cast<long long>(arguments.images.size), arguments.images.min_area,
      arguments.images.flip, static_cast<long long>(arguments.epochs),
      static_cast<long long>(arguments.batch), arguments.lr,
      static_cast<unsigned long long>(arguments.images.seed));
  return text + (arguments.precision == "float32" ? "" : ", precision " + arguments.precision);
}

// confusion.csv: the names in the first row and column, rows: what it is.
std::string csv_of(const examples::Confusion &confusion, const std::vector<std::string> &names) {
  std::string text = "is\\taken";
  auto quoted = [](const std::string &name) {
    std::string result = "\"";
    for (char c : name)
      result += c == '"' ? std::string("\"\"") : std::string(1, c);
    return result + "\"";
  };
  for (const std::string &name : names)
    text += "," + quoted(name);
  for (int64_t is = 0; is < confusion.classes; ++is) {
    text += "\n" + quoted(names[static_cast<size_t>(is)]);
    for (int64_t taken = 0; taken < confusion.classes; ++taken)
      text += "," + std::to_string(confusion.at(is, taken));
  }
  return text + "\n";
}

int run(Arguments arguments) {
  arguments.images.flip = !arguments.no_flip;
  weft::models::Record record = weft::models::find(arguments.model);
  if (!record.make_classifier)
    throw weft::Error(weft::ErrorKind::kValue, "'" + arguments.model + "' is of the kind '" +
                                                   record.kind +
                                                   "', no image classifier; --list names those");
  image_classification::Images images =
      image_classification::read_images(arguments.data, arguments.images);
  if (images.train->size() < arguments.batch)
    throw weft::Error(weft::ErrorKind::kFile, "'" + arguments.data + "' has " +
                                                  std::to_string(images.train->size()) +
                                                  " images to train on, fewer than a --batch of " +
                                                  std::to_string(arguments.batch));
  const int64_t classes = static_cast<int64_t>(images.classes.size());
  std::printf("data        %s: %lld images to train on, %lld to test, %lld classes\n",
              arguments.data.c_str(), static_cast<long long>(images.train->size()),
              static_cast<long long>(images.test->size()), static_cast<long long>(classes));
  weft::manual_seed(arguments.images.seed);
  weft::models::AnyModel model = record.make_classifier(
      {.classes = classes, .channels = images.channels, .image = arguments.images.size});
  examples::ClassifierTrainer trainer(
      {.classes = classes,
       .epochs = arguments.epochs,
       .batch = arguments.batch,
       .lr = arguments.lr,
       .seed = arguments.images.seed,
       .checkpoint_every = arguments.checkpoint_every,
       .precision = dtype_of(arguments.precision),
       .format = "weft image_classification checkpoint 1",
       .run = spell(arguments, images)},
      model.module(), [model](const weft::Tensor &x) { return model({x})[0]; }, images.train,
      images.test);
  const std::string checkpoint = arguments.out + "/checkpoint.safetensors";
  if (arguments.resume)
    trainer.resume(checkpoint);
  // From here on, files are written.
  weft::io::make_writable_folder(arguments.out);
  if (arguments.resume)
    std::printf("resumed     after step %lld\n", static_cast<long long>(trainer.steps_done()));
  std::printf(
      "model       %s, %s parameters\n", arguments.model.c_str(),
      weft::io::format_count(static_cast<double>(model.module().parameter_count())).c_str());
  auto start = std::chrono::steady_clock::now();
  trainer.run(arguments.out);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  examples::Tested tested = trainer.test();
  if (images.classes.size() <= kShownClasses)
    std::printf("%s", examples::table_of(tested.confusion, images.classes).c_str());
  const std::string table = arguments.out + "/confusion.csv";
  weft::io::write_file(table, csv_of(tested.confusion, images.classes));
  std::printf("trained in  %s\ntest        %.2f %% of %lld images right, of %.2f %% the class is "
              "among the first %lld\nwritten     %s, %s\n",
              weft::io::format_duration(seconds).c_str(), 100 * tested.confusion.accuracy(),
              static_cast<long long>(tested.confusion.total()), 100 * tested.top_share(),
              static_cast<long long>(std::min(classes, examples::ClassifierTrainer::kTop)),
              checkpoint.c_str(), table.c_str());
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  CLI::App app("Trains a model of the library to tell classes of pictures apart.");
  app.add_option("--data", arguments.data,
                 "folder with a folder of PNG and JPEG files for each class, with train and test "
                 "of such, or with IDX files of MNIST's names");
  app.add_option("--model", arguments.model, "--list names them")->capture_default_str();
  app.add_flag("--list", arguments.list, "name the models and end");
  app.add_option("--out", arguments.out, "folder for checkpoint, curve and confusion matrix")
      ->capture_default_str();
  app.add_flag("--resume", arguments.resume, "go on from the checkpoint in --out");
  app.add_option("--size", arguments.images.size, "rows and columns that the model sees")
      ->check(CLI::Range(8, 4096))
      ->capture_default_str();
  app.add_option("--epochs", arguments.epochs)->check(CLI::Range(1, 10000))->capture_default_str();
  app.add_option("--batch", arguments.batch)->check(CLI::Range(2, 65536))->capture_default_str();
  app.add_option("--lr", arguments.lr, "the highest learning rate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--precision", arguments.precision,
                 "of products and convolutions; parameters and sums stay float32")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
      ->capture_default_str();
  app.add_option("--test-share", arguments.images.test_share,
                 "of the pictures, where no folder has those to test on")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--min-area", arguments.images.min_area,
                 "share of a picture that is taken to train on, at least")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  app.add_flag("--no-flip", arguments.no_flip, "never mirror pictures to train on");
  app.add_option("--checkpoint-every", arguments.checkpoint_every,
                 "steps, beside the end of each epoch; 0: there alone")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--seed", arguments.images.seed)->capture_default_str();
  return examples::run_program("image_classification", app, argc, argv, [&] {
    if (arguments.list)
      return list_models();
    if (arguments.data.empty())
      throw weft::Error(weft::ErrorKind::kValue, "give --data FOLDER");
    return run(arguments);
  });
}

// Trains a small residual network on images of digits and tells how well it reads others. See
// README.md.
#include <chrono>
#include <cstdio>

#include "examples/common/command_line.h"
#include "examples/common/confusion.h"
#include "examples/digits/confusion_image.h"
#include "examples/digits/ship.h"
#include "examples/digits/trainer.h"
#include "weft/image/png.h"
#include "weft/io/files.h"
#include "weft/io/progress.h"
#include "weft/weft.h"

namespace {

struct Arguments {
  std::string data = "examples/digits/data", out = "digits_out";
  bool resume = false, train_only = false;
  digits::RunOptions run;
};

// An item of a data set as a picture, as it stands in the file.
weft::image::Image picture_of(const weft::data::IdxDataset &images, int64_t item) {
  weft::data::HostBatch batch = images.fetch({&item, 1});
  weft::image::Image image{images.height(), images.width(), 1, {}};
  for (float pixel : batch.input.as<float>())
    image.pixels.push_back(static_cast<uint8_t>(pixel * 255 + 0.5f));
  return image;
}

int run(Arguments arguments) {
  // Pixels of both sets are mostly dark: about this mean and deviation.
  weft::data::ImageOptions pixels{.mean = 0.3, .deviation = 0.37};
  weft::data::IdxDataset train = weft::data::mnist(arguments.data, true, pixels),
                         test = weft::data::mnist(arguments.data, false, pixels);
  if (test.height() != train.height() || test.width() != train.width() ||
      test.classes() > train.classes())
    throw weft::Error(weft::ErrorKind::kFile,
                      "the test images in '" + arguments.data +
                          "' are of other sizes or classes than those to train on");
  if (train.classes() > examples::kMostClasses)
    throw weft::Error(weft::ErrorKind::kFile,
                      "'" + arguments.data + "/train-labels-idx1-ubyte' has the label " +
                          std::to_string(train.classes() - 1) + "; there may be " +
                          std::to_string(examples::kMostClasses) + " classes, from 0");
  if (train.size() < arguments.run.batch || test.size() == 0)
    throw weft::Error(weft::ErrorKind::kFile,
                      "'" + arguments.data + "' has " + std::to_string(train.size()) +
                          " images to train on and " + std::to_string(test.size()) +
                          " to test; a --batch of " + std::to_string(arguments.run.batch) +
                          " needs as many of the first, and one of the others");
  arguments.run.sizes.classes = train.classes();
  std::printf("data        %s: %lld images to train on, %lld to test, %lld x %lld, %lld classes\n",
              arguments.data.c_str(), static_cast<long long>(train.size()),
              static_cast<long long>(test.size()), static_cast<long long>(train.height()),
              static_cast<long long>(train.width()), static_cast<long long>(train.classes()));
  const std::string checkpoint = arguments.out + "/checkpoint.safetensors";
  digits::Trainer trainer(arguments.run, std::move(train), std::move(test));
  if (arguments.resume)
    trainer.resume(checkpoint);
  // From here on, files are written.
  weft::io::make_writable_folder(arguments.out);
  if (arguments.resume) {
    std::printf("resumed     after epoch %lld of %lld\n",
                static_cast<long long>(trainer.epochs_done()),
                static_cast<long long>(arguments.run.epochs));
  }
  std::printf(
      "model       %s parameters\n",
      weft::io::format_count(static_cast<double>(trainer.model().parameter_count())).c_str());
  auto start = std::chrono::steady_clock::now();
  trainer.run(arguments.out);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  digits::Confusion confusion = trainer.test();
  std::printf("%s", examples::table_of(confusion).c_str());
  const std::string image = arguments.out + "/confusion.png";
  digits::write_confusion_image(image, confusion);
  std::printf("trained in  %s\ntest        %.2f %% of %lld images right\nwritten     %s, %s\n",
              weft::io::format_duration(seconds).c_str(), 100 * confusion.accuracy(),
              static_cast<long long>(confusion.total()), checkpoint.c_str(), image.c_str());
  if (arguments.train_only)
    return 0;
  // One picture of the test set, as the executable and the test set itself see it.
  weft::data::IdxDataset plain = weft::data::mnist(arguments.data, false);
  const int64_t first = 0;
  const std::string picture = arguments.out + "/sample.png";
  weft::image::write_png(picture, picture_of(plain, first));
  std::string executable =
      digits::ship(trainer.model(), plain.height(), plain.width(), pixels, arguments.out);
  std::printf("executable  %s says of %s: %s; it is %lld\n", executable.c_str(), picture.c_str(),
              digits::classify(executable, picture).c_str(),
              static_cast<long long>(plain.fetch({&first, 1}).target.as<int64_t>()[0]));
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  CLI::App app("Trains a small residual network on images of digits.");
  app.add_option("--data", arguments.data, "folder with IDX files of MNIST's names")
      ->capture_default_str();
  app.add_option("--out", arguments.out, "folder for the checkpoint and the confusion matrix")
      ->capture_default_str();
  app.add_flag("--resume", arguments.resume, "go on from the checkpoint in --out");
  app.add_flag("--train-only", arguments.train_only, "make no executable");
  app.add_option("--epochs", arguments.run.epochs)
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--batch", arguments.run.batch)
      ->check(CLI::Range(2, 65536))
      ->capture_default_str();
  app.add_option("--lr", arguments.run.lr, "the highest learning rate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--width", arguments.run.sizes.width, "channels of the first block")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--seed", arguments.run.seed)->capture_default_str();
  return examples::run_program("digits", app, argc, argv, [&] { return run(arguments); });
}

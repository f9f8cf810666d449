// Tells which digit a picture shows, with the model in digits.o. Needs neither a compiler nor LLVM
// nor Weft to run.
// Usage: classify [-i] IMAGE.png      -i: dark strokes on light paper (else light strokes on dark
//                                     ground)
#include <math.h>
#include <png.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digits.h" // the model: weft_model_digits

static int fail(const char *what, const char *why) {
  fprintf(stderr, "classify: %s: %s\n", what, why);
  return 2;
}

// The mean of the pixels of `from` [height, width] that lie under pixel (y, x) of an image of rows
// x columns.
static float mean_under(const uint8_t *from, int64_t height, int64_t width, int64_t y, int64_t x,
                        int64_t rows, int64_t columns) {
  int64_t top = y * height / rows, bottom = (y + 1) * height / rows, left = x * width / columns,
          right = (x + 1) * width / columns;
  if (bottom == top)
    bottom = top + 1;
  if (right == left)
    right = left + 1;
  double sum = 0;
  for (int64_t i = top; i < bottom; ++i)
    for (int64_t j = left; j < right; ++j)
      sum += from[i * width + j];
  return (float)(sum / (double)((bottom - top) * (right - left)));
}

int main(int argc, char **argv) {
  int invert = argc == 3 && strcmp(argv[1], "-i") == 0;
  if (argc != 2 + invert) {
    fprintf(stderr, "usage: classify [-i] IMAGE.png   (-i: dark strokes on light paper)\n");
    return 2;
  }
  const char *path = argv[argc - 1];
  png_image png;
  memset(&png, 0, sizeof png);
  png.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_file(&png, path))
    return fail(path, png.message);
  if ((uint64_t)png.height * png.width > (UINT64_C(1) << 28)) {
    png_image_free(&png);
    return fail(path, "the picture is too large");
  }
  png.format = PNG_FORMAT_GRAY;
  uint8_t *pixels = malloc(PNG_IMAGE_SIZE(png));
  png_color ground = {0, 0, 0};
  if (!pixels || !png_image_finish_read(&png, &ground, pixels, 0, NULL)) {
    png_image_free(&png);
    return fail(path, pixels ? png.message : "out of memory");
  }
  if (invert)
    for (size_t i = 0; i < PNG_IMAGE_SIZE(png); ++i)
      pixels[i] = (uint8_t)(255 - pixels[i]);

  weft_model *model;
  if (weft_model_open(&weft_model_digits, NULL, &model))
    return fail("model", weft_model_error());
  const weft_tensor_info *in = weft_model_input(model, 0), *out = weft_model_output(model, 0);
  int64_t rows = in->dims[2], columns = in->dims[3], classes = out->dims[1];
  float *image = malloc((size_t)in->bytes), *logits = malloc((size_t)out->bytes);
  if (!image || !logits)
    return fail("memory", "there is none");
  for (int64_t y = 0; y < rows; ++y)
    for (int64_t x = 0; x < columns; ++x)
      image[y * columns + x] = mean_under(pixels, png.height, png.width, y, x, rows, columns);
  const void *inputs[] = {image};
  void *outputs[] = {logits};
  if (weft_model_run(model, inputs, outputs))
    return fail("model", weft_model_error());

  int64_t best = 0;
  double sum = 0;
  for (int64_t i = 1; i < classes; ++i)
    if (logits[i] > logits[best])
      best = i;
  for (int64_t i = 0; i < classes; ++i)
    sum += exp(logits[i] - logits[best]);
  printf("%lld (%.1f %%)\n", (long long)best, 100 / sum);
  weft_model_close(model);
  free(logits);
  free(image);
  free(pixels);
  return 0;
}

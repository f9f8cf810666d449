// JPEG files, by libjpeg.
#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdio>

// After <cstdio>, which jerror.h needs.
#include <jerror.h>
#include <jpeglib.h>

#include "frontend/image/codec.h"

namespace weft::image {
namespace {

// A progressive file may have as many scans over the whole picture as it has room for; honest ones
// have about ten.
constexpr int kMostScans = 500;

// libjpeg reports through these functions; the one for errors must not return.
struct ErrorManager {
  jpeg_error_mgr base; // first: libjpeg knows this part
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto *errors = reinterpret_cast<ErrorManager *>(info->err);
  errors->base.format_message(info, errors->message);
  std::longjmp(errors->escape, 1);
}

// Level -1 is a warning: damaged data, which libjpeg would fill with gray. Only those about what
// stands beside the picture are let pass.
void on_message(j_common_ptr info, int level) {
  if (level >= 0)
    return;
  switch (info->err->msg_code) {
  case JWRN_ADOBE_XFORM:
  case JWRN_EXTRANEOUS_DATA:
  case JWRN_JFIF_MAJOR:
  case JWRN_TOO_MUCH_DATA:
    return;
  default:
    on_error(info);
  }
}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans)
    return;
  auto *errors = reinterpret_cast<ErrorManager *>(info->err);
  std::snprintf(errors->message, sizeof errors->message, "it has more than %d scans", kMostScans);
  std::longjmp(errors->escape, 1);
}

// The decoder and what it calls. Everything that lives across a jump is in here, and nothing here
// has a destructor that a jump would skip.
struct Decoder {
  jpeg_decompress_struct info;
  ErrorManager errors;
  jpeg_progress_mgr progress;
};

// Reads the header and chooses the form of the result. False with a message in decoder.errors.
bool begin(Decoder &decoder, std::span<const uint8_t> bytes, int64_t channels) {
  if (setjmp(decoder.errors.escape))
    return false;
  jpeg_create_decompress(&decoder.info);
  decoder.progress.progress_monitor = on_progress;
  decoder.info.progress = &decoder.progress;
  jpeg_mem_src(&decoder.info, bytes.data(), bytes.size());
  jpeg_read_header(&decoder.info, TRUE);
  bool inks =
      decoder.info.jpeg_color_space == JCS_CMYK || decoder.info.jpeg_color_space == JCS_YCCK;
  decoder.info.out_color_space = inks ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  // libjpeg does not convert RGB without luminance to gray: convert() does.
  if (channels == 1 && decoder.info.jpeg_color_space == JCS_RGB)
    decoder.info.out_color_space = JCS_RGB;
  return true;
}

// The pixels, in the form that begin() chose, into `rows`, which has room for them.
bool read_rows(Decoder &decoder, uint8_t *rows, size_t row_bytes) {
  if (setjmp(decoder.errors.escape))
    return false;
  jpeg_start_decompress(&decoder.info);
  while (decoder.info.output_scanline < decoder.info.output_height) {
    JSAMPROW row = rows + decoder.info.output_scanline * row_bytes;
    jpeg_read_scanlines(&decoder.info, &row, 1);
  }
  jpeg_finish_decompress(&decoder.info);
  return true;
}

struct Destroyer {
  Decoder &decoder;
  ~Destroyer() {
    jpeg_destroy_decompress(&decoder.info);
  }
};

uint8_t product(int a, int b) {
  return static_cast<uint8_t>((a * b + 127) / 255);
}

// Pixels of `from` bytes each to `to`: inks (inverted, as Adobe's programs write them, where
// `inverted`) or colors to gray, color, color with alpha.
void convert(const uint8_t *pixels, size_t count, size_t from, bool inverted, size_t to,
             uint8_t *result) {
  for (size_t i = 0; i < count; ++i, pixels += from, result += to) {
    uint8_t color[4] = {pixels[0], pixels[0], pixels[0], 255};
    if (from >= 3)
      color[1] = pixels[1], color[2] = pixels[2];
    if (from == 4) {
      int black = inverted ? pixels[3] : 255 - pixels[3];
      for (int c = 0; c < 3; ++c)
        color[c] = product(inverted ? color[c] : 255 - color[c], black);
    }
    // The luminance of ITU-R BT.601, as libjpeg has it.
    if (to == 1)
      result[0] =
          static_cast<uint8_t>((299 * color[0] + 587 * color[1] + 114 * color[2] + 500) / 1000);
    else
      std::copy(color, color + to, result);
  }
}

} // namespace

Image decode_jpeg(std::span<const uint8_t> bytes, int64_t channels, const std::string &name,
                  int64_t most_pixels, Location location) {
  Decoder decoder{};
  decoder.info.err = jpeg_std_error(&decoder.errors.base);
  decoder.errors.base.error_exit = on_error;
  decoder.errors.base.emit_message = on_message;
  Destroyer destroyer{decoder};
  auto check = [&](bool ok) {
    if (!ok)
      fail_to_read(name, "JPEG", decoder.errors.message, location);
  };
  check(begin(decoder, bytes, channels));
  int64_t height = decoder.info.image_height, width = decoder.info.image_width;
  check_size(height, width, bytes.size(), most_pixels, name, "JPEG", location);
  size_t wanted = static_cast<size_t>(channels), count = static_cast<size_t>(height * width);
  size_t read = decoder.info.out_color_space == JCS_CMYK        ? 4
                : decoder.info.out_color_space == JCS_GRAYSCALE ? 1
                                                                : 3;
  bool inks = decoder.info.out_color_space == JCS_CMYK, as_wanted = read == wanted && !inks;
  Image image{height, width, channels, std::vector<uint8_t>(count * wanted)};
  std::vector<uint8_t> other(as_wanted ? 0 : count * read);
  check(read_rows(decoder, as_wanted ? image.pixels.data() : other.data(),
                  static_cast<size_t>(width) * read));
  if (!as_wanted)
    convert(other.data(), count, read, decoder.info.saw_Adobe_marker, wanted, image.pixels.data());
  return image;
}

} // namespace weft::image

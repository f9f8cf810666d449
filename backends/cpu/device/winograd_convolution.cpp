// The tiles are computed in blocks, each in three steps: the image's tiles are transformed, the
// matrices multiplied, the results transformed back. A weight whose matrices stay in the L2 cache
// is read by each thread for blocks of its own; a larger one would go by for each block again, so
// that all threads share larger blocks, and the matrices of one. How large blocks are depends on
// the shapes alone: so do the bits.
#include "backends/cpu/device/winograd_convolution.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cpu/device/onednn_matmul.h"
#include "backends/cpu/device/product_tiles.h"
#include "runtime/core/alignment.h"
#include "runtime/core/status.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

// Transformed weights that may stay in a thread's L2 cache beside a block of kOwnBytes; and the
// bytes of the blocks that threads share, a part of the L3 cache.
constexpr int64_t kOwnWeightBytes = 640 << 10, kOwnBytes = 768 << 10, kSharedBytes = 8 << 20;
// Blocks of their own for as many threads as there may be.
constexpr int64_t kMostThreads = 16;
// Rows of a product below which the library does not reach its speed.
constexpr int64_t kFewestRows = 16;
// Filters that a thread transforms at once, and tiles.
constexpr int64_t kFilterGrain = 64, kTileGrain = 4;

// Times, in those of one multiplication of a convolution without transforms (8.7 ps by two threads
// of Zen 4; with AVX-512 and without it they are alike): of an element of a transformed weight that
// is read, and of one that is computed in the call (0.25 and 0.9 ns); of an element of a tile that
// is transformed there or back.
constexpr double kReadWeight = 30, kTransformWeight = 105;
constexpr WinogradTileCost kTileCosts[] = {{2, 16}, {4, 28}};
// Times of calls in those of a convolution without transforms; measured, by two threads:
//
//   channels -> filters, image   m = 2, weight as it is / transformed   m = 4
//   64 -> 64, 224^2              0.67 / 0.66                            0.50 / 0.48
//   256 -> 256, 56^2             0.57 / 0.54                            0.51 / 0.43
//   512 -> 512, 28^2             0.89 / 0.64                            0.86 / 0.49
//   512 -> 512, 14^2             1.49 / 0.73                            2.49 / 1.08
//   512 -> 512, 7^2              5.98 / 1.31                           10.54 / 2.83
//   128 -> 32, 28^2              0.85 / 0.69                            0.70 / 0.39
//   8 x 256 -> 256, 14^2         0.65 / 0.58                            0.72 / 0.57
// What a call must take at most.
constexpr double kWorthwhile = 0.85;

class WinogradState : public runtime::PackedCallState {
public:
  WinogradState(const ConvolutionProblem &p, int64_t tile, int threads)
      : shape_(winograd_shape(p)), packed_(p.packed_weight), bias_(p.bias), relu_(p.relu),
        tile_(tile), places_((tile + 2) * (tile + 2)), threads_(threads),
        transforms_(winograd_transforms(tile)) {
    shape_.panels = prefers_product_tiles();
  }

  absl::Status build() {
    int64_t tiles = shape_.tiles(tile_),
            of_tile = places_ * (shape_.channels + shape_.filters) * kFloat;
    weight_elements_ = shape_.channels * shape_.filters;
    own_ = places_ * weight_elements_ * kFloat <= kOwnWeightBytes;
    // A weight that is larger than a block would go by for each of them: the blocks are as large.
    int64_t bytes = own_ ? kOwnBytes : std::max(kSharedBytes, places_ * weight_elements_ * kFloat),
            most = bytes / of_tile;
    if (own_)
      most = std::min(most, (tiles + kMostThreads - 1) / kMostThreads);
    most = std::max(most, kFewestRows);
    blocks_ = (tiles + most - 1) / most;
    rows_ = (tiles + blocks_ - 1) / blocks_;
    blocks_ = (tiles + rows_ - 1) / rows_;
    tiled_ = {rows_, shape_.channels, shape_.filters, shape_.channels, shape_.filters};
    matrices_bytes_ = runtime::align(places_ * shape_.matrix_elements() * kFloat);
    if (!shape_.panels)
      WEFT_RETURN_IF_ERROR(build_products());
    weight_bytes_ = matrices_bytes_ + runtime::align(9 * weight_elements_ * kFloat);
    image_bytes_ = runtime::align(places_ * rows_ * shape_.channels * kFloat);
    product_bytes_ = runtime::align(places_ * rows_ * shape_.filters * kFloat);
    return absl::OkStatus();
  }

  int operand() const override {
    return 1;
  }
  int64_t packed_bytes() const override {
    return weight_bytes_;
  }
  std::string form() const override {
    return absl::StrCat("winograd ", tile_, shape_.flipped ? " turned " : " ", shape_.channels, "x",
                        shape_.filters, own_ ? " own " : " shared ",
                        shape_.panels ? "panels" : products_.front()->packed_form());
  }
  absl::Status pack(const void *plain, void *packed) override {
    char *to = static_cast<char *>(packed);
    float *taps = reinterpret_cast<float *>(to + matrices_bytes_);
    if (!library_packs()) {
      transform_weight(static_cast<const float *>(plain), reinterpret_cast<float *>(to), taps);
      return absl::OkStatus();
    }
    std::vector<float> matrices(static_cast<size_t>(places_ * weight_elements_));
    transform_weight(static_cast<const float *>(plain), matrices.data(), taps);
    int64_t of_one = own_ ? places_ * weight_elements_ : weight_elements_;
    for (int64_t i = 0; i < (own_ ? 1 : places_); ++i)
      WEFT_RETURN_IF_ERROR(products_.front()->pack(matrices.data() + i * of_one,
                                                   to + i * products_.front()->packed_bytes()));
    return absl::OkStatus();
  }

  int64_t scratch_bytes() const override {
    return (packed_ ? 0 : weight_bytes_) + regions_bytes() + threads_ * library_bytes_;
  }

  absl::Status run(std::span<void *const> operands, void *scratch) override {
    Call call;
    call.state = this;
    call.image = static_cast<const float *>(operands[0]);
    call.weight = static_cast<char *>(operands[1]);
    call.bias = bias_ ? static_cast<const float *>(operands[2]) : nullptr;
    call.result = static_cast<float *>(operands.back());
    call.scratch = static_cast<char *>(scratch);
    call.statuses.resize(static_cast<size_t>(threads_));
    if (!packed_) {
      transform_weight(static_cast<const float *>(operands[1]),
                       reinterpret_cast<float *>(call.scratch),
                       reinterpret_cast<float *>(call.scratch + matrices_bytes_));
      call.weight = call.scratch;
      call.scratch += weight_bytes_;
    }
    if (own_) {
      runtime::parallel_for(blocks_, 1, threads_, own_blocks, &call);
      return call.status();
    }
    for (int64_t block = 0; block < blocks_; ++block) {
      call.block = block;
      int64_t rows = rows_of(block);
      runtime::parallel_for(rows, kTileGrain, threads_, image_of_block, &call);
      runtime::parallel_for(places_, 1, threads_, products_of_block, &call);
      WEFT_RETURN_IF_ERROR(call.status());
      runtime::parallel_for(rows, kTileGrain, threads_, result_of_block, &call);
    }
    return absl::OkStatus();
  }

private:
  static constexpr int64_t kFloat = sizeof(float);

  struct Call {
    WinogradState *state;
    const float *image, *bias;
    char *weight;
    float *result;
    char *scratch;
    int64_t block = 0;
    std::vector<absl::Status> statuses; // by thread

    absl::Status status() const {
      return runtime::first_error(statuses);
    }
    void note(int thread, absl::Status status) {
      if (!status.ok())
        statuses[static_cast<size_t>(thread)] = std::move(status);
    }
  };

  // The library's, one for each thread, which packs matrices where it has a form for them.
  absl::Status build_products() {
    int64_t batch = own_ ? places_ : 1;
    auto dense = [&](int64_t rows, int64_t columns) {
      return StridedShape{{batch, rows, columns}, {rows * columns, columns, 1}};
    };
    MatmulProblem product{dense(rows_, shape_.channels), dense(shape_.channels, shape_.filters),
                          dense(rows_, shape_.filters),
                          {},
                          {}};
    for (int i = 0; i < threads_; ++i) {
      WEFT_ASSIGN_OR_RETURN(std::unique_ptr<OnednnMatmul> made,
                            OnednnMatmul::create(product, 1, packed_));
      products_.push_back(std::move(made));
    }
    const OnednnMatmul &first = *products_.front();
    if (first.implementation().starts_with("ref"))
      return absl::UnimplementedError("oneDNN has no fast product of these matrices");
    if (packed_ && first.packed_bytes() > 0)
      matrices_bytes_ = runtime::align(first.packed_bytes() * (own_ ? 1 : places_));
    library_bytes_ = runtime::align(first.scratch_bytes());
    return absl::OkStatus();
  }

  bool library_packs() const {
    return !shape_.panels && products_.front()->packed_bytes() > 0;
  }

  int64_t rows_of(int64_t block) const {
    return std::min(rows_, shape_.tiles(tile_) - block * rows_);
  }

  struct WeightCall {
    const WinogradState *state;
    const float *plain;
    float *matrices, *taps;
  };
  void transform_weight(const float *plain, float *matrices, float *taps) const {
    WeightCall call{this, plain, matrices, taps};
    runtime::parallel_for(
        shape_.filters, kFilterGrain, threads_,
        [](void *data, int, int64_t begin, int64_t end) -> int32_t {
          const WeightCall &call = *static_cast<WeightCall *>(data);
          call.state->transforms_.weight(call.state->shape_, call.plain, begin, end, call.matrices,
                                         call.taps);
          return 0;
        },
        &call);
  }

  // What a thread does of a block in a region of the scratch memory.
  struct Piece {
    const Call *call;
    int64_t block, region;

    float *image_matrices() const {
      const WinogradState &state = *call->state;
      return reinterpret_cast<float *>(call->scratch +
                                       region * (state.image_bytes_ + state.product_bytes_));
    }
    float *products() const {
      return image_matrices() + call->state->image_bytes_ / kFloat;
    }
    void transform_image(int64_t first, int64_t last) const {
      const WinogradState &state = *call->state;
      int64_t tile = block * state.rows_, channels = state.shape_.channels;
      state.transforms_.image(state.shape_, call->image, tile + first, tile + last,
                              image_matrices() + first * channels, state.rows_ * channels);
    }
    // The products of the matrices of a place; of all of them where they are one batch.
    absl::Status multiply(int thread, int64_t place) const {
      WinogradState &state = *call->state;
      if (state.shape_.panels) {
        for (int64_t i = place; i < (state.own_ ? state.places_ : place + 1); ++i)
          multiply_tiles(state.tiled_, image_matrices() + i * state.rows_ * state.shape_.channels,
                         reinterpret_cast<const float *>(call->weight) +
                             i * state.shape_.matrix_elements(),
                         nullptr, products() + i * state.rows_ * state.shape_.filters, 0,
                         state.rows_of(block), 0, state.tiled_.panels());
        return absl::OkStatus();
      }
      OnednnMatmul &product = *state.products_[static_cast<size_t>(thread)];
      int64_t weight =
          product.packed_bytes() > 0 ? product.packed_bytes() : state.weight_elements_ * kFloat;
      void *operands[] = {image_matrices() + place * state.rows_ * state.shape_.channels,
                          call->weight + place * weight,
                          products() + place * state.rows_ * state.shape_.filters};
      return product.run(operands,
                         call->scratch + state.regions_bytes() + thread * state.library_bytes_);
    }
    void transform_result(int64_t first, int64_t last) const {
      const WinogradState &state = *call->state;
      int64_t tile = block * state.rows_, filters = state.shape_.filters;
      const float *taps = reinterpret_cast<const float *>(call->weight + state.matrices_bytes_);
      state.transforms_.result(state.shape_, products() + first * filters, state.rows_ * filters,
                               tile + first, tile + last, call->bias, state.relu_, call->image,
                               taps, call->result);
    }
  };

  int64_t regions_bytes() const {
    return (own_ ? std::min<int64_t>(threads_, blocks_) : 1) * (image_bytes_ + product_bytes_);
  }

  static int32_t own_blocks(void *data, int thread, int64_t begin, int64_t end) {
    Call &call = *static_cast<Call *>(data);
    const WinogradState &state = *call.state;
    for (int64_t block = begin; block < end; ++block) {
      Piece piece{&call, block, state.blocks_ <= state.threads_ ? block : thread};
      piece.transform_image(0, state.rows_of(block));
      call.note(thread, piece.multiply(thread, 0));
      piece.transform_result(0, state.rows_of(block));
    }
    return 0;
  }
  static int32_t image_of_block(void *data, int, int64_t begin, int64_t end) {
    const Call &call = *static_cast<Call *>(data);
    Piece{&call, call.block, 0}.transform_image(begin, end);
    return 0;
  }
  static int32_t products_of_block(void *data, int thread, int64_t begin, int64_t end) {
    Call &call = *static_cast<Call *>(data);
    for (int64_t place = begin; place < end; ++place)
      call.note(thread, Piece{&call, call.block, 0}.multiply(thread, place));
    return 0;
  }
  static int32_t result_of_block(void *data, int, int64_t begin, int64_t end) {
    const Call &call = *static_cast<Call *>(data);
    Piece{&call, call.block, 0}.transform_result(begin, end);
    return 0;
  }

  WinogradShape shape_;
  bool packed_, bias_;
  Relu relu_;
  int64_t tile_, places_;
  int threads_;
  const WinogradTransforms &transforms_;
  bool own_ = false; // whether each thread has blocks of its own
  int64_t blocks_ = 1, rows_ = 1, weight_elements_ = 0;
  TiledProduct tiled_{};                                // of the matrices of a place, by panels
  std::vector<std::unique_ptr<OnednnMatmul>> products_; // else the library's, by thread
  int64_t matrices_bytes_ = 0, weight_bytes_ = 0, image_bytes_ = 0, product_bytes_ = 0,
          library_bytes_ = 0;
};

} // namespace

WinogradShape winograd_shape(const ConvolutionProblem &p) {
  int64_t filters = p.weight[0], channels = p.weight[1];
  if (p.kind != ConvolutionKind::kInputGradient)
    return {p.image[0],  channels,  p.image[2],   p.image[3], filters, p.result[2],
            p.result[3], p.padding, channels * 9, 9,          false};
  // The result's gradient convolved with the weight, turned by 180 degrees.
  return {p.result[0], filters,      p.result[2], p.result[3],
          channels,    p.image[2],   p.image[3],  {2 - p.padding[0], 2 - p.padding[1]},
          9,           channels * 9, true};
}

int64_t winograd_cheapest_tile(const WinogradShape &s, std::span<const WinogradTileCost> costs,
                               const std::function<double(int64_t, double)> &of_pair) {
  double pairs = static_cast<double>(s.channels * s.filters),
         best = kWorthwhile * 9 * pairs * static_cast<double>(s.images * s.rows * s.columns);
  int64_t tile = 0;
  for (const WinogradTileCost &cost : costs) {
    double places = static_cast<double>((cost.tile + 2) * (cost.tile + 2)),
           tiles = static_cast<double>(s.tiles(cost.tile)),
           here = places * (pairs * of_pair(cost.tile, tiles) +
                            tiles * static_cast<double>(s.channels + s.filters) * cost.transform);
    if (here < best) {
      best = here;
      tile = cost.tile;
    }
  }
  return tile;
}

bool winograd_computes(const ConvolutionProblem &p) {
  bool computes = p.winograd != Winograd::kNever && p.weight[2] == 3 && p.weight[3] == 3 &&
                  p.channels_last && p.groups == 1 && p.dtype == DType::kFloat32;
  for (size_t i = 0; i < 2; ++i)
    computes &= p.strides[i] == 1 && p.dilation[i] == 1 && p.padding[i] <= 2;
  return computes;
}

int64_t winograd_tile(const ConvolutionProblem &p) {
  if (!winograd_computes(p) || p.kind == ConvolutionKind::kWeightGradient)
    return 0;
  double by_weight = p.winograd == Winograd::kWeightStays ? kReadWeight : kTransformWeight;
  return winograd_cheapest_tile(winograd_shape(p), kTileCosts, [&](int64_t, double tiles) {
    return std::max(tiles, kFewestRows * 1.0) + by_weight;
  });
}

absl::StatusOr<std::unique_ptr<runtime::PackedCallState>>
winograd_convolution(const ConvolutionProblem &problem, int64_t tile, int threads) {
  auto state = std::make_unique<WinogradState>(problem, tile, threads);
  WEFT_RETURN_IF_ERROR(state->build());
  return state;
}

} // namespace weft::backends::cpu

#include "backends/cpu/device/tiled_matmul.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backends/cpu/device/matmul_epilogue.h"
#include "backends/cpu/device/product_tiles.h"
#include "runtime/core/alignment.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

// Rows below which a call that packs b for itself is slower than the library: copying an element
// takes as long as its products with some 10 rows.
constexpr int64_t kFewestRows = 32;
// Columns below which the same holds for a transposed a.
constexpr int64_t kFewestColumns = 64;
// Products are cut into tasks of so many rows, and of panels so many that each thread gets
// kTasksOfThread: one that has a task more than another ends late by it (788 rows of ViT are 9
// blocks: of 9 tasks, two threads would take 5 and 4). A task shares what is read of a, so that it
// has at least kTaskPanels, or kTurnedPanels where it copies a, unless threads then got fewer than
// kFewTasks. Some 2 us of work are worth waking a thread.
constexpr int64_t kTaskRows = 96, kTasksOfThread = 16, kFewTasks = 4, kTaskPanels = 8,
                  kTurnedPanels = 24, kGrainProducts = 128 << 10;
// Bytes of panels that a thread packs at once.
constexpr int64_t kPackBytes = 64 << 10;
// Where each thread can have as many blocks of columns as every other, it packs each block for
// itself and multiplies all rows by it: the panels of a block stay near, and no thread waits until
// all panels are packed. 788 x 768 x 3072 on two threads: 179 GFLOP/s in place of 173.
//
// Of up to kMostBlockRows rows: of more, packing is no share of the time, and reading a once for
// each block is (50,000 x 256 x 384: 163 GFLOP/s in place of 181).
// At least kLeastBlocks for a thread: with fewer, one that is disturbed has the others wait for a
// third of the product. A block reads all of a: with fewer panels than kLeastBlockPanels, or
// kTurnedPanels where it copies a, that would show; more than kBlockPanels, or kTurnedBlockPanels,
// gain nothing.
constexpr int64_t kMostBlockRows = 2048, kLeastBlocks = 3, kLeastBlockPanels = 4, kBlockPanels = 6,
                  kTurnedBlockPanels = 48;

class TiledMatmul : public OnednnMatmul {
public:
  TiledMatmul(const MatmulProblem &problem, int threads, bool packed)
      : product_{problem.c.dims[0], problem.a.dims[1], problem.c.dims[1], problem.a.strides[0],
                 problem.c.strides[0], problem.a.strides[1]},
        term_stride_(problem.b.strides[0]), column_stride_(problem.b.strides[1]),
        has_bias_(problem.bias.has_value()), packed_(packed), threads_(threads) {
    int64_t panels = product_.panels(), of_panel = product_.terms * kPanelColumns;
    row_blocks_ = (product_.rows + kTaskRows - 1) / kTaskRows;
    task_rows_ = (product_.rows + row_blocks_ - 1) / row_blocks_;
    int64_t of_thread = panels * row_blocks_ / threads; // pairs of a block and a panel
    int64_t least = product_.a_term == 1 ? kTaskPanels : kTurnedPanels;
    task_panels_ = std::clamp<int64_t>(
        std::max(of_thread / kTasksOfThread, std::min(least, of_thread / kFewTasks)), 1, panels);
    column_blocks_ = (panels + task_panels_ - 1) / task_panels_;
    int64_t together = column_stride_ == 1 ? kPackedTogether : 1;
    pack_grain_ = std::max({int64_t(1), std::min(together, panels / threads),
                            kPackBytes / (of_panel * static_cast<int64_t>(sizeof(float)))});
    if (!packed_)
      choose_blocks();
    int64_t products = block_panels_ ? product_.rows * block_panels_ * of_panel
                                     : task_rows_ * task_panels_ * of_panel;
    grain_ = std::max<int64_t>(1, kGrainProducts / products);
    behind_ = problem;
    behind_.bias = std::nullopt;
  }

  std::string_view implementation() const override {
    return kTiledMatmul;
  }
  SumOrder sum_order() const override {
    return SumOrder::kFixed;
  }
  int64_t packed_bytes() const override {
    return packed_ ? panel_bytes() : 0;
  }
  int64_t scratch_bytes() const override {
    int64_t tasks = block_panels_ ? threads_ : row_blocks_ * column_blocks_;
    return own_panel_bytes() + std::min<int64_t>(threads_, tasks) * room_bytes();
  }
  std::string packed_form() const override {
    return absl::StrCat("panels ", product_.terms, "x", product_.columns, " of strides ",
                        term_stride_, ", ", column_stride_);
  }
  absl::Status pack(const void *b, void *packed) override {
    Call call{};
    call.matmul = this;
    call.b = static_cast<const float *>(b);
    call.panels = static_cast<float *>(packed);
    runtime::parallel_for(product_.panels(), pack_grain_, threads_, pack_some, &call);
    return absl::OkStatus();
  }
  absl::Status run(std::span<void *const> operands, void *scratch) override {
    Call call{this,
              static_cast<const float *>(operands[0]),
              static_cast<const float *>(operands[1]),
              has_bias_ ? static_cast<const float *>(operands[3]) : nullptr,
              static_cast<float *>(operands[2]),
              static_cast<float *>(packed_ ? operands[1] : scratch),
              static_cast<char *>(scratch) + own_panel_bytes(),
              operands.subspan(has_bias_ ? 4 : 3)};
    if (block_panels_) {
      runtime::parallel_for(product_.panels() / block_panels_, grain_, threads_, multiply_blocks,
                            &call);
    } else {
      if (!packed_)
        runtime::parallel_for(product_.panels(), pack_grain_, threads_, pack_some, &call);
      runtime::parallel_for(row_blocks_ * column_blocks_, grain_, threads_, multiply_some, &call);
    }
    return absl::OkStatus();
  }

private:
  struct Call {
    const TiledMatmul *matmul;
    const float *a, *b, *bias;
    float *c, *panels;
    char *rooms;                    // of the threads, each room_bytes()
    std::span<void *const> addends; // of post-ops
  };

  int64_t panel_bytes() const {
    return product_.packed_elements() * static_cast<int64_t>(sizeof(float));
  }

  // Of panels that the call packs for itself and all threads read, in scratch.
  int64_t own_panel_bytes() const {
    return packed_ || block_panels_ ? 0 : runtime::align(panel_bytes());
  }
  // A thread's: the panels of its block, and what a task copies of a transposed a.
  int64_t room_bytes() const {
    return block_bytes() + turned_bytes();
  }
  int64_t block_bytes() const {
    return runtime::align(block_panels_ * product_.terms * kPanelColumns *
                          static_cast<int64_t>(sizeof(float)));
  }
  int64_t turned_bytes() const {
    if (product_.a_term == 1)
      return 0;
    return runtime::align(task_rows_ * std::min(kPartTerms, product_.terms) *
                          static_cast<int64_t>(sizeof(float)));
  }

  void choose_blocks() {
    if (product_.rows > kMostBlockRows)
      return;
    bool turns = product_.a_term != 1;
    int64_t most = turns ? kTurnedBlockPanels : kBlockPanels,
            least = turns ? kTurnedPanels : kLeastBlockPanels, panels = product_.panels();
    for (int64_t of_thread = kLeastBlocks; of_thread * threads_ * least <= panels; ++of_thread) {
      int64_t blocks = of_thread * threads_;
      if (panels % blocks == 0 && panels / blocks <= most) {
        block_panels_ = panels / blocks;
        return;
      }
    }
  }

  // The post-ops of a part whose sums are whole.
  static void finish(const Call &call, const ResultPart &part) {
    const MatmulProblem &behind = call.matmul->behind_;
    if (!behind.post_ops.empty())
      apply_epilogue_to(part, behind, call.c, call.addends);
  }

  static int32_t pack_some(void *data, int, int64_t begin, int64_t end) {
    const Call &call = *static_cast<Call *>(data);
    const TiledMatmul &matmul = *call.matmul;
    pack_panels(matmul.product_, call.b, matmul.term_stride_, matmul.column_stride_, begin, end,
                call.panels);
    return 0;
  }
  // Tasks that follow each other read the same panels.
  static int32_t multiply_some(void *data, int thread, int64_t begin, int64_t end) {
    const Call &call = *static_cast<Call *>(data);
    const TiledMatmul &matmul = *call.matmul;
    const TiledProduct &product = matmul.product_;
    auto *room = reinterpret_cast<float *>(call.rooms + thread * matmul.room_bytes());
    for (int64_t task = begin; task < end; ++task) {
      int64_t row = task % matmul.row_blocks_ * matmul.task_rows_,
              last_row = std::min(row + matmul.task_rows_, product.rows),
              panel = task / matmul.row_blocks_ * matmul.task_panels_,
              last_panel = std::min(panel + matmul.task_panels_, product.panels());
      multiply_tiles(product, call.a, call.panels, call.bias, call.c, row, last_row, panel,
                     last_panel, room);
      finish(call, {row, last_row, panel * kPanelColumns,
                    std::min(last_panel * kPanelColumns, product.columns)});
    }
    return 0;
  }

  // Blocks of columns, each with panels of the thread's own.
  static int32_t multiply_blocks(void *data, int thread, int64_t begin, int64_t end) {
    const Call &call = *static_cast<Call *>(data);
    const TiledMatmul &matmul = *call.matmul;
    char *room = call.rooms + thread * matmul.room_bytes();
    auto *panels = reinterpret_cast<float *>(room),
         *turned = reinterpret_cast<float *>(room + matmul.block_bytes());
    for (int64_t block = begin; block < end; ++block) {
      TiledProduct product = matmul.product_;
      int64_t column = block * matmul.block_panels_ * kPanelColumns;
      product.columns = std::min(product.columns - column, matmul.block_panels_ * kPanelColumns);
      pack_panels(product, call.b + column * matmul.column_stride_, matmul.term_stride_,
                  matmul.column_stride_, 0, product.panels(), panels);
      for (int64_t row = 0; row < product.rows; row += matmul.task_rows_) {
        int64_t last_row = std::min(row + matmul.task_rows_, product.rows);
        multiply_tiles(product, call.a, panels, call.bias ? call.bias + column : nullptr,
                       call.c + column, row, last_row, 0, product.panels(), turned);
        finish(call, {row, last_row, column, column + product.columns});
      }
    }
    return 0;
  }

  TiledProduct product_;
  int64_t term_stride_, column_stride_;
  bool has_bias_, packed_;
  int threads_;
  MatmulProblem behind_; // its post-ops follow the sums
  int64_t row_blocks_, task_rows_, column_blocks_, task_panels_, grain_, pack_grain_;
  // Of a thread's blocks, a divisor of all; 0: b is packed as a whole.
  int64_t block_panels_ = 0;
};

} // namespace

bool has_tiled_matmul() {
  return prefers_product_tiles();
}

bool computes_by_tiles(const MatmulProblem &p) {
  if (!has_tiled_matmul() || p.c.dims.size() != 2 || p.accumulate)
    return false;
  for (const StridedShape *shape : {&p.a, &p.b, &p.c})
    if (shape->dtype != DType::kFloat32)
      return false;
  int64_t columns = p.c.dims[1];
  return p.c.dims[0] >= kFewestRows && p.c.strides[1] == 1 &&
         (p.a.strides[1] == 1 || (p.a.strides[0] == 1 && columns >= kFewestColumns)) &&
         (p.b.strides[0] == 1 || p.b.strides[1] == 1) && columns >= kPanelColumns / 2;
}

std::unique_ptr<OnednnMatmul> tiled_matmul(const MatmulProblem &problem, int threads, bool packed) {
  return std::make_unique<TiledMatmul>(problem, threads, packed);
}

} // namespace weft::backends::cpu

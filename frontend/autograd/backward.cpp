// Records the derivative of recorded calls: from the outputs down their history, each node once,
// after all that used its results.
#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "frontend/autograd/gradient_rows.h"
#include "frontend/autograd/hooks.h"
#include "frontend/autograd/lost_gradient.h"
#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/checkpoint.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/requests/requests.h"
#include "frontend/tensor/impl.h"
#include "weft/autograd.h"

namespace weft {

using namespace recorder;

NoGrad::NoGrad() : previous_(grad_mode()) {
  thread_grad_mode = false;
}
NoGrad::~NoGrad() {
  thread_grad_mode = previous_;
}
EnableGrad::EnableGrad() : previous_(grad_mode()) {
  thread_grad_mode = true;
}
EnableGrad::~EnableGrad() {
  thread_grad_mode = previous_;
}
bool grad_enabled() {
  return grad_mode();
}

namespace {

// Slices with gaps between them that are set side by side are at least so many: below it the sum of
// as many padded tensors is no loss.
constexpr size_t kManySlices = 8;

// The weight of an unrolled network is a factor at each step. Of its gradients by so many steps
// each is added by itself, as they come, which keeps ordinary networks in their order; those of
// further steps are left and become one product.
constexpr uint32_t kFewProducts = 4;
// Products of more rows than this are no cheaper together: below it, adding up whole weights costs
// more than the arithmetic. A program for many sizes has the same ops at each, and joins them all.
constexpr int64_t kFewRows = 128;

class Backward {
public:
  Backward(bool retain, bool create_graph)
      : retain_(retain || create_graph), create_graph_(create_graph) {}

  void add_output(const Var &output, const Tensor &weight, const char *what) {
    if (!output.grad)
      fail(ErrorKind::kState,
           std::string(what) +
               " does not depend on a tensor that requires grad, or history was switched off "
               "(NoGrad) when it was computed; a gradient depends on one where it is computed with "
               "create_graph = true and is not constant, as those of linear functions are" +
               without_derivative(output));
    Var g;
    if (weight.defined()) {
      g = read(weight, "gradient");
      if (g.dtype() != output.dtype() || g.dims() != output.dims() || g.device() != output.device())
        fail(g.device() != output.device() ? ErrorKind::kDevice
             : g.dims() != output.dims()   ? ErrorKind::kShape
                                           : ErrorKind::kDType,
             "the gradient is " + describe(g) + ", " + what + " is " + describe(output) +
                 ": they must have one dtype and shape, and lie on one device");
      if (!create_graph_)
        g = without_gradient(g);
    } else {
      if (output.type().elements != 1)
        fail(ErrorKind::kShape, std::string(what) + " has shape " + to_string(output.dims()) +
                                    ": only a tensor of one element has a derivative without a "
                                    "gradient to weigh it by");
      DerivativeScope mode(create_graph_);
      call_device = {output.device(), true};
      g = broadcast(emit_constant(1, output.dtype()), output.dims());
    }
    accumulate(output.grad, output.grad_index, std::move(g));
  }

  // Restricts the walk to what leads to the inputs, and collects their gradients instead of adding
  // to leaves.
  void restrict_to(std::span<const Var> inputs) {
    restricted_ = true;
    for (const Var &input : inputs)
      if (input.grad)
        wanted_.insert(input.grad.get());
    // Everything reachable, lowest number first: a node matters if it is wanted or one of its edges
    // matters.
    std::vector<GradNode *> reachable;
    std::unordered_set<GradNode *> seen;
    for (auto &[node, pending] : pending_)
      if (seen.insert(node).second)
        reachable.push_back(node);
    for (size_t i = 0; i < reachable.size(); ++i)
      for (const GradEdge &edge : reachable[i]->edges)
        if (edge.node && seen.insert(edge.node.get()).second)
          reachable.push_back(edge.node.get());
    std::sort(reachable.begin(), reachable.end(),
              [](GradNode *a, GradNode *b) { return a->number < b->number; });
    for (GradNode *node : reachable) {
      bool leads = false;
      for (const GradEdge &edge : node->edges)
        leads = leads ||
                (edge.node && (wanted_.count(edge.node.get()) || leading_.count(edge.node.get())));
      if (leads)
        leading_.insert(node);
    }
  }

  void run() {
    while (!queue_.empty()) {
      GradNode *node = queue_.top().second;
      queue_.pop();
      auto it = pending_.find(node);
      Pending pending = std::move(it->second);
      pending_.erase(it);
      add_bands(pending);
      add_products(pending);
      if (node->is_leaf())
        note_hooks(*node);
      if (node->hooks && (!restricted_ || wanted_.count(node) || leading_.count(node)))
        run_hooks(*node, pending);
      if (restricted_ && wanted_.count(node)) {
        found_[node] = {{pending.cotangents.begin(), pending.cotangents.end()},
                        std::move(pending.flat)};
      }
      if (node->is_leaf()) {
        if (restricted_ || pending.is_given || let_wait(pending))
          continue;
        if (pending.cotangents[0])
          add_to_leaf(*node, pending.cotangents[0]);
        else if (!node->grad.defined())
          add_to_leaf(*node, zeros_of(*node->leaf_type));
        continue;
      }
      if (restricted_ && !leading_.count(node))
        continue;
      auto reached = std::find_if(pending.cotangents.begin(), pending.cotangents.end(),
                                  [](const Var &g) { return static_cast<bool>(g); });
      if (node->is_flat || reached == pending.cotangents.end()) {
        // The values that a derivative would need are not needed for zeros, released or not.
        for (const GradEdge &edge : node->edges)
          reach(edge);
        note_done(*node);
        if (node->is_flat && !retain_) {
          node->released = true;
          node->hooks.reset();
        }
        continue;
      }
      if (node->released)
        fail(ErrorKind::kState, "the values that this derivative needs were released by an earlier "
                                "backward, at " +
                                    node->line->place() +
                                    " (one that failed, as by what a hook threw, releases what it "
                                    "had passed); pass retain_graph = true to that one, or "
                                    "detach() what a step carries over from the one before, "
                                    "such as a state");
      if (std::optional<Band> band = band_of(*node); band && node->edges[0].node) {
        // Left until all slices of the same value are there.
        const GradEdge &edge = node->edges[0];
        pending_of(edge.node).pieces.push_back(
            {*band, edge.index, GradRef(node), std::move(pending.cotangents[0])});
      } else {
        if (!node->given_up.empty())
          replay_.put_back(*node, *reached);
        std::optional<uint32_t> later;
        if (leave_product(*node, pending.cotangents[0]))
          later = 1;
        std::vector<Var> gradients = differentiate(
            *node, {pending.cotangents.begin(), pending.cotangents.size()}, create_graph_, later);
        for (uint32_t i = 0; i < node->edges.size(); ++i) {
          const GradEdge &edge = node->edges[i];
          if (edge.node && edge.node->is_flat)
            reach(edge);
          else if (edge.node && gradients[i])
            accumulate(edge.node, edge.index, std::move(gradients[i]));
        }
      }
      note_done(*node);
      if (!retain_) {
        node->released = true;
        node->line = Session::line(); // where, for whoever wants it again
        // A slice's derivative is recorded afterwards.
        node->saved.assign(node->saved.size(), ValueRef());
        node->given_up.clear();
        node->hooks.reset(); // functions may hold what was computed, and that this node
      } else if (!node->given_up.empty()) {
        Replay::give_up(*node);
      }
    }
    rows_.finish();
    replay_.clear();
    mark();
  }

  // The gradient of an input of restrict_to; null if no output depends on it.
  Var found(const Var &input) const {
    auto it = found_.find(input.grad.get());
    if (it == found_.end() || input.grad_index >= it->second.cotangents.size())
      return Var();
    const auto &[cotangents, flat] = it->second;
    if (!cotangents[input.grad_index] &&
        std::find(flat.begin(), flat.end(), input.grad_index) != flat.end())
      return zeros_of(input.type());
    return cotangents[input.grad_index];
  }

private:
  // The cotangent of a slice of a result.
  struct Piece {
    Band band;
    uint32_t index;
    GradRef slice;
    Var cotangent;
  };
  // One step's share in the gradient of y, result `index`, from x times y.
  struct Product {
    uint32_t index;
    bool transpose_y;
    Var x, cotangent;
  };
  struct Pending {
    GradRef node; // keeps it
    absl::InlinedVector<Var, 1> cotangents;
    std::vector<uint32_t> flat; // results that outputs depend on by a derivative of 0
    std::vector<Piece> pieces;
    bool is_given = false; // a leaf's gradient was there before the last op was differentiated
    uint32_t product_count = 0;
    std::vector<Product> products; // the last step first
  };

  Pending &pending_of(const GradRef &node) {
    auto [it, fresh] = pending_.try_emplace(node.get());
    if (fresh) {
      it->second.node = node;
      it->second.cotangents.resize(node->is_leaf() ? 1 : result_count(*node));
      queue_.push({node->number, node.get()});
    }
    return it->second;
  }

  void accumulate(const GradRef &node, uint32_t index, Var g) {
    add_to(pending_of(node).cotangents[index], std::move(g));
  }

  // Whether the gradient, which is all of the leaf's, is a sum over ranks that waits for others.
  bool let_wait(Pending &pending) {
    const GradNode &leaf = *pending.node;
    Var &gradient = pending.cotangents[0];
    if (restricted_ || leaf.hooks || !gradient || !pending.pieces.empty() ||
        !pending.products.empty() || !rank_sum_of(gradient))
      return false;
    count_uses();
    gradient = resharded_gradient(gradient, leaf.leaf_type);
    pending.is_given = rows_.take(pending.node, gradient);
    return pending.is_given;
  }

  // The gradients by its edges are there. Leaves that no op is left to be differentiated for have
  // all of theirs: sums over ranks begin to travel, while others are computed. Nobody counts before
  // there is such a sum.
  void note_done(const GradNode &node) {
    for (const GradEdge &edge : node.edges)
      if (auto left = uses_.find(edge.node.get()); left != uses_.end())
        --left->second;
    for (const GradEdge &edge : node.edges) {
      if (!edge.node || !edge.node->is_leaf())
        continue;
      auto pending = pending_.find(edge.node.get());
      if (pending == pending_.end() || !rank_sum_of(pending->second.cotangents[0]))
        continue;
      count_uses();
      if (uses_[edge.node.get()] == 0)
        let_wait(pending->second);
    }
  }

  // By which edges the ops that are left lead to each leaf.
  void count_uses() {
    if (std::exchange(counted_, true))
      return;
    int64_t bytes = 0;
    std::vector<GradNode *> reachable;
    std::unordered_set<GradNode *> seen;
    auto add = [&](GradNode *node) {
      if (!seen.insert(node).second)
        return;
      reachable.push_back(node);
      if (node->is_leaf())
        bytes += node->leaf_type->bytes;
    };
    for (auto &[node, pending] : pending_)
      add(node);
    for (size_t i = 0; i < reachable.size(); ++i)
      for (const GradEdge &edge : reachable[i]->edges)
        if (edge.node) {
          add(edge.node.get());
          if (edge.node->is_leaf())
            ++uses_[edge.node.get()];
        }
    rows_.expect(bytes);
  }

  // An output depends on it, by a derivative of 0. Zeros become a value where they end, and on
  // their way there are no ops for them: of a network of relus that would be all of its products.
  void reach(const GradEdge &edge) {
    if (edge.node)
      pending_of(edge.node).flat.push_back(edge.index);
  }

  // The functions first, in the order that they were registered in: what tensors keep is what they
  // leave, as in PyTorch. Zeros of a derivative of 0 are a gradient, too.
  void run_hooks(const GradNode &node, Pending &pending) {
    const std::vector<GradHook> hooks = *node.hooks; // which a function may add to
    for (bool keeps : {false, true}) {
      for (const GradHook &hook : hooks) {
        Var &g = pending.cotangents[hook.index];
        if (static_cast<bool>(hook.kept) != keeps ||
            (!g && std::ranges::find(pending.flat, hook.index) == pending.flat.end()))
          continue;
        if (Var changed =
                keeps ? Var() : call_hook(hook, g ? g : zeros_of(*hook.type), create_graph_))
          g = std::move(changed);
        if (keeps)
          add_to_leaf(*hook.kept, g ? g : zeros_of(*hook.type));
      }
    }
  }

  static Var zeros_of(const TypeInfo &type) {
    call_device = {type.device, true};
    return broadcast(emit_constant(0, type.dtype), type.dims);
  }

  void add_to(Var &sum, Var g) {
    if (!sum) {
      sum = std::move(g);
      return;
    }
    DerivativeScope mode(create_graph_);
    sum = emit_add(sum, g);
  }

  // Adds the cotangents of slices. By the rule each would be a tensor of zeros with the slice's
  // cotangent in it, and their sum quadratic in the steps of an unrolled network; those that do not
  // overlap are instead set side by side. Not so a few slices with gaps between them, such as three
  // rows of a table: where they lie may change from step to step, which is a matter of numbers by
  // the rule, but of another program for what is set side by side.
  void add_bands(Pending &pending) {
    std::vector<Piece> &pieces = pending.pieces;
    std::sort(pieces.begin(), pieces.end(), [](const Piece &a, const Piece &b) {
      return std::tie(a.index, a.band.dim, a.band.start, a.slice->number) <
             std::tie(b.index, b.band.dim, b.band.start, b.slice->number);
    });
    for (size_t first = 0, last; first < pieces.size(); first = last) {
      auto of_first = [&](const Piece &piece) {
        return piece.index == pieces[first].index && piece.band.dim == pieces[first].band.dim;
      };
      for (last = first + 1; last < pieces.size() && of_first(pieces[last]);)
        ++last;
      // Rows of pieces that do not overlap, as few as there can be: each piece joins the row that
      // ends first, if that is before it.
      std::vector<std::vector<const Piece *>> rows;
      std::priority_queue<std::pair<int64_t, size_t>, std::vector<std::pair<int64_t, size_t>>,
                          std::greater<>>
          ends;
      for (size_t i = first; i < last; ++i) {
        size_t row = rows.size();
        if (!ends.empty() && ends.top().first <= pieces[i].band.start) {
          row = ends.top().second;
          ends.pop();
        } else {
          rows.emplace_back();
        }
        rows[row].push_back(&pieces[i]);
        ends.emplace(pieces[i].band.limit, row);
      }
      Var &sum = pending.cotangents[pieces[first].index];
      std::vector<const Piece *> apart;
      for (const auto &row : rows) {
        int64_t covered = 0, all = pieces[first].band.from->dims[pieces[first].band.dim];
        for (const Piece *piece : row)
          covered += piece->band.limit - piece->band.start;
        if (row.size() > 1 && (covered == all || (row.size() >= kManySlices && 2 * covered >= all)))
          add_to(sum, side_by_side(row));
        else
          apart.insert(apart.end(), row.begin(), row.end());
      }
      // In an order that does not depend on where they lie: the last slice first, as they came.
      std::sort(apart.begin(), apart.end(),
                [](const Piece *a, const Piece *b) { return a->slice->number > b->slice->number; });
      for (const Piece *piece : apart)
        add_to(sum, differentiate(*piece->slice, {&piece->cotangent, 1}, create_graph_)[0]);
    }
    pieces.clear();
  }

  // What the slices of one value leave of its cotangent: theirs, and zeros between them.
  Var side_by_side(const std::vector<const Piece *> &row) {
    DerivativeScope mode(create_graph_);
    const TypeInfo &whole = *row[0]->band.from;
    call_device = {whole.device, true};
    std::vector<Var> parts;
    int64_t at = 0, dim = row[0]->band.dim;
    auto zeros_to = [&](int64_t limit) {
      if (limit == at)
        return;
      Shape dims = whole.dims;
      dims[dim] = limit - at;
      parts.push_back(broadcast(emit_constant(0, whole.dtype), dims));
    };
    for (const Piece *piece : row) {
      zeros_to(piece->band.start);
      if (piece->band.limit > piece->band.start)
        parts.push_back(piece->cotangent);
      at = piece->band.limit;
    }
    zeros_to(whole.dims[dim]);
    return parts.size() == 1 ? parts[0] : emit_concat(parts, dim);
  }

  // True where the node is one of many products by the same y, whose gradient waits for all of
  // them.
  bool leave_product(const GradNode &node, const Var &cotangent) {
    if (node.edges.size() != 2 || !node.edges[1].node || !node.saved[0])
      return false;
    const Trace *trace = thread_trace;
    std::optional<bool> transpose_y =
        row_product_of(node, trace && trace->many_sizes ? INT64_MAX : kFewRows);
    // Rows that ranks have parts of would be gathered to stand below each other.
    if (!transpose_y || cotangent.type().part || node.saved[0]->type->part)
      return false;
    Pending &of_y = pending_of(node.edges[1].node);
    if (of_y.product_count++ < kFewProducts)
      return false;
    Var x{node.saved[0], node.edges[0].node, node.edges[0].index};
    of_y.products.push_back(
        {node.edges[1].index, *transpose_y, create_graph_ ? x : x.without_history(), cotangent});
    return true;
  }

  // The rows of all steps. Where steps have as many, those of one number come together, step by
  // step: the number of rows stays the first dim, so that one program serves all of them where it
  // varies. Below each other are steps of different numbers of rows.
  static Var all_rows(const std::vector<Var> &steps) {
    if (steps.size() == 1)
      return steps[0];
    const Shape &dims = steps[0].dims();
    bool alike = std::all_of(steps.begin(), steps.end(),
                             [&](const Var &step) { return step.dims()[0] == dims[0]; });
    if (!alike)
      return emit_concat(steps, 0);
    std::vector<Var> beside;
    for (const Var &step : steps)
      beside.push_back(emit_reshape(step, {dims[0], 1, dims[1]}));
    return emit_reshape(emit_concat(beside, 1),
                        {dims[0] * static_cast<int64_t>(steps.size()), dims[1]});
  }

  // The sum over steps of x^T g is one product, of the rows of all steps.
  void add_products(Pending &pending) {
    // By what they are gradients of and their shapes: x and g of each step, the first step first.
    std::map<std::tuple<uint32_t, bool, int64_t, int64_t>,
             std::pair<std::vector<Var>, std::vector<Var>>>
        alike;
    for (auto product = pending.products.rbegin(); product != pending.products.rend(); ++product) {
      auto &[xs, gs] = alike[{product->index, product->transpose_y, product->x.dims()[1],
                              product->cotangent.dims()[1]}];
      xs.push_back(product->x);
      gs.push_back(product->cotangent);
    }
    DerivativeScope mode(create_graph_);
    for (const auto &[of, steps] : alike) {
      auto [index, transpose_y, depth, columns] = of;
      const auto &[xs, gs] = steps;
      Var x = all_rows(xs), g = all_rows(gs);
      add_to(pending.cotangents[index],
             transpose_y ? emit_matmul(g, x, true, false) : emit_matmul(x, g, true, false));
    }
    pending.products.clear();
  }

  void add_to_leaf(GradNode &leaf, const Var &gradient) {
    if (Trace *trace = thread_trace)
      trace->on_grad(&leaf);
    Var g = resharded_gradient(gradient, leaf.leaf_type);
    if (!leaf.grad.defined()) {
      leaf.grad = wrap_quietly(create_graph_ ? g : g.without_history());
      return;
    }
    refuse_lost_gradient(leaf);
    DerivativeScope mode(create_graph_);
    Var sum = emit_add(read(leaf.grad, "grad"), g);
    if (create_graph_)
      leaf.grad = wrap_quietly(sum);
    else
      write(leaf.grad, sum.without_history());
  }

  bool retain_, create_graph_, restricted_ = false, counted_ = false;
  GradientRows rows_{[this](GradNode &leaf, const Var &gradient) { add_to_leaf(leaf, gradient); }};
  std::unordered_map<const GradNode *, uint32_t> uses_; // of leaves, once counted
  Replay replay_;
  std::unordered_map<GradNode *, Pending> pending_;
  // Highest number first: whoever uses a node's results was recorded after it.
  std::priority_queue<std::pair<uint64_t, GradNode *>> queue_;
  std::unordered_set<GradNode *> wanted_, leading_;
  struct Found { // of Pending
    std::vector<Var> cotangents;
    std::vector<uint32_t> flat;
  };
  std::unordered_map<GradNode *, Found> found_;
};

} // namespace

void Tensor::backward(const Tensor &gradient, bool retain_graph, bool create_graph,
                      Location location) const {
  Session session("backward", location);
  Backward backward(retain_graph, create_graph);
  backward.add_output(read(*this, "self"), gradient, "the tensor");
  backward.run();
}

// What the first output says that has something to say.
static std::string without_derivative(const std::vector<Tensor> &outputs) {
  for (const Tensor &output : outputs)
    if (std::string why = without_derivative(read(output, "outputs")); !why.empty())
      return why;
  return "";
}

std::vector<Tensor> grad(const std::vector<Tensor> &outputs, const std::vector<Tensor> &inputs,
                         const GradOptions &options, Location location) {
  Session session("grad", location);
  if (!options.grad_outputs.empty() && options.grad_outputs.size() != outputs.size())
    fail(ErrorKind::kValue, std::to_string(options.grad_outputs.size()) + " grad_outputs for " +
                                std::to_string(outputs.size()) + " outputs");
  std::vector<Var> wanted;
  for (const Tensor &input : inputs) {
    wanted.push_back(read(input, "inputs"));
    if (!wanted.back().grad)
      fail(ErrorKind::kState,
           "input " + std::to_string(wanted.size() - 1) + " does not require grad");
  }
  Backward backward(options.retain_graph, options.create_graph);
  for (size_t i = 0; i < outputs.size(); ++i)
    backward.add_output(read(outputs[i], "outputs"),
                        options.grad_outputs.empty() ? Tensor() : options.grad_outputs[i],
                        "an output");
  backward.restrict_to(wanted);
  backward.run();
  std::vector<Tensor> result;
  for (size_t i = 0; i < wanted.size(); ++i) {
    Var g = backward.found(wanted[i]);
    if (!g && !options.allow_unused)
      fail(ErrorKind::kState, "no output depends on input " + std::to_string(i) +
                                  "; pass allow_unused = true to get an undefined tensor for it" +
                                  without_derivative(outputs));
    if (g)
      g = resharded(g, wanted[i].value->type);
    result.push_back(g ? wrap_quietly(options.create_graph ? g : g.without_history()) : Tensor());
  }
  return result;
}

} // namespace weft

#include "tools/profile/table.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <limits>
#include <unordered_map>

#include "absl/strings/str_cat.h"

namespace weft::profile {
namespace {

// Work of a device: instructions of programs, and what goes between devices and ranks.
bool is_instruction(const SpanKind &kind) {
  for (const char *category : {"kernel", "library", "copy", "fill", "transfer", "collective"})
    if (kind.category == category)
      return true;
  return false;
}

// What follows the kernel's number in a model: "out_k12_matmul_relu" -> "matmul_relu".
std::string_view behind_number(std::string_view name) {
  for (size_t at = name.rfind("_k"); at != std::string_view::npos && at > 0;
       at = name.rfind("_k", at - 1)) {
    size_t end = name.find_first_not_of("0123456789", at + 2);
    if (end != name.npos && end != at + 2 && end + 1 < name.size() && name[end] == '_')
      return name.substr(end + 1);
  }
  return name;
}

// "weft_matmul_relu_0123456789abcdef" -> "matmul_relu", and so "weft_MODEL_k0_matmul_relu" of a
// model that was compiled ahead of time.
std::string op_of(const SpanKind &kind) {
  constexpr std::string_view kPrefix = "weft_";
  constexpr size_t kDigits = 16;
  std::string_view name = kind.name;
  if (kind.category != "kernel" || !name.starts_with(kPrefix))
    return kind.name;
  name.remove_prefix(kPrefix.size());
  size_t hash = name.rfind('_');
  if (hash != std::string_view::npos && name.size() - hash - 1 == kDigits)
    name = name.substr(0, hash);
  else
    name = behind_number(name);
  return name.size() == kDigits && std::all_of(name.begin(), name.end(), ::isxdigit)
             ? "kernel"
             : std::string(name);
}

// That which recorded the instruction; of one that says none, that of a weight, "encoder.0.up" of
// "encoder.0.up.weight".
std::string module_of(const SpanKind &kind) {
  if (!kind.module.empty())
    return kind.module;
  for (const std::string &name : kind.reads)
    if (size_t dot = name.rfind('.'); dot != std::string::npos)
      return name.substr(0, dot);
  return "(outside of named modules)";
}

std::string group_of(const SpanKind &kind, By by) {
  switch (by) {
  case By::kKernel:
    return kind.category == "library" ? kind.name + " " + kind.types : kind.name;
  case By::kLine:
    return kind.line.empty() ? "(no line)" : kind.line;
  case By::kModule:
    return module_of(kind);
  case By::kOp:
    return op_of(kind);
  case By::kPhase:
    return kind.category + ": " + kind.name;
  }
  return "";
}

struct Row {
  std::string name, line;
  bool has_other_lines = false;
  int64_t calls = 0;
  double time = 0;                  // nanoseconds
  double flops = 0, bytes = 0;      // of all calls
  double known_time = 0, least = 0; // of calls of which the least time is known
  double best = 0;                  // the largest share of the roofline that a call reached
  double lost() const {
    return std::max(known_time - least, 0.0);
  }
};

std::vector<Row> rows_of(const Trace &trace, const Peaks &peaks, By by) {
  std::vector<Row> rows;
  std::unordered_map<std::string, size_t> numbers;
  std::vector<size_t> of_kind(trace.kinds.size(), std::numeric_limits<size_t>::max());
  for (const Span &span : trace.spans) {
    const SpanKind &kind = trace.kinds[static_cast<size_t>(span.kind)];
    if (is_instruction(kind) == (by == By::kPhase))
      continue;
    size_t &number = of_kind[static_cast<size_t>(span.kind)];
    if (number == std::numeric_limits<size_t>::max()) {
      std::string group = group_of(kind, by);
      auto [it, fresh] = numbers.try_emplace(group, rows.size());
      number = it->second;
      if (fresh)
        rows.push_back({group, kind.line});
      Row &row = rows[number];
      row.has_other_lines = row.has_other_lines || kind.line != row.line;
    }
    Row &row = rows[number];
    auto time = static_cast<double>(by == By::kPhase ? span.self : span.duration);
    ++row.calls;
    row.time += time;
    row.flops += kind.flops;
    row.bytes += kind.bytes;
    if (double least = least_time(kind, peaks); least > 0 && by != By::kPhase) {
      row.known_time += time;
      row.least += least;
      row.best = std::max(row.best, least / std::max(time, 1.0));
    }
  }
  return rows;
}

std::string number(const char *format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string milliseconds(double nanoseconds) {
  return number("%.3f", nanoseconds * 1e-6);
}

std::string share(double part, double whole) {
  return whole > 0 ? number("%.1f", 100 * part / whole) : "-";
}

// Columns to the right but for the last one.
class Columns {
public:
  void add(std::vector<std::string> row) {
    widths_.resize(std::max(widths_.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i)
      widths_[i] = std::max(widths_[i], row[i].size());
    rows_.push_back(std::move(row));
  }
  std::string text() const {
    std::string text;
    for (const std::vector<std::string> &row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) {
        bool is_last = i + 1 == row.size();
        if (!is_last)
          text.append(widths_[i] - row[i].size(), ' ');
        text += row[i];
        text += is_last ? "\n" : "  ";
      }
    }
    return text;
  }

private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> widths_;
};

const char *title(By by) {
  switch (by) {
  case By::kKernel:
    return "kernel or library call";
  case By::kLine:
    return "line";
  case By::kModule:
    return "module";
  case By::kOp:
    return "op";
  case By::kPhase:
    return "phase";
  }
  return "";
}

// Time that is not an instruction's, by what it is.
std::string outside(const Trace &trace, double wall) {
  struct Part {
    const char *name;
    std::vector<std::string_view> categories;
    double time = 0;
    int64_t calls = 0;
  };
  std::vector<Part> parts = {
      {"between the instructions of programs", {"program", "evaluation"}},
      {"preparing weights ahead of runs", {"prepare"}},
      {"submitting: slices, memory, starts of runs", {"submit"}},
      {"finding programs", {"find"}},
      {"disk cache", {"cache"}},
      {"compiling: phases", {"compile", "phase"}},
      {"compiling: machine code of kernels", {"codegen", "link"}},
      {"waiting for runs to end", {"wait"}},
  };
  struct Thread {
    int64_t covered = 0;
    bool asks = false; // it submits or waits
  };
  std::map<int32_t, Thread> threads;
  for (const Span &span : trace.spans) {
    const SpanKind &kind = trace.kinds[static_cast<size_t>(span.kind)];
    Thread &thread = threads[span.thread];
    if (span.is_outermost)
      thread.covered += span.duration;
    thread.asks = thread.asks || kind.category == "submit" || kind.category == "find";
    for (Part &part : parts)
      if (std::find(part.categories.begin(), part.categories.end(), kind.category) !=
          part.categories.end()) {
        part.time += static_cast<double>(span.self);
        ++part.calls;
      }
  }
  std::string text = "outside of instructions (of all threads):\n";
  Columns columns;
  auto add = [&](const std::string &name, double time, int64_t calls) {
    columns.add({"", milliseconds(time) + " ms", share(time, wall) + " %",
                 calls > 0 ? absl::StrCat(calls, " x") : "", name});
  };
  for (const Part &part : parts)
    if (part.calls > 0)
      add(part.name, part.time, part.calls);
  for (const auto &[number, thread] : threads)
    if (thread.asks) {
      auto name = trace.threads.find(number);
      add(absl::StrCat("recording and the program's own code, on the thread '",
                       name == trace.threads.end() ? absl::StrCat(number) : name->second, "'"),
          std::max(wall - static_cast<double>(thread.covered), 0.0), 0);
    }
  return text + columns.text();
}

double wall_of(const Trace &trace) {
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
  for (const Span &span : trace.spans) {
    begin = std::min(begin, span.begin);
    end = std::max(end, span.begin + span.duration);
  }
  return trace.spans.empty() ? 0 : static_cast<double>(end - begin);
}

void sort_rows(std::vector<Row> &rows, Sort by) {
  auto amount = [by](const Row &row) {
    return by == Sort::kCalls  ? static_cast<double>(row.calls)
           : by == Sort::kLost ? row.lost()
                               : row.time;
  };
  std::sort(rows.begin(), rows.end(), [&](const Row &a, const Row &b) {
    return amount(a) != amount(b) ? amount(a) > amount(b) : a.name < b.name;
  });
}

} // namespace

double least_time(const SpanKind &kind, const Peaks &peaks) {
  // What goes between devices and ranks has another roof, and waits for others.
  if (peaks.gflops <= 0 || peaks.gbs <= 0 || kind.category == "transfer" ||
      kind.category == "collective")
    return 0;
  return std::max(kind.flops / peaks.gflops, kind.bytes / peaks.gbs);
}

std::string table(const Trace &trace, const Peaks &peaks, const TableOptions &options) {
  double wall = wall_of(trace);
  std::vector<Row> rows = rows_of(trace, peaks, options.by);
  double whole = 0, known = 0, least = 0;
  for (const Row &row : rows) {
    whole += row.time;
    known += row.known_time;
    least += row.least;
  }
  sort_rows(rows, options.sort);
  bool phases = options.by == By::kPhase, roofs = peaks.gflops > 0 && !phases;
  Columns columns;
  std::vector<std::string> head = {"ms", "%", "calls", "us/call"};
  if (!phases)
    head.insert(head.end(), {"GFLOP/s", "GB/s"});
  if (roofs)
    head.insert(head.end(), {"% of roof", "best", "bound", "lost ms"});
  head.push_back(title(options.by));
  columns.add(head);
  size_t shown =
      options.top > 0 ? std::min(rows.size(), static_cast<size_t>(options.top)) : rows.size();
  double rest = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row &row = rows[i];
    if (i >= shown) {
      rest += row.time;
      continue;
    }
    std::vector<std::string> cells = {
        milliseconds(row.time), share(row.time, whole), absl::StrCat(row.calls),
        number("%.1f", row.time / static_cast<double>(row.calls) * 1e-3)};
    auto pace = [&](double amount) {
      return amount > 0 && row.time > 0 ? number("%.1f", amount / row.time) : "-";
    };
    if (!phases) {
      cells.push_back(pace(row.flops));
      cells.push_back(pace(row.bytes));
    }
    if (roofs) {
      cells.push_back(row.least > 0 ? share(row.least, row.known_time) : "-");
      cells.push_back(row.least > 0 ? share(row.best, 1) : "-");
      cells.push_back(row.least <= 0                                     ? "-"
                      : row.flops / peaks.gflops > row.bytes / peaks.gbs ? "flops"
                                                                         : "bytes");
      cells.push_back(row.least > 0 ? milliseconds(row.lost()) : "-");
    }
    bool says_line = options.by == By::kKernel && !row.line.empty();
    cells.push_back(row.name + (says_line ? "  " + row.line : "") +
                    (says_line && row.has_other_lines ? " and others" : ""));
    columns.add(std::move(cells));
  }
  std::string text = columns.text();
  if (shown < rows.size())
    absl::StrAppend(&text, "and ", rows.size() - shown, " more, ", milliseconds(rest),
                    " ms; --top=0 shows all\n");
  absl::StrAppend(&text, "\n", milliseconds(whole), " ms in ", phases ? "phases" : "instructions",
                  ", ", milliseconds(wall), " ms from the first event to the last one");
  if (roofs && least > 0)
    absl::StrAppend(&text, "; the roofline is at ", milliseconds(least), " ms (",
                    share(least, known), " %)");
  text += "\n";
  if (!phases)
    text += outside(trace, wall);
  for (const auto &[name, peak] : trace.peaks)
    absl::StrAppend(&text, name, ": at most ", number("%.1f", static_cast<double>(peak) / 1048576),
                    " MiB\n");
  if (trace.dropped > 0)
    absl::StrAppend(&text, trace.dropped, " events were dropped: sums are too low\n");
  return text;
}

} // namespace weft::profile

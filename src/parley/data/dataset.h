// Data in memory: loaded once, never changed, shared by all clients.
//
// Features stay bytes where they came as bytes (images): a batch is converted when it is gathered.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "parley/data/values.h"
#include "parley/tensor/flat.h"

namespace parley {

// x ↦ x·scale + shift, one pair a channel (the first extent of the shape), or a single pair for
// all.
struct Affine {
  std::vector<float> scale;
  std::vector<float> shift;
};

// What the values are: this decides what data.normalize = "auto" does with them.
enum class Content {
  numbers,       // bytes of images, or numbers on a scale that the user has chosen
  measurements,  // numbers on scales of their own (sensors, statistics): standardised
  tokens,        // names of words or characters: no arithmetic makes sense on them
};

// Examples of one kind. Row-major: example i has features [i·features(), (i+1)·features()).
struct Dataset {
  std::string name;
  std::vector<std::int64_t> shape;  // of one example: {1, 28, 28} or {561}
  std::variant<Values<std::uint8_t>, Values<float>> values;
  Content content = Content::numbers;
  Affine transform;                  // applied on the way into a batch; empty: values as they are
  std::vector<std::int32_t> labels;  // classification: one a row, in [0, classes)
  std::size_t classes = 0;           // 0 for regression
  std::vector<float> targets;        // regression: `target_size` a row
  std::size_t target_size = 0;
  Affine target_transform;               // what was done to the targets already, one pair each; empty: nothing
  std::vector<std::int32_t> users;       // natural owner of each row; empty when the source has none
  std::vector<std::string> class_names;  // may be empty
  // Of the features, then of the targets, where the source has names: "age", "sex=f", "sex (f, m)". Empty otherwise.
  std::vector<std::string> columns = {};

  std::size_t size() const;      // rows
  std::size_t features() const;  // floats a row
  std::size_t bytes() const;     // memory of values, labels and targets
};

struct TrainTest {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
};
inline TrainTest share(Dataset train, Dataset test) {
  return {std::make_shared<const Dataset>(std::move(train)), std::make_shared<const Dataset>(std::move(test))};
}

// Some rows of a data set, in a given order, as one client sees them. Cheap to copy; the rows must
// outlive it.
struct View {
  const Dataset* data = nullptr;
  std::span<const std::uint32_t> rows;
  // Optional: feature j of the client is feature permutation[j] of the data set (the `permuted`
  // partition).
  std::span<const std::uint32_t> permutation = {};

  std::size_t size() const { return rows.size(); }
};

// A mini-batch, ready for a model. The spans live in the BatchBuffer that gathered it.
struct Batch {
  std::size_t size = 0;
  std::span<const float> inputs;         // size × features, row-major
  std::span<const std::int32_t> labels;  // classification
  std::span<const float> targets;        // regression, size × target_size
};

// Gathers batches without allocating once it has grown to the largest batch. One a worker thread.
class BatchBuffer {
 public:
  // The examples at these positions of the view. Valid until the next call.
  Batch gather(const View& view, std::span<const std::uint32_t> positions);
  // The examples [begin, end) of the view.
  Batch gather_range(const View& view, std::size_t begin, std::size_t end);

 private:
  template <class RowOf>
  Batch fill(const View& view, std::size_t count, RowOf row_of);

  Flat inputs_;
  std::vector<std::int32_t> labels_;
  std::vector<float> targets_;
};

// Every row of a data set, for evaluation; owns its indices.
class WholeView {
 public:
  explicit WholeView(const Dataset& data);
  const View& view() const { return view_; }

 private:
  std::vector<std::uint32_t> rows_;
  View view_;
};

}  // namespace parley

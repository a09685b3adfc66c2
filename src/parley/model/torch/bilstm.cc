#include "parley/model/torch/networks.h"
#include "parley/model/torch/pair.h"

namespace parley {
namespace {

namespace rnn = torch::nn::utils::rnn;

// Where a text ends: behind its last token that is not padding. An empty one has a token of padding.
torch::Tensor lengths_of(const torch::Tensor& ids) {
  const torch::Tensor ends = torch::arange(1, ids.size(1) + 1, torch::kLong);
  return std::get<0>(((ids != 0) * ends).max(1)).clamp_min(1);
}

struct LstmPlan {
  std::int64_t vocabulary, embedding, hidden, outputs;
  bool both_directions, every_position;

  std::int64_t width() const { return both_directions ? 2 * hidden : hidden; }  // of a layer's states
};

constexpr std::size_t kLayers = 2;

// Token ids -> embedding -> two layers of LSTM, perhaps in both directions -> dense layer on the last state of each.
// Beside another, each layer has the other's states α·a beside its own inputs: V are columns of its input weights, and
// Eq. 3.14 holds for each of the LSTM's gates.
class TextLstm final : public PairedNetwork {
 public:
  explicit TextLstm(const LstmPlan& plan, TextLstm* shared = nullptr)
      : plan_(plan), embedding_(register_module("embedding", torch::nn::Embedding(plan.vocabulary, plan.embedding))) {
    if (shared == nullptr) {
      lstm_.push_back(register_module("lstm", torch::nn::LSTM(lstm_options(plan.embedding).num_layers(kLayers))));
    } else {
      for (const std::int64_t inputs : {plan.embedding, plan.width()}) {
        lstm_.push_back(register_module(fmt::format("lstm{}", lstm_.size() + 1),
                                        torch::nn::LSTM(lstm_options(inputs + plan.width()))));
      }
      listen_to(*shared, {0, 0, plan.outputs});
    }
    fc_ = register_module("fc", Dense(plan.width(), plan.outputs));
  }

  torch::Tensor forward(const torch::Tensor& inputs) override {
    const torch::Tensor last = read(ids_of(inputs)).last;  // [directions, batch, hidden]
    return outputs(kLayers, fc_(plan_.both_directions ? torch::cat({last[0], last[1]}, 1) : last[0]));
  }

  // The token that follows each one, and the label behind the last. A token is its class + 1.
  std::optional<Graded> grade(const torch::Tensor& inputs, std::span<const std::int32_t> labels) override {
    if (!plan_.every_position) return std::nullopt;
    const torch::Tensor ids = ids_of(inputs), lengths = lengths_of(ids);
    const auto [states, counts] = rnn::pad_packed_sequence(read(ids).states, /*batch_first=*/true);
    const torch::Tensor last =
        torch::from_blob(const_cast<std::int32_t*>(labels.data()), {ids.size(0), 1}, torch::kInt);
    const torch::Tensor next = torch::cat({ids.slice(1, 1), torch::zeros({ids.size(0), 1}, torch::kLong)}, 1)
                                   .scatter(1, lengths.unsqueeze(1) - 1, last.to(torch::kLong) + 1)
                                   .slice(1, 0, states.size(1));
    const torch::Tensor known = next > 0;
    const torch::Tensor wanted = (next.masked_select(known) - 1).to(torch::kInt).contiguous();
    const auto* first = wanted.data_ptr<std::int32_t>();
    return Graded{.outputs = outputs(kLayers, fc_(states.index({known}))), .labels = {first, first + wanted.numel()}};
  }

  std::shared_ptr<Network> with_private() const override { return make_beside<TextLstm>(plan_); }

 private:
  torch::Tensor ids_of(const torch::Tensor& inputs) const {
    torch::Tensor ids = inputs.round().to(torch::kLong);
    check(ids);
    return ids;
  }

  torch::nn::LSTMOptions lstm_options(std::int64_t inputs) const {
    return torch::nn::LSTMOptions(inputs, plan_.hidden).bidirectional(plan_.both_directions);
  }

  // Of the last layer: its states at all positions, and behind the last of each row.
  struct States {
    rnn::PackedSequence states;
    torch::Tensor last;  // [directions, batch, hidden]
  };
  States read(const torch::Tensor& ids) {
    const auto text = rnn::pack_padded_sequence(embedding_(ids), lengths_of(ids), /*batch_first=*/true,
                                                /*enforce_sorted=*/false);
    const torch::Tensor nothing = torch::zeros({plan_.width() / plan_.hidden, ids.size(0), plan_.hidden});
    torch::Tensor x = text.data(), last;  // rows are positions, all texts' first ones first
    for (std::size_t l = 0; l < kLayers; ++l) {
      if (listens()) x = torch::cat({x, heard(l)}, 1);
      std::tie(x, last, std::ignore) =
          torch::lstm(x, text.batch_sizes(), {nothing, nothing}, weights_of(l), /*has_biases=*/true, /*num_layers=*/1,
                      /*dropout=*/0.0, is_training(), plan_.both_directions);
      tell(l, x);
    }
    return {rnn::PackedSequence(x, text.batch_sizes(), text.sorted_indices(), text.unsorted_indices()),
            last.index_select(1, text.unsorted_indices())};
  }

  std::vector<torch::Tensor> weights_of(std::size_t layer) const {
    if (listens()) return lstm_[layer]->all_weights();
    const auto all = lstm_.front()->all_weights();
    const auto count = static_cast<std::ptrdiff_t>(all.size() / kLayers);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(layer) * count;
    return {begin, begin + count};
  }

  void check(const torch::Tensor& ids) const {
    const auto lowest = ids.min().item<std::int64_t>(), highest = ids.max().item<std::int64_t>();
    if (lowest >= 0 && highest < plan_.vocabulary) return;
    fail<RunError>("model.vocabulary = {}: the data has a token {}, expected 0 (padding) to {}: raise model.vocabulary",
                   plan_.vocabulary, lowest < 0 ? lowest : highest, plan_.vocabulary - 1);
  }

  LstmPlan plan_;
  torch::nn::Embedding embedding_;
  std::vector<torch::nn::LSTM> lstm_;  // both layers in one or, beside another network, each by itself
  Dense fc_{nullptr};
};

std::unique_ptr<Model> make_text_lstm(const std::string& name, const Options& options, const Task& task,
                                      bool both_directions, bool every_position = false) {
  if (task.input_shape.size() != 1) {
    fail("model.name: '{}' needs rows of token ids, shape [tokens]; the data has {}: choose text data", name,
         describe_shape(task.input_shape));
  }
  const LstmPlan plan{.vocabulary = options.integer("vocabulary"),
                      .embedding = options.integer("embedding"),
                      .hidden = options.integer("hidden"),
                      .outputs = static_cast<std::int64_t>(task.outputs),
                      .both_directions = both_directions,
                      .every_position = every_position};
  return make_network_model(name, std::make_shared<TextLstm>(plan), task);
}

// Where tokens and classes are the same characters, each token says what should have been told before it.
void require_characters(const Options& options, const Task& task) {
  const std::int64_t vocabulary = options.integer("vocabulary");
  if (task.loss == Loss::cross_entropy && vocabulary == static_cast<std::int64_t>(task.outputs) + 1) return;
  fail(
      "model.loss_at = \"every\": each token must be one of the classes to tell, as in shakespeare, where token = "
      "class "
      "+ 1 and vocabulary = classes + 1; vocabulary is {}, and the data asks for {} outputs: use \"last\"",
      vocabulary, task.outputs);
}

}  // namespace

std::unique_ptr<Model> make_bilstm(const std::string& name, const Options& options, const Task& task) {
  return make_text_lstm(name, options, task, true);
}

std::unique_ptr<Model> make_char_lstm(const std::string& name, const Options& options, const Task& task) {
  const bool every_position = options.text("loss_at") == "every";
  if (every_position) require_characters(options, task);
  return make_text_lstm(name, options, task, false, every_position);
}

}  // namespace parley

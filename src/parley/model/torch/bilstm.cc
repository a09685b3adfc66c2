#include "parley/model/torch/network.h"
#include "parley/model/torch/networks.h"
#include "parley/model/torch/shown_layers.h"

namespace parley {
namespace {

namespace rnn = torch::nn::utils::rnn;

// Where a text ends: behind its last token that is not padding. An empty one has a token of padding.
torch::Tensor lengths_of(const torch::Tensor& ids) {
  const torch::Tensor ends = torch::arange(1, ids.size(1) + 1, torch::kLong);
  return std::get<0>(((ids != 0) * ends).max(1)).clamp_min(1);
}

// Token ids -> embedding -> two layers of LSTM, perhaps in both directions -> dense layer on the last state of each.
class TextLstm final : public Network {
 public:
  TextLstm(const Options& options, const Task& task, bool both_directions, bool every_position)
      : both_directions_(both_directions),
        every_position_(every_position),
        vocabulary_(options.integer("vocabulary")),
        embedding_(register_module("embedding", torch::nn::Embedding(vocabulary_, options.integer("embedding")))) {
    const std::int64_t hidden = options.integer("hidden");
    lstm_ = register_module(
        "lstm",
        torch::nn::LSTM(
            torch::nn::LSTMOptions(options.integer("embedding"), hidden).num_layers(2).bidirectional(both_directions)));
    fc_ = register_module("fc", Dense(both_directions ? 2 * hidden : hidden, static_cast<std::int64_t>(task.outputs)));
  }

  torch::Tensor forward(const torch::Tensor& inputs) override {
    const auto [outputs, state] = read(ids_of(inputs));
    const torch::Tensor& last = std::get<0>(state);  // [layers × directions, batch, hidden]
    return fc_(both_directions_ ? torch::cat({last[-2], last[-1]}, 1) : last[-1]);
  }

  // The token that follows each one, and the label behind the last. A token is its class + 1.
  std::optional<Graded> grade(const torch::Tensor& inputs, std::span<const std::int32_t> labels) override {
    if (!every_position_) return std::nullopt;
    const torch::Tensor ids = ids_of(inputs), lengths = lengths_of(ids);
    const auto [states, counts] = rnn::pad_packed_sequence(std::get<0>(read(ids)), /*batch_first=*/true);
    const torch::Tensor last =
        torch::from_blob(const_cast<std::int32_t*>(labels.data()), {ids.size(0), 1}, torch::kInt);
    const torch::Tensor next = torch::cat({ids.slice(1, 1), torch::zeros({ids.size(0), 1}, torch::kLong)}, 1)
                                   .scatter(1, lengths.unsqueeze(1) - 1, last.to(torch::kLong) + 1)
                                   .slice(1, 0, states.size(1));
    const torch::Tensor known = next > 0;
    const torch::Tensor wanted = (next.masked_select(known) - 1).to(torch::kInt).contiguous();
    const auto* first = wanted.data_ptr<std::int32_t>();
    return Graded{.outputs = fc_(states.index({known})), .labels = {first, first + wanted.numel()}};
  }

 private:
  torch::Tensor ids_of(const torch::Tensor& inputs) const {
    torch::Tensor ids = inputs.round().to(torch::kLong);
    check(ids);
    return ids;
  }

  // The states at all positions, and the last ones of each layer and direction.
  std::tuple<rnn::PackedSequence, std::tuple<torch::Tensor, torch::Tensor>> read(const torch::Tensor& ids) {
    return lstm_->forward_with_packed_input(rnn::pack_padded_sequence(embedding_(ids), lengths_of(ids),
                                                                      /*batch_first=*/true, /*enforce_sorted=*/false));
  }

  void check(const torch::Tensor& ids) const {
    const auto lowest = ids.min().item<std::int64_t>(), highest = ids.max().item<std::int64_t>();
    if (lowest >= 0 && highest < vocabulary_) return;
    fail<RunError>("model.vocabulary = {}: the data has a token {}, expected 0 (padding) to {}: raise model.vocabulary",
                   vocabulary_, lowest < 0 ? lowest : highest, vocabulary_ - 1);
  }

  bool both_directions_, every_position_;
  std::int64_t vocabulary_;
  torch::nn::Embedding embedding_;
  torch::nn::LSTM lstm_{nullptr};
  Dense fc_{nullptr};
};

std::unique_ptr<Model> make_text_lstm(const std::string& name, const Options& options, const Task& task,
                                      bool both_directions, bool every_position = false) {
  if (task.input_shape.size() != 1) {
    fail("model.name: '{}' needs rows of token ids, shape [tokens]; the data has {}: choose text data", name,
         describe_shape(task.input_shape));
  }
  return make_network_model(name, std::make_shared<TextLstm>(options, task, both_directions, every_position), task);
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

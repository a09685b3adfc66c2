#include "parley/model/torch/torch_models.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "parley/base/errors.h"
#include "parley/model/cnn.h"
#include "parley/model/kernels.h"
#include "parley/model/torch/plugin.h"

namespace parley {
namespace {

std::filesystem::path plugin_file() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / kTorchPlugin;
}

// OpenBLAS knows CPUs by model, and takes its slowest kernels for one that is newer than itself. It reads this when it
// is loaded, which is with LibTorch. What the user chose stays.
void choose_openblas_core() {
  const std::string core = openblas_core_of_this_cpu();
  if (!core.empty()) ::setenv("OPENBLAS_CORETYPE", core.c_str(), /*overwrite=*/0);
}

// Loads the plug-in that lies beside the program, once; it stays loaded.
MakeTorchModel* load_plugin() {
  choose_openblas_core();
  void* const library = dlopen(plugin_file().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail("model.backend = \"torch\": LibTorch cannot be loaded: {}", dlerror());
  return reinterpret_cast<MakeTorchModel*>(dlsym(library, kMakeTorchModel));
}

Backends torch_backend(const std::string& name) {
  return {{"torch", [name](const Options& options, const Task& task) {
             static MakeTorchModel* const make = load_plugin();
             return std::unique_ptr<Model>(make(name, options, task));
           }}};
}

void add_normed(ModelRegistry& registry, const std::string& name, const std::string& summary,
                const std::string& source) {
  registry.add({.name = name, .summary = summary, .source = source, .options = {norm_option()}}, torch_backend(name));
}

std::vector<Option> lstm_options(std::int64_t vocabulary, std::int64_t embedding, std::int64_t hidden) {
  return {{"vocabulary", vocabulary, "number of token ids, 0 included", at_least(1)},
          {"embedding", embedding, "width of the embedding", at_least(1)},
          {"hidden", hidden, "width of each direction's state", at_least(1)}};
}

std::vector<Option> bilstm_options() {
  auto options = lstm_options(20000, 100, 256);
  options.push_back({"vectors", std::string(),
                     "file of vectors that the embedding begins with, a word and its numbers a line (GloVe's form); "
                     "absolute, or under a data root; empty draws them"});
  return options;
}

std::vector<Option> char_lstm_options() {
  auto options = lstm_options(81, 8, 100);
  options.push_back({"loss_at",
                     std::string("last"),
                     "what training learns from: the character behind each row alone, or also every character of the "
                     "row, told from those before it; tests ask for the last",
                     {},
                     {"last", "every"}});
  return options;
}

void add_lstms(ModelRegistry& registry) {
  registry.add({.name = "bilstm",
                .summary = "Two layers of LSTM in both directions, for rows of token ids; 0 pads the end of a text.",
                .source = "FeDEC, A.3",
                .options = bilstm_options()},
               torch_backend("bilstm"));
  registry.add({.name = "char_lstm",
                .summary = "Two layers of LSTM, for the character that follows a row of them; 0 pads the end.",
                .source = "Corinzia et al. 2019",
                .options = char_lstm_options()},
               torch_backend("char_lstm"));
}

void add_shallow_convnet(ModelRegistry& registry) {
  registry.add(
      {.name = "shallow_convnet",
       .summary = "Filters in time, then across electrodes, then log power; for EEG trials.",
       .source = "Schirrmeister et al. 2017; Kiss 2021, ch. 5",
       .options = {{"filters", std::int64_t{40}, "filters in time, and as many across electrodes", at_least(1)},
                   {"kernel", std::int64_t{25}, "samples of a filter in time", at_least(1)},
                   {"pool", std::int64_t{75}, "samples of a window of power", at_least(1)},
                   {"pool_stride", std::int64_t{15}, "samples from one window to the next", at_least(1)},
                   norm_option()}},
      torch_backend("shallow_convnet"));
}

}  // namespace

void add_torch_models(ModelRegistry& registry) {
  for (const char* name : {"mlp", "cnn_mnist", "cnn_cifar", "lenet", "cnn4"}) {
    registry.at(name).make.merge(torch_backend(name));
  }
  add_normed(registry, "resnet18", "Slim ResNet-18 for small images: shortcuts without parameters.",
             "He et al. 2016; FeDEC, Table 4");
  add_normed(registry, "densenet121", "DenseNet-121 for small images, growth rate 32.", "Huang et al. 2017");
  add_normed(registry, "mobilenetv2", "MobileNetV2 for small images.", "Sandler et al. 2018");
  add_lstms(registry);
  add_shallow_convnet(registry);
  registry.add({.name = "torchscript",
                .summary = "Your own network: any TorchScript module exported from Python.",
                .source = "torch.jit.script(net).save(\"net.pt\")",
                .options = {{"path", std::string(), "the exported file", {}, {}, true}}},
               torch_backend("torchscript"));
}

std::string torch_version() {
  return PARLEY_TORCH_VERSION;
}

std::string torch_blas_warning() {
  // The dynamic linker resolves LibTorch's calls to the first sgemm_ of the program, or of the plug-in's libraries.
  Dl_info where{};
  void* sgemm = dlsym(RTLD_DEFAULT, "sgemm_");
  void* const plugin = dlopen(plugin_file().c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (sgemm == nullptr && plugin != nullptr) sgemm = dlsym(plugin, "sgemm_");
  if (sgemm == nullptr || dladdr(sgemm, &where) == 0) return "";
  std::error_code ignored;
  const auto file = std::filesystem::weakly_canonical(where.dli_fname, ignored).string();
  for (const char* fast : {"openblas", "mkl", "libtorch_cpu"}) {  // the last: products of its own
    if (file.find(fast) != std::string::npos) return "";
  }
  return fmt::format(
      "LibTorch runs on the BLAS of {}, which may be many times slower than OpenBLAS: apt install "
      "libopenblas-pthread-dev, or update-alternatives --config libblas.so.3-x86_64-linux-gnu",
      file);
}

}  // namespace parley

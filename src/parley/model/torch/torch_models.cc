#include "parley/model/torch/torch_models.h"

#include <dlfcn.h>

#include <filesystem>

#include "parley/base/errors.h"
#include "parley/model/torch/plugin.h"

namespace parley {
namespace {

// Loads the plug-in that lies beside the program, once; it stays loaded.
MakeTorchModel* load_plugin() {
  const auto file = std::filesystem::read_symlink("/proc/self/exe").parent_path() / kTorchPlugin;
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail("model.backend = \"torch\": LibTorch cannot be loaded: {}", dlerror());
  return reinterpret_cast<MakeTorchModel*>(dlsym(library, kMakeTorchModel));
}

Backends torch_backend(const std::string& name) {
  return {{"torch", [name](const Options& options, const Task& task) {
             static MakeTorchModel* const make = load_plugin();
             return std::unique_ptr<Model>(make(name, options, task));
           }}};
}

void add_cnn(ModelRegistry& registry, const std::string& name, const std::string& data) {
  registry.add({.name = name,
                .summary = "Two 5x5 convolutions (32, 64) with 2x2 pooling, a layer of 512; for " + data + ".",
                .source = "McMahan et al. 2017",
                .options = {}},
               torch_backend(name));
}

}  // namespace

void add_torch_models(ModelRegistry& registry) {
  registry.at("mlp").make.merge(torch_backend("mlp"));
  add_cnn(registry, "cnn_mnist", "images of 28 x 28");
  add_cnn(registry, "cnn_cifar", "colour images of 32 x 32");
  registry.add({.name = "torchscript",
                .summary = "Your own network: any TorchScript module exported from Python.",
                .source = "torch.jit.script(net).save(\"net.pt\")",
                .options = {{"path", std::string(), "the exported file", {}, {}, true}}},
               torch_backend("torchscript"));
}

std::string torch_blas_warning() {
  // The dynamic linker resolves LibTorch's calls to the first sgemm_ of the process, which is the
  // one found here.
  Dl_info where{};
  void* const sgemm = dlsym(RTLD_DEFAULT, "sgemm_");
  if (sgemm == nullptr || dladdr(sgemm, &where) == 0) return "";
  std::error_code ignored;
  const auto file = std::filesystem::weakly_canonical(where.dli_fname, ignored).string();
  if (file.find("openblas") != std::string::npos || file.find("mkl") != std::string::npos) return "";
  return fmt::format(
      "LibTorch runs on the BLAS of {}, which may be many times slower than OpenBLAS: apt install "
      "libopenblas-pthread-dev, or update-alternatives --config libblas.so.3-x86_64-linux-gnu",
      file);
}

}  // namespace parley

// The data sets that have a name.
#include <algorithm>

#include "parley/base/errors.h"
#include "parley/data/formats.h"
#include "parley/data/locate.h"
#include "parley/data/read/bytes.h"
#include "parley/data/read/cifar.h"
#include "parley/data/read/idx.h"
#include "parley/data/read/images.h"
#include "parley/data/read/labels.h"
#include "parley/data/split.h"

namespace parley {
namespace {

namespace fs = std::filesystem;

fs::path idx_file(const fs::path& folder, const char* file) {
  const fs::path found = plain_or_gz(folder / file);
  if (found.empty()) fail("{}: no {} or {}.gz here; fetch the data set again", folder.string(), file, file);
  return found;
}

Dataset read_idx_part(const fs::path& folder, const char* images, const char* labels) {
  return read_idx_pair(idx_file(folder, images), idx_file(folder, labels), 10);
}

// The four idx files of an MNIST-like set, from the first folder that has the first of them.
TrainTest load_mnist_like(const std::string& name, const std::vector<std::string>& folders, const std::string& remedy,
                          const DataRoots& roots, const std::vector<std::string>& class_names) {
  for (const auto& root : roots.folders) {
    for (const auto& folder : folders) {
      if (plain_or_gz(root / folder / "train-images-idx3-ubyte").empty()) continue;
      Dataset train = read_idx_part(root / folder, "train-images-idx3-ubyte", "train-labels-idx1-ubyte");
      Dataset test = read_idx_part(root / folder, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte");
      train.class_names = test.class_names = class_names;
      return share(std::move(train), std::move(test));
    }
  }
  std::vector<std::string> wanted;
  for (const auto& folder : folders) wanted.push_back(folder + "/train-images-idx3-ubyte[.gz]");
  refuse_missing(name, roots, wanted, remedy);
}

// Class and writer, the first and third of the columns; −1 for what is not there.
std::pair<std::int32_t, std::int32_t> class_and_writer(std::string_view line) {
  std::int32_t columns[3] = {-1, -1, -1};
  for (auto& column : columns) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos) break;
    column = natural_number(line.substr(0, tab));
    line.remove_prefix(tab + 1);
  }
  return {columns[0], columns[2]};
}

// The writers in QMNIST's extended labels; the classes there must agree with MNIST's own labels.
std::vector<std::int32_t> read_writers(const fs::path& path, const std::vector<std::int32_t>& labels) {
  const std::string text = read_unpacked(path);
  std::vector<std::int32_t> writers;
  for (std::size_t begin = 0; begin < text.size() && writers.size() < labels.size();) {
    const std::size_t row = writers.size(), end = std::min(text.find('\n', begin), text.size());
    const auto [label, writer] = class_and_writer(std::string_view(text).substr(begin, end - begin));
    if (label < 0 || writer < 0) {
      fail(
          "{}:{}: expected class, series, writer, … as whole numbers with tabs between; unpack the "
          "file again",
          path.string(), row + 1);
    }
    if (label != labels[row]) {
      fail("{}:{}: class {}, but MNIST's label is {}; the files do not belong together", path.string(), row + 1, label,
           labels[row]);
    }
    writers.push_back(writer);
    begin = end + 1;
  }
  if (writers.size() < labels.size()) {
    fail("{}: truncated: expected {} rows, found {}; unpack the file again", path.string(), labels.size(),
         writers.size());
  }
  return writers;
}

fs::path writer_file(const DataRoots& roots, const char* file) {
  for (const auto& root : roots.folders) {
    if (const fs::path found = plain_or_gz(root / "mnist_by_writer" / file); !found.empty()) return found;
  }
  refuse_missing("digits_by_writer", roots, {fmt::format("mnist_by_writer/{}[.gz]", file)},
                 "put QMNIST's extended labels there (https://github.com/facebookresearch/qmnist)");
}

}  // namespace

TrainTest load_mnist(const Options&, const DataRoots& roots) {
  return load_mnist_like("mnist", {"mnist", "MNIST/raw"}, "run `parley data get mnist`", roots, {});
}

TrainTest load_fashion_mnist(const Options&, const DataRoots& roots) {
  return load_mnist_like(
      "fashion-mnist", {"fashion-mnist", "FashionMNIST/raw"},
      "run `apt install dataset-fashion-mnist` or `parley data get fashion-mnist`", roots,
      {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"});
}

TrainTest load_cifar10(const Options& options, const DataRoots& roots) {
  const std::string& form = options.text("form");
  std::error_code ignored;
  for (const auto& root : roots.folders) {
    for (const char* folder : {"cifar-10-batches-bin", "cifar10/cifar-10-batches-bin", "cifar10"}) {
      if (form == "images" || !fs::exists(root / folder / "data_batch_1.bin", ignored)) continue;
      return share(read_cifar10_train(root / folder), read_cifar10_test(root / folder));
    }
    for (const char* folder : {"cifar10_jpeg", "cifar10"}) {
      if (form == "binary" || !fs::is_directory(root / folder / "train", ignored)) continue;
      return share(read_image_folder(root / folder / "train", cifar10_class_names(), image_workers()),
                   read_image_folder(root / folder / "test", cifar10_class_names(), image_workers()));
    }
  }
  refuse_missing("cifar10", roots, {"cifar-10-batches-bin/data_batch_1.bin", "cifar10_jpeg/train/<class>/*.jpg"},
                 "run `parley data get cifar10`");
}

TrainTest load_digits_by_writer(const Options& options, const DataRoots& roots) {
  const TrainTest digits = load_mnist(options, roots);
  Dataset train = *digits.train, test = *digits.test;
  train.users = read_writers(writer_file(roots, "qmnist-train-labels.tsv"), train.labels);
  test.users = read_writers(writer_file(roots, "qmnist-test-labels.tsv"), test.labels);
  if (options.text("split") == "rows") return split_each_user(train, options);
  return share(std::move(train), std::move(test));
}

}  // namespace parley

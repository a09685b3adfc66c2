// Every data set and file format, in one list.
#include "parley/data/formats.h"

namespace parley {
namespace {

Option path_option(const std::string& meaning) {
  return {"path", std::string(), meaning + "; absolute, or under a data root, or under the working folder"};
}
Option classes_option() {
  return {"classes", std::int64_t{0}, "number of classes; 0 = the largest label + 1", between(0, 1e6)};
}
Option shape_option() {
  return {"shape", std::vector<std::int64_t>{},
          "how the features of a row are laid out, for example [1, 28, 28]; empty = as the source says", at_least(1)};
}

std::vector<Option> join(std::vector<Option> options, const std::vector<Option>& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

std::vector<Option> hold_out_options(double fraction, const std::string& when) {
  return {{"test_fraction",
           fraction,
           "part of the rows that is held out " + when,
           {.low = 0, .high = 1, .low_excluded = true, .high_excluded = true}},
          {"split_seed", std::int64_t{0}, "seed of that choice", at_least(0)}};
}

// For sources that may come without a test part.
std::vector<Option> with_hold_out(std::vector<Option> options) {
  return join(std::move(options), hold_out_options(0.2, "when there is no test part"));
}

// For sources with users, whose own test part has other users.
std::vector<Option> split_options(const std::string& publisher) {
  return join({{"split",
                std::string("publisher"),
                "where the test rows come from: publisher = " + publisher +
                    "; rows = a random part of each user's rows, so that every user is in both",
                {},
                {"publisher", "rows"}}},
              hold_out_options(0.25, "of each user's with split = \"rows\""));
}

void add_named(DatasetRegistry& registry) {
  registry.add({"mnist", "Handwritten digits, 28 × 28 grey, 10 classes, 60,000 + 10,000.", "LeCun et al. 1998", {}},
               load_mnist);
  registry.add({"fashion-mnist", "Clothing, 28 × 28 grey, 10 classes, 60,000 + 10,000.", "Xiao et al. 2017", {}},
               load_fashion_mnist);
  registry.add({"cifar10",
                "Small photographs, 32 × 32 colour, 10 classes, 50,000 + 10,000; binary files or "
                "image folders.",
                "Krizhevsky 2009",
                {{"form",
                  std::string("auto"),
                  "which form to read: binary, images, or auto = what is found first",
                  {},
                  {"auto", "binary", "images"}}}},
               load_cifar10);
  registry.add({"digits_by_writer", "MNIST with the writer of each digit as its user (539 writers in training).",
                "Yadav & Bottou 2019 (QMNIST)", split_options("MNIST's own test part, by other writers")},
               load_digits_by_writer);
}

void add_sensors(DatasetRegistry& registry) {
  registry.add(
      {"har", "What 30 people do, by their telephones' motion sensors: windows of 2.56 s; the subject is the user.",
       "Reyes-Ortiz et al. 2016 (HAPT)",
       join({{"features",
              std::string("statistics"),
              "statistics = 380 numbers a window, in time and frequency; raw = 6 axes × 128 samples",
              {},
              {"statistics", "raw"}},
             {"activities", std::int64_t{6}, "6 = walking to lying, 12 = also the changes between postures",
              between(6, 12)}},
            split_options("the published one, 21 subjects in training and 9 others in test"))},
      load_har);
  registry.add({"vsn", "Which of two vehicles passes, by 23 acoustic and seismic sensors; the sensor is the user.",
                "Duarte & Hu 2004", hold_out_options(0.25, "of each sensor's")},
               load_vsn);
  registry.add({"eeg",
                "One second of EEG of alcoholic and control subjects, 468 + 480 trials; the subject is the user.",
                "Begleiter 1999 (UCI)",
                {{"channels", std::int64_t{64}, "how many of the 64 electrodes, in the files' order", between(1, 64)},
                 {"decimate", std::int64_t{1}, "samples that are averaged to one; a divisor of 256", between(1, 256)}}},
               load_eeg);
}

void add_texts(DatasetRegistry& registry) {
  registry.add(
      {"shakespeare",
       "The next of 80 characters in what a role of a play says; the role is the user. model.vocabulary = 81.",
       "McMahan et al. 2017; Bosak's XML of the Moby text",
       {{"length", std::int64_t{80}, "characters that are read before the one to be told", between(1, 10000)},
        {"stride", std::int64_t{10}, "characters from the start of one sequence to that of the next", at_least(1)},
        {"max_sequences", std::int64_t{0}, "most training sequences of a role, and most test ones; 0 = all",
         at_least(0)},
        {"min_characters", std::int64_t{1000}, "leave out roles that say less", at_least(1)},
        {"test_fraction",
         0.2,
         "part of each role's text, its end, that is held out",
         {.low = 0, .high = 1, .low_excluded = true, .high_excluded = true}}}},
      load_shakespeare);
  registry.add({"sentiment140",
                "Whether a tweet is in a good or a bad mood; its author is the user (few tweets each: see "
                "partition.users_per_client).",
                "Go et al. 2009",
                join({{"vocabulary",
                       std::string("training"),
                       "which words are known: training = the commonest of the training tweets, glove = those of "
                       "glove/glove.6B.50d.head.txt, in its order",
                       {},
                       {"training", "glove"}},
                      {"words", std::int64_t{9998}, "most words that are known; model.vocabulary = words + 2",
                       between(1, 10'000'000)},
                      {"length", std::int64_t{30}, "words of a tweet that are read; shorter ones are padded",
                       between(1, 10000)}},
                     hold_out_options(0.2, "of all tweets"))},
               load_sentiment140);
}

void add_arrays(DatasetRegistry& registry) {
  registry.add({"idx",
                "Four idx files (MNIST's format), plain or gzip.",
                "",
                {path_option("the folder of the files"),
                 classes_option(),
                 {"train_images", std::string("train-images-idx3-ubyte"), "file name of the training images"},
                 {"train_labels", std::string("train-labels-idx1-ubyte"), "file name of the training labels"},
                 {"test_images", std::string("t10k-images-idx3-ubyte"), "file name of the test images"},
                 {"test_labels", std::string("t10k-labels-idx1-ubyte"), "file name of the test labels"}}},
               load_idx);
  registry.add({"npy", "NumPy arrays: x (rows × features…) and y (whole numbers: labels; floats: targets).", "",
                with_hold_out({path_option("the folder of the files"),
                               classes_option(),
                               shape_option(),
                               {"train_x", std::string("x.npy"), "file name of the training inputs"},
                               {"train_y", std::string("y.npy"), "file name of the training labels or targets"},
                               {"test_x", std::string(), "file name of the test inputs; empty = hold some rows out"},
                               {"test_y", std::string(), "file name of the test labels or targets"}})},
               load_npy);
}

void add_files(DatasetRegistry& registry) {
  registry.add(
      {"csv",
       "A table of text with a header (comma-separated values and the like): numbers, yes and no, dates, categories.",
       "",
       with_hold_out({path_option("the training file"),
                      classes_option(),
                      shape_option(),
                      {"test_path", std::string(), "the test file; empty = hold some rows out"},
                      {"label", std::string("label"), "the label column (whole numbers from 0, or names)"},
                      {"user_column", std::string(), "the column that names the owner of a row"},
                      {"targets", std::vector<std::string>{}, "regression: the target columns (no label then)"},
                      {"ignore", std::vector<std::string>{}, "columns to leave out"},
                      {"categories",
                       std::string("one_hot"),
                       "columns of names: one_hot = a 0/1 feature per category; codes = one feature with its number",
                       {},
                       {"one_hot", "codes"}},
                      {"missing",
                       std::string("refuse"),
                       "empty fields, NA, NaN, null and ?: refuse; mean = the column's training mean, or its most "
                       "common category; drop = leave the row out",
                       {},
                       {"refuse", "mean", "drop"}},
                      {"separator",
                       std::string("auto"),
                       "what stands between the fields; auto = what the header has most of",
                       {},
                       {"auto", "comma", "semicolon", "tab", "bar"}}})},
      load_csv);
  registry.add({"images", "Image folders train/<class>/*.jpg|jpeg|png and test/<class>/…, all of one size.", "",
                with_hold_out({path_option("the folder that holds train and test")})},
               load_images);
  registry.add({"leaf", "LEAF's json files in train/ and test/, with natural users; numeric x.", "Caldas et al. 2018",
                with_hold_out({path_option("the folder that holds train and test, or one file"), classes_option(),
                               shape_option()})},
               load_leaf);
  registry.add({"elsewhere",
                "No examples: for a server whose nodes have them all (serve.nodes). Nothing is tested there.",
                "",
                {shape_option(),
                 classes_option(),
                 {"target_size", std::int64_t{0}, "regression: numbers to predict", at_least(0)},
                 {"values",
                  std::string("numbers"),
                  "bytes where the nodes have images or other bytes",
                  {},
                  {"numbers", "bytes"}}}},
               load_elsewhere);
  registry.add({"synthetic",
                "Gaussian blobs around random centres; needs no files.",
                "",
                {{"classes", std::int64_t{10}, "number of classes", between(1, 1e6)},
                 {"features", std::int64_t{20}, "features of a row", between(1, 1e9)},
                 {"rows", std::int64_t{1000}, "training rows", between(1, 1e9)},
                 {"test_rows", std::int64_t{500}, "test rows", between(1, 1e9)},
                 {"separation", 4.0, "distance of the class centres from the origin", at_least(0)},
                 {"noise", 1.0, "standard deviation of each feature around its centre", at_least(0)},
                 {"owners", std::int64_t{0}, "number of users that rows are given to at random; 0 = none", at_least(0)},
                 {"seed", std::int64_t{0}, "seed of the data, independent of run.seed", at_least(0)},
                 shape_option()}},
               load_synthetic);
}

}  // namespace

DatasetRegistry datasets() {
  DatasetRegistry registry("data set");
  add_named(registry);
  add_sensors(registry);
  add_texts(registry);
  add_arrays(registry);
  add_files(registry);
  return registry;
}

}  // namespace parley

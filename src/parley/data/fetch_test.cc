#include "parley/data/fetch.h"

#include "parley/data/digest.h"
#include "parley/data/source.h"
#include "parley/data/test_folder.h"

namespace parley {
namespace {

namespace fs = std::filesystem;

std::string address(const fs::path& folder) {
  return "file://" + folder.string();
}

RemoteDataset two_files() {
  return {"two",
          "two",
          {},
          {{"a.gz", "a", "sha256", hex_digest("sha256", "content of a")},
           {"b.gz", "b", "sha256", hex_digest("sha256", "content of b")}}};
}

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::recursive_directory_iterator(folder), {}));
}

TEST(Digest, KnownAnswers) {
  EXPECT_EQ(hex_digest("sha256", "abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex_digest("md5", "abc"), "900150983cd24fb0d6963f7d28e17f72");
  expect_refusal<RunError>([] { hex_digest("sha17", ""); }, {"sha17"});
}

TEST(Fetch, PutsVerifiedFilesInPlaceAndKeepsThem) {
  const TestFolder from, to;
  from.write_gz("a.gz", "content of a");
  from.write_gz("b.gz", "content of b");
  std::uint64_t reported = 0;
  const auto progress = [&](const std::string&, std::uint64_t done, std::uint64_t) {
    reported = std::max(reported, done);
  };
  EXPECT_EQ(fetch_dataset(two_files(), to.path() / "deep" / "er", address(from.path()), progress),
            to.path() / "deep" / "er" / "two");
  EXPECT_GT(reported, 0u);
  EXPECT_EQ(read_file(to.path() / "deep/er/two/a"), "content of a");
  EXPECT_EQ(entries(to.path()), 5u);  // deep, er, two, a, b: nothing temporary
  // What is there needs no source; what is damaged is fetched again.
  fs::remove(from.path() / "a.gz");
  to.write("deep/er/two/b", "damaged");
  fetch_dataset(two_files(), to.path() / "deep" / "er", address(from.path()));
  EXPECT_EQ(read_file(to.path() / "deep/er/two/b"), "content of b");
}

TEST(Fetch, AMismatchLeavesNothingBehind) {
  const TestFolder from, to;
  from.write_gz("a.gz", "content of a");
  from.write_gz("b.gz", "something else");
  const auto fetch = [&] { fetch_dataset(two_files(), to.path() / "new", address(from.path())); };
  expect_refusal<RunError>(fetch, {"b.gz", "sha256", "expected " + hex_digest("sha256", "content of b")});
  EXPECT_EQ(entries(to.path()), 0u);
  from.write("b.gz", "no gzip at all");
  expect_refusal<RunError>(fetch, {"b.gz", "gzip"});
  EXPECT_EQ(entries(to.path()), 0u);
  // An old file survives a failed fetch.
  to.write("new/two/b", "old");
  expect_refusal<RunError>(fetch, {"b.gz"});
  EXPECT_EQ(read_file(to.path() / "new/two/b"), "old");
  EXPECT_EQ(entries(to.path()), 3u);
}

TEST(Fetch, WithoutASourceItSaysWhatToPutWhere) {
  const TestFolder from, to;
  expect_refusal<RunError>([&] { fetch_dataset("mnist", to.path(), address(from.path())); },
                           {"mnist could not be fetched", "train-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
                            (to.path() / "mnist").string(), "file:///"});
  // The name never resolves (RFC 2606), with a network or without.
  expect_refusal<RunError>([&] { fetch_dataset("cifar10", to.path(), "https://parley.invalid/x"); },
                           {"https://parley.invalid/x/cifar-10-binary.tar.gz", "cifar-10-batches-bin"});
  expect_refusal([&] { fetch_dataset("minst", to.path(), ""); }, {"did you mean 'mnist'"});
  EXPECT_EQ(entries(to.path()), 0u);
}

TEST(Fetch, AFullDiskLeavesNothingBehind) {
  const TestFolder from, to;
  from.write_gz("a.gz", "content of a");
  from.write_gz("b.gz", "content of b");
  LimitedFiles disk(15);
  expect_refusal<RunError>([&] { fetch_dataset(two_files(), to.path(), address(from.path()), {}, disk); },
                           {"cannot be written"});
  EXPECT_EQ(entries(to.path()), 0u);
}

RemoteDataset archive(const TestFolder& from, const std::string& member) {
  from.write("batches/one.bin", "1");
  const std::string command =
      "tar -C '" + from.path().string() + "' -czf '" + from.path().string() + "/x.tar.gz' batches";
  EXPECT_EQ(std::system(command.c_str()), 0);
  return {"tarred",
          "",
          {},
          {{"x.tar.gz",
            "batches",
            "md5",
            hex_digest("md5", read_file(from.path() / "x.tar.gz")),
            RemoteFile::Packing::tar,
            {member}}}};
}

TEST(Fetch, UnpacksAnArchive) {
  const TestFolder from, to;
  to.write("batches/half", "left by an interrupted run");
  fetch_dataset(archive(from, "one.bin"), to.path(), address(from.path()));
  EXPECT_EQ(read_file(to.path() / "batches/one.bin"), "1");
  EXPECT_EQ(entries(to.path()), 2u);
}

TEST(Fetch, RefusesAnArchiveWithoutItsMembers) {
  const TestFolder from, to;
  const RemoteDataset wrong = archive(from, "two.bin");
  expect_refusal<RunError>([&] { fetch_dataset(wrong, to.path(), address(from.path())); }, {"x.tar.gz", "two.bin"});
  EXPECT_EQ(entries(to.path()), 0u);
}

// Debian's package holds the very files that the table's checksums name.
TEST(Fetch, RealFashionMnistFromTheSystem) {
  const fs::path system = "/usr/share/datasets/fashion-mnist";
  if (!fs::exists(system)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const TestFolder to;
  fetch_dataset("fashion-mnist", to.path(), address(system));
  EXPECT_EQ(fs::file_size(to.path() / "fashion-mnist/train-images-idx3-ubyte"), 47040016u);
}

}  // namespace
}  // namespace parley

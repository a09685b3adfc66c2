#include "parley/base/files.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/base/temp_folder.h"

namespace parley {
namespace {

TEST(Files, ReplaceWritesTheWholeFile) {
  const TempFolder folder;
  const std::string_view pieces[] = {"ab", "", "c"};
  real_files().replace(folder / "x", pieces);
  EXPECT_EQ(read_file(folder / "x"), "abc");
}

TEST(Files, AFullDiskLeavesTheOldFile) {
  const TempFolder folder;
  real_files().replace(folder / "x", "old");
  LimitedFiles full(2);
  try {
    full.replace(folder / "x", "new contents");
    FAIL() << "expected RunError";
  } catch (const RunError& error) {
    EXPECT_NE(std::string(error.what()).find("No space left on device; free some space"), std::string::npos);
  }
  EXPECT_EQ(read_file(folder / "x"), "old");
  EXPECT_FALSE(std::filesystem::exists(folder / "x.tmp"));
}

TEST(Files, AFullDiskCutsAnAppendBack) {
  const TempFolder folder;
  real_files().append(folder / "log", "one\n");
  LimitedFiles full(2);
  EXPECT_THROW(full.append(folder / "log", "two\n"), RunError);
  EXPECT_EQ(read_file(folder / "log"), "one\n");
}

TEST(Files, MissingFilesAndFoldersAreInputErrors) {
  const TempFolder folder;
  EXPECT_THROW(read_file(folder / "absent"), InputError);
  EXPECT_THROW(read_file(folder.path()), InputError);
  real_files().replace(folder / "file", "x");
  EXPECT_THROW(make_folder(folder / "file" / "below"), InputError);
}

TEST(MappedFile, HoldsTheFileItOpenedWhileAnotherTakesItsPlace) {
  const TempFolder folder;
  real_files().replace(folder / "f", "first");
  const MappedFile mapped(folder / "f");
  real_files().replace(folder / "f", "second");
  EXPECT_EQ(mapped.bytes(), "first");
  EXPECT_EQ(MappedFile(folder / "f").bytes(), "second");
}

TEST(MappedFile, EmptyMissingAndFolders) {
  const TempFolder folder;
  real_files().replace(folder / "f", "");
  EXPECT_EQ(MappedFile(folder / "f").bytes(), "");
  EXPECT_THROW(MappedFile(folder / "nothing"), InputError);
  EXPECT_THROW(MappedFile(folder / "."), InputError);
}

}  // namespace
}  // namespace parley

// Loading CUDA's runtime and NCCL: what is said when they are missing or are not what they seem.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "trainer_runtime/comm/cuda_api.h"
#include "trainer_runtime/comm/nccl_api.h"
#include "trainer_runtime/comm/nccl_group.h"

namespace muster::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "nccl-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(Library, MissingFileIsNamedWithWhatToDo) {
  const Folder folder;
  const std::string file = folder / "libnccl.so.2";
  const auto nccl = nccl::Load(file);
  ASSERT_FALSE(nccl.ok());
  EXPECT_EQ(nccl.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(nccl.status().message(),
              AllOf(HasSubstr("cannot load NCCL"), HasSubstr(file), HasSubstr("--nccl-library"),
                    HasSubstr("--backend gloo"), HasSubstr("No such file")));
  const auto cuda = cuda::Load(folder / "libcudart.so.13");
  ASSERT_FALSE(cuda.ok());
  EXPECT_EQ(cuda.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(cuda.status().message(),
              AllOf(HasSubstr("CUDA's runtime"), HasSubstr("--backend gloo")));
}

TEST(Library, FolderIsSearchedForEachName) {
  const Folder folder;
  const auto cuda = cuda::Load(folder.path());
  ASSERT_FALSE(cuda.ok());
  EXPECT_THAT(cuda.status().message(),
              AllOf(HasSubstr(folder / "libcudart.so.13"), HasSubstr(folder / "libcudart.so.12")));
}

TEST(Library, FileThatIsNoLibraryIsAnotherError) {
  const Folder folder;
  const std::string file = folder / "libnccl.so.2";
  std::ofstream(file) << "this is a text";
  const auto nccl = nccl::Load(file);
  ASSERT_FALSE(nccl.ok());
  EXPECT_EQ(nccl.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(nccl.status().message(), HasSubstr(file));
}

TEST(Library, MissingSymbolIsNamed) {
  const auto nccl = nccl::Load("libm.so.6");
  ASSERT_FALSE(nccl.ok());
  EXPECT_EQ(nccl.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(nccl.status().message(), AllOf(HasSubstr("ncclGetVersion"), HasSubstr("libm.so.6")));
  const auto cuda = cuda::Load("libm.so.6");
  ASSERT_FALSE(cuda.ok());
  EXPECT_THAT(cuda.status().message(), HasSubstr("cudaGetDeviceCount"));
}

TEST(Library, StandInIsCompleteAndLoadedOnce) {
  const auto nccl = nccl::Load(MUSTER_STANDIN);
  ASSERT_TRUE(nccl.ok()) << nccl.status().ToString();
  EXPECT_EQ((*nccl)->version, 22809);
  EXPECT_NE((*nccl)->comm_revoke, nullptr);
  EXPECT_EQ((*nccl)->path, std::string(MUSTER_STANDIN) + "/libnccl.so.2");
  EXPECT_EQ(*nccl, *nccl::Load(MUSTER_STANDIN));
  const auto cuda = cuda::Load(MUSTER_STANDIN);
  ASSERT_TRUE(cuda.ok()) << cuda.status().ToString();
  EXPECT_EQ((*cuda)->path, std::string(MUSTER_STANDIN) + "/libcudart.so.13");
}

TEST(Library, VersionsAndCodesHaveNames) {
  EXPECT_EQ(nccl::VersionText(22809), "2.28.9");
  EXPECT_EQ(nccl::VersionText(21400), "2.14.0");
  EXPECT_EQ(nccl::VersionText(2708), "2.7.8");
  EXPECT_EQ(nccl::CodeName(nccl::Code::kRemoteError), "ncclRemoteError");
  EXPECT_EQ(nccl::CodeName(static_cast<nccl::Code>(42)), "NCCL's result 42");
}

TEST(Library, ErrorsOfCudaSayWhatToDo) {
  const auto cuda = cuda::Load(MUSTER_STANDIN);
  ASSERT_TRUE(cuda.ok());
  EXPECT_TRUE((*cuda)->Check(cuda::Code::kSuccess, "breathe").ok());
  const Status memory = (*cuda)->Check(cuda::Code::kMemoryAllocation, "allocate 5 bytes");
  EXPECT_EQ(memory.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(memory.message(), "cannot allocate 5 bytes: out of memory (cudaErrorMemoryAllocation)");
  const Status driver = (*cuda)->Check(cuda::Code::kInsufficientDriver, "count");
  EXPECT_EQ(driver.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(driver.message(), AllOf(HasSubstr("nvidia-smi"), HasSubstr("--backend gloo")));
}

// Where the real ones are installed our tables fit them too.
TEST(Library, RealOnesHaveAllSymbols) {
  const std::string nccl_file = nccl::LibraryNames({}).back();
  const std::string cuda_folder = std::filesystem::path(nccl_file).parent_path().string();
  if (!std::filesystem::exists(nccl_file)) {
    const std::string installed = "/usr/local/cuda/lib/libnccl.so.2";
    if (!std::filesystem::exists(installed)) GTEST_SKIP() << "NCCL is not installed here";
    const auto nccl = nccl::Load(installed);
    ASSERT_TRUE(nccl.ok()) << nccl.status().ToString();
    EXPECT_GE((*nccl)->version, 21400);
  } else {
    const auto nccl = nccl::Load(nccl_file);
    ASSERT_TRUE(nccl.ok()) << nccl.status().ToString();
  }
  if (!std::filesystem::exists(cuda_folder + "/libcudart.so.13") &&
      !std::filesystem::exists(cuda_folder + "/libcudart.so.12")) {
    GTEST_SKIP() << "CUDA's runtime is not installed here";
  }
  const auto cuda = cuda::Load(cuda_folder);
  ASSERT_TRUE(cuda.ok()) << cuda.status().ToString();
  int version = 0;
  EXPECT_EQ((*cuda)->runtime_get_version(&version), cuda::Code::kSuccess);
  EXPECT_GE(version, 12000);
}

// The first error that a user without a GPU sees.
TEST(Library, GroupWithoutLibrarySaysSo) {
  auto session = session::Session::Connect({});
  ASSERT_TRUE(session.ok());
  const auto info = (*session)->WaitForRound({}, std::chrono::seconds(1));
  ASSERT_TRUE(info.ok());
  NcclOptions options;
  options.nccl_library = "/nowhere/libnccl.so.2";
  const auto group = CreateNcclGroup(**session, *info, options);
  ASSERT_FALSE(group.ok());
  EXPECT_THAT(group.status().message(), HasSubstr("/nowhere/libnccl.so.2"));
}

}  // namespace
}  // namespace muster::comm

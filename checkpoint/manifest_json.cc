// The manifest as JSON. Foreign exceptions end here.

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "checkpoint/manifest.h"
#include "common/text.h"

namespace muster::checkpoint {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "muster-checkpoint";
// The manifest's own nesting is 5: object, shards, shard, tensors, tensor, shape make 6 brackets.
constexpr int kDepthMax = 8;
// Each value costs tens of bytes once parsed; this bounds the memory that a hostile text can take.
constexpr std::size_t kValuesMax = 8'000'000;

Status Damaged(std::string message) { return DataLoss("manifest: " + std::move(message)); }

// Brackets and commas outside texts, counted before anything is built from them.
Status CheckStructure(std::string_view text) {
  bool in_text = false;
  int depth = 0;
  std::size_t values = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
      continue;
    }
    if (c == '"') in_text = true;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c == ',' || c == '[' || c == '{') ++values;
    if (depth > kDepthMax) return Damaged("nested too deeply");
    if (values > kValuesMax) return Damaged("too many values");
  }
  return OkStatus();
}

// Reads the fields of one JSON object and remembers the first thing wrong with them.
class Fields {
 public:
  Fields(const Json& object, std::string where, Status* status)
      : object_(object), where_(std::move(where)), status_(status) {
    if (!object.is_object()) Fail("is not an object");
  }

  std::uint64_t Number(const char* key) { return NumberIn(Find(key), key); }

  std::string Text(const char* key) {
    const Json* value = Find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) return Fail(Concat("has a ", key, " that is not a text")), "";
    return value->get_ref<const std::string&>();
  }

  // The elements of a list; empty on error.
  const Json& List(const char* key) {
    static const Json none = Json::array();
    const Json* value = Find(key);
    if (value == nullptr) return none;
    if (!value->is_array()) return Fail(Concat("has a ", key, " that is not a list")), none;
    return *value;
  }

  const Json& Object(const char* key) {
    static const Json none = Json::object();
    const Json* value = Find(key);
    if (value == nullptr) return none;
    if (!value->is_object()) return Fail(Concat("has a ", key, " that is not an object")), none;
    return *value;
  }

  // Whole, not negative, and written without point or exponent.
  std::uint64_t NumberIn(const Json* value, const char* key) {
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned()) {
      return Fail(Concat("has a ", key, " that is not a whole number")), 0;
    }
    return value->get<std::uint64_t>();
  }

  void Fail(std::string_view what) {
    if (status_->ok()) *status_ = Damaged(Concat(where_, " ", what));
  }
  bool ok() const { return status_->ok(); }

 private:
  const Json* Find(const char* key) {
    if (!ok()) return nullptr;
    const auto found = object_.find(key);
    if (found == object_.end()) return Fail(Concat("has no ", key)), nullptr;
    return &*found;
  }

  const Json& object_;
  const std::string where_;
  Status* const status_;
};

std::optional<ElementType> FindType(std::string_view name) {
  for (ElementType type :
       {ElementType::kFloat32, ElementType::kFloat64, ElementType::kFloat16, ElementType::kBFloat16,
        ElementType::kInt32, ElementType::kInt64, ElementType::kUint8}) {
    if (ElementTypeName(type) == name) return type;
  }
  return std::nullopt;
}

TensorRecord ReadTensor(const Json& json, const std::string& shard, Status* status) {
  Fields fields(json, Concat("a tensor of shard ", Quote(shard)), status);
  TensorRecord tensor;
  tensor.name = fields.Text("name");
  const std::string type = fields.Text("type");
  if (const auto found = FindType(type)) {
    tensor.type = *found;
  } else {
    fields.Fail(Concat("has the unknown type ", Quote(type)));
  }
  for (const Json& size : fields.List("shape")) {
    tensor.shape.push_back(fields.NumberIn(&size, "shape"));
  }
  tensor.first = fields.Number("first");
  tensor.count = fields.Number("count");
  tensor.offset = fields.Number("offset");
  return tensor;
}

ShardRecord ReadShard(const Json& json, Status* status) {
  Fields fields(json, "a shard", status);
  ShardRecord shard;
  shard.name = fields.Text("name");
  shard.bytes = fields.Number("bytes");
  const std::string hex = fields.Text("digest");
  if (auto digest = Digest::FromHex(hex); digest.ok()) {
    shard.digest = *digest;
  } else {
    fields.Fail(Concat("has the digest ", Quote(hex)));
  }
  for (const Json& tensor : fields.List("tensors")) {
    if (!fields.ok()) break;
    shard.tensors.push_back(ReadTensor(tensor, shard.name, status));
  }
  return shard;
}

std::optional<Scalar> ReadScalar(const Json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (value.is_number_float()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  return std::nullopt;
}

Json ToJson(const ShardRecord& shard) {
  Json tensors = Json::array();
  for (const TensorRecord& tensor : shard.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"type", ElementTypeName(tensor.type)},
                       {"shape", tensor.shape},
                       {"first", tensor.first},
                       {"count", tensor.count},
                       {"offset", tensor.offset}});
  }
  return {{"name", shard.name},
          {"bytes", shard.bytes},
          {"digest", shard.digest.ToHex()},
          {"tensors", std::move(tensors)}};
}

// Of everything but itself, keys in order, no blanks: the same for the writer and any reader.
std::string OwnDigest(const Json& json) {
  const std::string text = json.dump();
  return DigestOf(std::as_bytes(std::span(text))).ToHex();
}

Result<Manifest> FromJson(Json json) {
  Status status;
  Fields fields(json, "it", &status);
  if (fields.Text("format") != kFormat) fields.Fail("is of another format");
  const std::uint64_t version = fields.Number("version");
  if (!status.ok()) return status;
  if (version > kManifestVersion) {
    return FailedPrecondition(Concat("manifest: version ", version, " is newer than ",
                                     kManifestVersion, ", the newest this muster reads: use the ",
                                     "muster that wrote it"));
  }
  if (version == 0) return Damaged("there is no version 0");
  const std::string digest = fields.Text("digest");
  Manifest manifest;
  manifest.run = fields.Text("run");
  manifest.step = fields.Number("step");
  manifest.world_size = fields.Number("world_size");
  for (const auto& [name, value] : fields.Object("scalars").items()) {
    const auto scalar = ReadScalar(value);
    if (!scalar) fields.Fail(Concat("has a scalar ", Quote(name), " of another kind"));
    if (scalar) manifest.scalars.emplace(name, *scalar);
  }
  for (const Json& shard : fields.List("shards")) {
    if (!status.ok()) break;
    manifest.shards.push_back(ReadShard(shard, &status));
  }
  if (!status.ok()) return status;
  json.erase("digest");
  if (OwnDigest(json) != digest) return Damaged("its digest does not fit its contents");
  if (Status valid = Validate(manifest); !valid.ok()) return Damaged(valid.message());
  return manifest;
}

}  // namespace

Result<std::string> SerializeManifest(const Manifest& manifest) {
  MUSTER_RETURN_IF_ERROR(Validate(manifest).With("manifest"));
  Json scalars = Json::object();
  for (const auto& [name, scalar] : manifest.scalars) {
    std::visit([&, key = name](const auto& value) { scalars[key] = value; }, scalar);
  }
  Json shards = Json::array();
  for (const ShardRecord& shard : manifest.shards) shards.push_back(ToJson(shard));
  Json json = {{"format", kFormat},
               {"version", kManifestVersion},
               {"run", manifest.run},
               {"step", manifest.step},
               {"world_size", manifest.world_size},
               {"scalars", std::move(scalars)},
               {"shards", std::move(shards)}};
  std::string text;
  try {
    json["digest"] = OwnDigest(json);
    text = json.dump(1);
  } catch (const Json::exception& error) {  // a text that is not UTF-8
    return InvalidArgument(Concat("manifest: ", error.what()));
  }
  text += '\n';
  if (text.size() > kManifestBytesMax) {
    return InvalidArgument(
        Concat("manifest: ", text.size(), " bytes are more than ", kManifestBytesMax));
  }
  return text;
}

Result<Manifest> ParseManifest(std::string_view text) {
  if (text.size() > kManifestBytesMax) {
    return Damaged(Concat(text.size(), " bytes are more than ", kManifestBytesMax));
  }
  MUSTER_RETURN_IF_ERROR(CheckStructure(text));
  try {
    Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) return Damaged("not JSON; perhaps cut short");
    return FromJson(std::move(json));
  } catch (const Json::exception& error) {
    return Damaged(error.what());
  }
}

}  // namespace muster::checkpoint

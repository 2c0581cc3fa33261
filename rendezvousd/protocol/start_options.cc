#include "rendezvousd/protocol/start_options.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "common/text.h"

namespace muster::protocol {
namespace {

using Json = nlohmann::json;

// Reads the fields of one object and keeps the first thing that is wrong. Fields that nobody asked
// for are wrong too: both sides are one version, so an unknown name is a slip.
class ObjectReader {
 public:
  ObjectReader(const Json& object, std::string what) : object_(object), what_(std::move(what)) {
    if (!object_.is_object()) Fail(Concat(what_, " is not a JSON object"));
  }

  const Json* Find(const char* name) {
    seen_.insert(name);
    if (!status_.ok()) return nullptr;
    const auto found = object_.find(name);
    if (found == object_.end()) {
      Fail(Concat(what_, " has no ", Quote(name)));
      return nullptr;
    }
    return &*found;
  }
  void Text(const char* name, std::string* out) {
    const Json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_string()) return Wrong(name, "a text");
    *out = value->get<std::string>();
  }
  void Bool(const char* name, bool* out) {
    const Json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_boolean()) return Wrong(name, "true or false");
    *out = value->get<bool>();
  }
  template <typename T>
  void Integer(const char* name, T* out) {
    const Json* value = Find(name);
    if (value != nullptr && !Convert(*value, out)) Wrong(name, "an integer that fits");
  }
  void Time(const char* name, Duration* out) {
    std::int64_t count = 0;
    Integer(name, &count);
    *out = Duration(count);
  }
  template <typename T>
  static bool Convert(const Json& value, T* out) {
    if (!value.is_number_integer()) return false;
    if (value.is_number_unsigned()) {
      const auto number = value.get<std::uint64_t>();
      if (number > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) return false;
      *out = static_cast<T>(number);
      return true;
    }
    const auto number = value.get<std::int64_t>();
    if constexpr (std::numeric_limits<T>::is_signed) {
      if (number < static_cast<std::int64_t>(std::numeric_limits<T>::min())) return false;
      *out = static_cast<T>(number);
      return true;
    } else {
      return false;  // negative: nlohmann keeps the others unsigned
    }
  }
  void Wrong(const char* name, std::string_view wanted) {
    Fail(Concat(what_, "'s ", Quote(name), " is not ", wanted));
  }
  void Fail(std::string message) {
    if (status_.ok()) status_ = InvalidArgument(std::move(message));
  }
  Status Finish() {
    if (!status_.ok()) return status_;
    for (const auto& [name, value] : object_.items()) {
      if (!seen_.contains(name)) Fail(Concat(what_, " has an unknown field ", Quote(name)));
    }
    return status_;
  }

 private:
  const Json& object_;
  std::string what_;
  std::set<std::string> seen_;
  Status status_;
};

Json ConfigObject(const Config& config) {
  Json budgets = Json::object();
  for (const auto& [cause, budget] : config.budgets) {
    budgets[std::string(ToString(cause))] = budget.restarts;
  }
  return {
      {"run_id", config.run_id},
      {"version", config.version},
      {"attempt", config.attempt},
      {"nodes", config.nodes},
      {"agents_per_node", config.agents_per_node},
      {"min_nodes", config.min_nodes},
      {"max_nodes", config.max_nodes},
      {"workers_per_agent", config.workers_per_agent},
      {"form_timeout_ns", config.form_timeout.count()},
      {"last_call_ns", config.last_call.count()},
      {"wait_node_ns", config.wait_node.count()},
      {"prepare_timeout_ns", config.prepare_timeout.count()},
      {"beat_ns", config.beat.count()},
      {"lease_ns", config.lease.count()},
      {"probe_timeout_ns", config.probe_timeout.count()},
      {"attend_grace_ns", config.attend_grace.count()},
      {"stop_grace_ns", config.stop_grace.count()},
      {"can_requeue", config.can_requeue},
      {"budgets", budgets},
      {"batch_node", config.batch_node},
  };
}

void ReadNodes(ObjectReader& reader, Config* config) {
  if (const Json* nodes = reader.Find("nodes")) {
    if (!nodes->is_array()) return reader.Wrong("nodes", "a list");
    for (const Json& node : *nodes) {
      if (!node.is_string()) return reader.Wrong("nodes", "a list of texts");
      config->nodes.push_back(node.get<std::string>());
    }
  }
  if (const Json* counts = reader.Find("agents_per_node")) {
    if (!counts->is_array()) return reader.Wrong("agents_per_node", "a list");
    for (const Json& count : *counts) {
      std::uint32_t value = 0;
      if (!ObjectReader::Convert(count, &value)) {
        return reader.Wrong("agents_per_node", "a list of counts");
      }
      config->agents_per_node.push_back(value);
    }
  }
}

void ReadBudgets(ObjectReader& reader, Config* config) {
  const Json* budgets = reader.Find("budgets");
  if (budgets == nullptr) return;
  if (!budgets->is_object()) return reader.Wrong("budgets", "an object");
  for (const auto& [name, value] : budgets->items()) {
    bool known = false;
    for (int number = 0; number <= static_cast<int>(Cause::kGrow); ++number) {
      const auto cause = static_cast<Cause>(number);
      if (ToString(cause) != name) continue;
      known = true;
      if (!ObjectReader::Convert(value, &config->budgets[cause].restarts)) {
        return reader.Wrong("budgets", "an object of counts");
      }
    }
    if (!known) return reader.Fail(Concat("budgets names an unknown cause ", Quote(name)));
  }
}

Result<Config> ReadConfig(const Json& object) {
  Config config;
  ObjectReader reader(object, "the configuration");
  reader.Text("run_id", &config.run_id);
  reader.Text("version", &config.version);
  reader.Integer("attempt", &config.attempt);
  ReadNodes(reader, &config);
  reader.Integer("min_nodes", &config.min_nodes);
  reader.Integer("max_nodes", &config.max_nodes);
  reader.Integer("workers_per_agent", &config.workers_per_agent);
  reader.Time("form_timeout_ns", &config.form_timeout);
  reader.Time("last_call_ns", &config.last_call);
  reader.Time("wait_node_ns", &config.wait_node);
  reader.Time("prepare_timeout_ns", &config.prepare_timeout);
  reader.Time("beat_ns", &config.beat);
  reader.Time("lease_ns", &config.lease);
  reader.Time("probe_timeout_ns", &config.probe_timeout);
  reader.Time("attend_grace_ns", &config.attend_grace);
  reader.Time("stop_grace_ns", &config.stop_grace);
  reader.Bool("can_requeue", &config.can_requeue);
  ReadBudgets(reader, &config);
  reader.Text("batch_node", &config.batch_node);
  MUSTER_RETURN_IF_ERROR(reader.Finish());
  MUSTER_RETURN_IF_ERROR(Validate(config));
  return config;
}

// Bytes that are no UTF-8 become U+FFFD: JSON cannot carry them, and a path with them is then
// named in the error of whoever opens it.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Json> Parse(std::string_view text) {
  // The text is not repeated: secrets are in it.
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return InvalidArgument(Concat("the start options (", text.size(), " bytes) are not JSON"));
  }
  return json;
}

}  // namespace

std::string ToJson(const Config& config) { return Dump(ConfigObject(config)); }

Result<Config> ConfigFromJson(std::string_view json) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, Parse(json));
  return ReadConfig(object);
}

std::string ToJson(const StartOptions& options) {
  return Dump({
      {"config", ConfigObject(options.config)},
      {"listen_fd", options.listen_fd},
      {"join_secret", options.join_secret},
      {"operator_secret", options.operator_secret},
      {"certificate", options.certificate},
      {"private_key", options.private_key},
      {"journal", options.journal},
      {"state_dir", options.state_dir},
  });
}

Result<StartOptions> StartOptionsFromJson(std::string_view json) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, Parse(json));
  StartOptions options;
  ObjectReader reader(object, "the start options");
  const Json* config = reader.Find("config");
  reader.Integer("listen_fd", &options.listen_fd);
  reader.Text("join_secret", &options.join_secret);
  reader.Text("operator_secret", &options.operator_secret);
  reader.Text("certificate", &options.certificate);
  reader.Text("private_key", &options.private_key);
  reader.Text("journal", &options.journal);
  reader.Text("state_dir", &options.state_dir);
  MUSTER_RETURN_IF_ERROR(reader.Finish());
  MUSTER_ASSIGN_OR_RETURN(options.config, ReadConfig(*config));
  return options;
}

}  // namespace muster::protocol

// The JSON file: DeepSpeed's names where the meaning is the same.

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/text.h"
#include "trainer_runtime/muster_train/options.h"

namespace muster::train_program {
namespace {

using Json = nlohmann::json;
using Setter = std::function<bool(const Json&)>;  // false: another kind of value is expected

Setter Set(std::uint64_t* target) {
  return [target](const Json& value) {
    if (!value.is_number_unsigned()) return false;
    *target = value.get<std::uint64_t>();
    return true;
  };
}
Setter Set(double* target) {
  return [target](const Json& value) {
    if (!value.is_number()) return false;
    *target = value.get<double>();
    return true;
  };
}
Setter Set(std::string* target) {
  return [target](const Json& value) {
    if (!value.is_string()) return false;
    *target = value.get<std::string>();
    return true;
  };
}
Setter Only(std::string expected) {
  return [expected](const Json& value) { return value == expected; };
}

// Every known key, by its path.
std::map<std::string, Setter> Keys(Options* o) {
  return {
      {"train_batch_size", Set(&o->batch)},
      {"gradient_clipping", Set(&o->clip_norm)},
      {"steps_per_print", Set(&o->log_every)},
      {"seed", Set(&o->seed)},
      {"optimizer.type", Only("AdamW")},
      {"optimizer.params.lr", Set(&o->learning_rate)},
      {"optimizer.params.betas",
       [o](const Json& value) {
         if (!value.is_array() || value.size() != 2 || !value[0].is_number() ||
             !value[1].is_number()) {
           return false;
         }
         o->beta1 = value[0].get<double>();
         o->beta2 = value[1].get<double>();
         return true;
       }},
      {"optimizer.params.eps", Set(&o->epsilon)},
      {"optimizer.params.weight_decay", Set(&o->weight_decay)},
      {"scheduler.type", Only("WarmupLR")},
      {"scheduler.params.warmup_num_steps", Set(&o->warmup_steps)},
      {"zero_optimization.stage", [](const Json& value) { return value == 0; }},
      {"zero_optimization.reduce_bucket_size",
       [o](const Json& value) {  // DeepSpeed counts elements
         if (!value.is_number_unsigned()) return false;
         o->bucket_bytes = value.get<std::uint64_t>() * sizeof(float);
         return true;
       }},
      // Ours.
      {"model", Set(&o->model)},
      {"backend", Set(&o->backend)},
      {"steps", Set(&o->steps)},
      {"checkpoint_every", Set(&o->checkpoint_every)},
      {"checkpoints_kept", Set(&o->checkpoints_kept)},
  };
}

void Apply(const Json& object, const std::string& prefix, const std::map<std::string, Setter>& keys,
           std::vector<std::string>* wrong) {
  for (const auto& [name, value] : object.items()) {
    const std::string path = prefix.empty() ? name : Concat(prefix, ".", name);
    if (const auto known = keys.find(path); known != keys.end()) {
      if (!known->second(value)) wrong->push_back(Concat(path, " cannot be ", value.dump()));
    } else if (value.is_object()) {
      Apply(value, path, keys, wrong);
    } else {
      wrong->push_back(Concat(path, " is unknown"));
    }
  }
}

}  // namespace

Status ApplyConfig(const std::string& json, Options* options) {
  const Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return InvalidArgument("not a JSON object");
  std::vector<std::string> wrong;
  Apply(root, "", Keys(options), &wrong);
  if (wrong.empty()) return OkStatus();
  return InvalidArgument(Join(wrong, "; "));
}

}  // namespace muster::train_program

// Messages and JSON: fields are members of the same name, so that a new one is a line in the proto.
#include "server/grpc/messages.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <limits>
#include <memory>
#include <vector>

#include "bantam/core/error.hpp"
#include "server/grpc/bantam.pb.h"

namespace bantam::server {

namespace {

namespace proto = google::protobuf;
using Field = proto::FieldDescriptor;

/// Fields that are members of another name.
constexpr std::pair<std::string_view, std::string_view> other_names[] = {{"prompt_tokens", "prompt"}};
/// A message whose fields are members of what it stands in.
constexpr std::string_view merged = "options";
/// Text that is JSON.
constexpr std::string_view json_ending = "_json";
/// An object whose members are those of what it stands in.
constexpr std::string_view merged_json = "more_json";

void add(Json& object, std::string_view name, Json value) {
  if (object.contains(name)) fail(Errc::invalid_argument, printable(name), ": expected one, found two");
  object[name] = std::move(value);
}

void add_all(Json& object, const Json& more) {
  for (const auto& [name, value] : more.items()) add(object, name, value);
}

Json json_of(const proto::Message& from);

/// One value of a field; `at`: of a repeated one, else -1.
Json value_of(const proto::Message& from, const Field& field, int at) {
  const proto::Reflection& r = *from.GetReflection();
  const bool one = at < 0;
  switch (field.cpp_type()) {
    case Field::CPPTYPE_INT32: return one ? r.GetInt32(from, &field) : r.GetRepeatedInt32(from, &field, at);
    case Field::CPPTYPE_INT64: return one ? r.GetInt64(from, &field) : r.GetRepeatedInt64(from, &field, at);
    case Field::CPPTYPE_DOUBLE: return one ? r.GetDouble(from, &field) : r.GetRepeatedDouble(from, &field, at);
    case Field::CPPTYPE_BOOL: return one ? r.GetBool(from, &field) : r.GetRepeatedBool(from, &field, at);
    case Field::CPPTYPE_STRING: return one ? r.GetString(from, &field) : r.GetRepeatedString(from, &field, at);
    case Field::CPPTYPE_MESSAGE: return json_of(one ? r.GetMessage(from, &field) : r.GetRepeatedMessage(from, &field, at));
    default: fail(Errc::unsupported, field.full_name(), ": a kind of field that requests have not");
  }
}

std::string key_of(const Json& key) { return key.is_string() ? key.get<std::string>() : key.dump(); }

Json values_of(const proto::Message& from, const Field& field) {
  if (!field.is_repeated()) return value_of(from, field, -1);
  const proto::Reflection& r = *from.GetReflection();
  const int size = r.FieldSize(from, &field);
  Json all = field.is_map() ? Json::object() : Json::array();
  for (int i = 0; i < size; ++i) {
    if (!field.is_map()) {
      all.push_back(value_of(from, field, i));
      continue;
    }
    const proto::Message& entry = r.GetRepeatedMessage(from, &field, i);
    const proto::Descriptor& type = *entry.GetDescriptor();
    all[key_of(value_of(entry, *type.map_key(), -1))] = value_of(entry, *type.map_value(), -1);
  }
  return all;
}

Json json_of(const proto::Message& from) {
  std::vector<const Field*> fields;
  from.GetReflection()->ListFields(from, &fields);
  Json out = Json::object();
  for (const Field* field : fields) {
    const std::string& name = field->name();
    Json value = values_of(from, *field);
    if (name == merged) {
      add_all(out, value);
    } else if (name == merged_json) {
      const Json more = Json::parse(value.string(), name);
      if (!more.is_object()) fail(Errc::invalid_argument, name, ": expected an object, found ", more.type_name());
      add_all(out, more);
    } else if (name.ends_with(json_ending)) {
      add(out, std::string_view(name).substr(0, name.size() - json_ending.size()), Json::parse(value.string(), name));
    } else {
      std::string_view known = name;
      for (const auto& [theirs, ours] : other_names) known = known == theirs ? ours : known;
      add(out, known, std::move(value));
    }
  }
  return out;
}

void fill(proto::Message& to, const Json& from);

/// Sets a field, or adds to a repeated one. What is null there is no number here.
void set(proto::Message& to, const Field& field, const Json& value) {
  const proto::Reflection& r = *to.GetReflection();
  const bool many = field.is_repeated();
  constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
  const auto number = [&] { return value.is_number() ? value.get<double>() : nothing; };
  switch (field.cpp_type()) {
    case Field::CPPTYPE_INT32: return many ? r.AddInt32(&to, &field, value.get<std::int32_t>()) : r.SetInt32(&to, &field, value.get<std::int32_t>());
    case Field::CPPTYPE_INT64: return many ? r.AddInt64(&to, &field, value.get<std::int64_t>()) : r.SetInt64(&to, &field, value.get<std::int64_t>());
    case Field::CPPTYPE_DOUBLE: return many ? r.AddDouble(&to, &field, number()) : r.SetDouble(&to, &field, number());
    case Field::CPPTYPE_FLOAT: return many ? r.AddFloat(&to, &field, static_cast<float>(number())) : r.SetFloat(&to, &field, static_cast<float>(number()));
    case Field::CPPTYPE_BOOL: return many ? r.AddBool(&to, &field, value.get<bool>()) : r.SetBool(&to, &field, value.get<bool>());
    case Field::CPPTYPE_STRING: return many ? r.AddString(&to, &field, value.get<std::string>()) : r.SetString(&to, &field, value.get<std::string>());
    case Field::CPPTYPE_MESSAGE: return fill(many ? *r.AddMessage(&to, &field) : *r.MutableMessage(&to, &field), value);
    default: fail(Errc::unsupported, field.full_name(), ": a kind of field that answers have not");
  }
}

void fill_map(proto::Message& to, const Field& field, const Json& from) {
  for (const auto& [key, value] : from.items()) {
    proto::Message& entry = *to.GetReflection()->AddMessage(&to, &field);
    const proto::Descriptor& type = *entry.GetDescriptor();
    const bool is_text = type.map_key()->cpp_type() == Field::CPPTYPE_STRING;
    set(entry, *type.map_key(), is_text ? Json(key) : Json::parse(key, field.name()));
    set(entry, *type.map_value(), value);
  }
}

void fill(proto::Message& to, const Json& from) {
  const proto::Descriptor& type = *to.GetDescriptor();
  // An object of whatever names is a message around a map: lists of maps there are none.
  if (type.field_count() == 1 && type.field(0)->is_map()) return fill_map(to, *type.field(0), from);
  for (int i = 0; i < type.field_count(); ++i) {
    const Field& field = *type.field(i);
    const Json* value = from.find(field.name());
    if (value == nullptr || value->is_null()) continue;
    if (field.is_map()) {
      fill_map(to, field, *value);
    } else if (field.is_repeated()) {
      for (const Json& item : *value) set(to, field, item);
    } else {
      set(to, field, *value);
    }
  }
}

std::unique_ptr<proto::Message> make(const proto::Descriptor* type) {
  return std::unique_ptr<proto::Message>(proto::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

}  // namespace

const GrpcMethod* GrpcMethod::find(std::string_view name) {
  static const GrpcMethod methods[] = {
      {"Generate", "POST", "/v1/completions"}, {"Chat", "POST", "/v1/chat/completions"}, {"Embed", "POST", "/v1/embeddings"},
      {"Tokenize", "POST", "/tokenize"},       {"Detokenize", "POST", "/detokenize"},    {"ListModels", "GET", "/v1/models"},
      {"LoadModel", "POST", "/models/load"},   {"UnloadModel", "POST", "/models/unload"}};
  constexpr std::string_view service = "/bantam.v1.Bantam/";
  if (!name.starts_with(service)) return nullptr;
  for (const GrpcMethod& one : methods) {
    if (one.descriptor_->name() == name.substr(service.size())) return &one;
  }
  return nullptr;
}

GrpcMethod::GrpcMethod(std::string_view name, std::string_view method, std::string_view path)
    : descriptor_(v1::GenerateRequest::descriptor()->file()->service(0)->FindMethodByName(std::string(name))), method_(method), path_(path) {}

std::string GrpcMethod::body_of(std::string_view bytes) const {
  const std::unique_ptr<proto::Message> message = make(descriptor_->input_type());
  if (!message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail(Errc::invalid_argument, "request: expected a message ", descriptor_->input_type()->full_name(), ", found other bytes");
  if (method_ == "GET") return {};
  Json body = json_of(*message);
  if (descriptor_->server_streaming()) {
    body["stream"] = true;
    body["stream_options"] = Json{{"include_usage", true}};
    // Replies of texts have a place for them.
    body["return_token_ids"] = true;
  }
  return body.dump();
}

std::string GrpcMethod::message_of(const Json& answer) const {
  const std::unique_ptr<proto::Message> message = make(descriptor_->output_type());
  fill(*message, answer);
  return message->SerializeAsString();
}

}  // namespace bantam::server

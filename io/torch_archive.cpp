#include "heddle/io/torch_archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <set>

#include "heddle/core/base/error.h"
#include "heddle/core/base/host_array.h"
#include "heddle/core/base/shortened.h"
#include "heddle/io/pickle.h"
#include "heddle/io/zip.h"

namespace heddle {
namespace {

using Bytes = std::span<const uint8_t>;
using Kind = PickleValue::Kind;

struct StorageClass {
  std::string_view name;
  DType dtype;
};
constexpr std::array<StorageClass, 9> storage_classes = {{{"torch FloatStorage", DType::f32},
                                                          {"torch HalfStorage", DType::f16},
                                                          {"torch BFloat16Storage", DType::bf16},
                                                          {"torch DoubleStorage", DType::f64},
                                                          {"torch CharStorage", DType::i8},
                                                          {"torch ByteStorage", DType::u8},
                                                          {"torch IntStorage", DType::i32},
                                                          {"torch LongStorage", DType::i64},
                                                          {"torch BoolStorage", DType::boolean}}};
constexpr std::string_view rebuild_tensor = "torch._utils _rebuild_tensor";
constexpr std::string_view rebuild_tensor_v2 = "torch._utils _rebuild_tensor_v2";
constexpr std::string_view rebuild_parameter = "torch._utils _rebuild_parameter";
constexpr std::string_view torch_size = "torch Size";
constexpr std::array<std::string_view, 14> known = {"collections OrderedDict",
                                                    rebuild_tensor,
                                                    rebuild_tensor_v2,
                                                    rebuild_parameter,
                                                    torch_size,
                                                    storage_classes[0].name,
                                                    storage_classes[1].name,
                                                    storage_classes[2].name,
                                                    storage_classes[3].name,
                                                    storage_classes[4].name,
                                                    storage_classes[5].name,
                                                    storage_classes[6].name,
                                                    storage_classes[7].name,
                                                    storage_classes[8].name};
// Where checkpoints keep what is wanted of them.
constexpr std::array<std::string_view, 4> state_keys = {"state_dict", "model_state_dict", "model", "module"};
constexpr uint64_t most_sharing = 16;  // bytes of all tensors for each of the file

// The first numbers of the format before archives (torch/serialization.py).
constexpr std::array<uint8_t, 12> legacy_magic = {0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                                  0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

struct Storage {
  std::string_view key;
  DType dtype = DType::f32;
  uint64_t numel = 0;
};

class ArchiveReader {
 public:
  // From a storage to its bytes.
  using Find = std::function<Bytes(const Storage&)>;

  ArchiveReader(TorchArchive& result, const std::string& path) : result_(result), path_(path) {}

  void read() {
    const Bytes file = result_.file.bytes();
    if (file.size() >= 2 + legacy_magic.size() && file[0] == 0x80 &&
        std::equal(legacy_magic.begin(), legacy_magic.end(), file.begin() + 2)) {
      read_legacy(file);
    } else if (file.size() >= 4 && std::memcmp(file.data(), "PK\x03\x04", 4) == 0) {
      read_archive(file);
    } else {
      fail("it is no archive of torch.save(), or truncated");
    }
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw IoError(fmt::format("[torch] {}: {}", path_, fmt::format(format, std::forward<Args>(args)...)));
  }

  // ---- PREFIX/data.pkl, PREFIX/data/KEY, PREFIX/byteorder
  void read_archive(Bytes file) {
    const ZipArchive archive(file, "torch", path_);
    std::map<std::string, const ZipEntry*> entries;
    std::string prefix;
    bool found = false;
    for (const ZipEntry& entry : archive.entries()) {
      if (!entries.emplace(entry.name, &entry).second) fail("entry '{}' is there twice", shortened(entry.name));
      if (!entry.name.ends_with("/data.pkl") || entry.name.find('/') != entry.name.size() - 9) continue;
      prefix = entry.name.substr(0, entry.name.size() - 8);
      found = true;
    }
    if (!found) fail("the archive has no data.pkl; torch.save() wrote something else");
    if (entries.contains(prefix + "constants.pkl"))
      fail("it is a TorchScript program; save the state_dict() of the module instead");
    if (const auto order = entries.find(prefix + "byteorder"); order != entries.end()) {
      const Bytes text = archive.stored(*order->second);
      if (!std::equal(text.begin(), text.end(), "little", "little" + 6)) fail("it is big-endian, which is not read");
    }
    const Bytes pickle = archive.stored(*entries[prefix + "data.pkl"]);
    std::map<std::string_view, Bytes> storages;
    take_tensors(read_pickle(pickle, known, "torch", path_), [&](const Storage& storage) {
      const auto known_storage = storages.find(storage.key);
      if (known_storage != storages.end()) return known_storage->second;
      const auto entry = entries.find(fmt::format("{}data/{}", prefix, storage.key));
      if (entry == entries.end()) fail("the archive has no storage '{}'", shortened(storage.key));
      return storages[storage.key] = archive.stored(*entry->second);
    });
  }

  // ---- pickles of a magic number, a version, the machine, the state dict and the keys of storages; then each
  // storage's number of elements and bytes
  void read_legacy(Bytes file) {
    size_t at = 0;
    const auto next = [&] {
      Pickle pickle = read_pickle(file.subspan(at), known, "torch", path_);
      at += pickle.bytes;
      return pickle;
    };
    next();
    const Pickle version = next(), machine = next(), state = next(), keys = next();
    if (version.root_value().kind != Kind::integer || version.root_value().integer != 1001)
      fail("its version is not 1001");
    if (const PickleValue* order = find(machine, machine.root_value(), "little_endian");
        order == nullptr || order->kind != Kind::boolean || order->integer != 1)
      fail("it is big-endian, which is not read");
    if (keys.root_value().kind != Kind::list) fail("its storages are no list");
    std::map<std::string_view, uint64_t> places;  // of the elements' number
    std::map<std::string_view, uint64_t> widths;
    for (const PickleValue& value : state.values) {
      if (value.kind != Kind::persistent) continue;
      const Storage storage = storage_of(state, value);
      widths[storage.key] = size_of(storage.dtype);
    }
    uint64_t place = at;
    for (const uint32_t item : keys.root_value().items) {
      const auto width = widths.find(keys.at(item).text);
      if (keys.at(item).kind != Kind::text || width == widths.end()) fail("a storage in its list is of no tensor");
      uint64_t numel = 0;
      if (file.size() - place < sizeof numel) fail("truncated: its storages end before the file does");
      std::memcpy(&numel, file.data() + place, sizeof numel);
      if (!places.emplace(width->first, place).second) fail("a storage is there twice");
      if (numel > (file.size() - place - sizeof numel) / width->second)
        fail("truncated: storage '{}' of {} elements ends behind the file", shortened(width->first), numel);
      place += sizeof numel + numel * width->second;
    }
    take_tensors(state, [&](const Storage& storage) {
      const auto found = places.find(storage.key);
      if (found == places.end()) fail("the file has no storage '{}'", shortened(storage.key));
      uint64_t numel = 0;
      std::memcpy(&numel, file.data() + found->second, sizeof numel);
      return file.subspan(found->second + sizeof numel, numel * widths.at(storage.key));
    });
  }

  // ---- the state dict
  static const PickleValue* find(const Pickle& pickle, const PickleValue& dict, std::string_view key) {
    if (dict.kind != Kind::dict) return nullptr;
    for (size_t i = 0; i < dict.items.size(); i += 2) {
      const PickleValue& own = pickle.at(dict.items[i]);
      if (own.kind == Kind::text && own.text == key) return &pickle.at(dict.items[i + 1]);
    }
    return nullptr;
  }

  static bool is_tensor(const Pickle& pickle, const PickleValue& value) {
    return value.kind == Kind::call && pickle.at(value.items[0]).text != torch_size;
  }
  static bool has_tensors(const Pickle& pickle, const PickleValue& dict) {
    for (size_t i = 1; i < dict.items.size(); i += 2)
      if (is_tensor(pickle, pickle.at(dict.items[i]))) return true;
    return false;
  }

  const PickleValue& state_dict(const Pickle& pickle) const {
    const PickleValue& root = pickle.root_value();
    if (root.kind != Kind::dict) fail("it holds no dict of tensors; save a state_dict()");
    if (has_tensors(pickle, root) || root.items.empty()) return root;
    for (const std::string_view key : state_keys) {
      const PickleValue* const inner = find(pickle, root, key);
      if (inner != nullptr && inner->kind == Kind::dict && has_tensors(pickle, *inner)) return *inner;
    }
    std::string keys;
    for (size_t i = 0; i < root.items.size(); i += 2)
      keys += fmt::format("{}'{}'", keys.empty() ? "" : ", ", shortened(pickle.at(root.items[i]).text, 40));
    fail("it holds no dict of tensors, but {}; save a state_dict()", shortened(keys));
  }

  void take_tensors(const Pickle& pickle, const Find& bytes_of) {
    const PickleValue& dict = state_dict(pickle);
    std::set<std::string> names;
    for (size_t i = 0; i < dict.items.size(); i += 2) {
      const PickleValue &key = pickle.at(dict.items[i]), &value = pickle.at(dict.items[i + 1]);
      if (key.kind != Kind::text) fail("a key of its dict is no text");
      const std::string name(key.text);
      if (!names.insert(name).second) fail("the key '{}' is there twice", shortened(name));
      if (is_tensor(pickle, value))
        add_tensor(name, pickle, value, bytes_of);
      else
        result_.others.push_back(name);
    }
  }

  // ---- a tensor
  // The arguments of a call, at least that many.
  const std::vector<uint32_t>& arguments(const Pickle& pickle, const PickleValue& call, size_t least) const {
    const std::vector<uint32_t>& items = pickle.at(call.items[1]).items;
    if (items.size() < least) fail("its pickle makes a tensor of {} arguments", items.size());
    return items;
  }

  int64_t count(const PickleValue& value, const std::string& name) const {
    if (value.kind != Kind::integer || value.integer < 0 || value.integer > int64_t{1} << 62)
      fail("tensor '{}' has a size, stride or offset that is none", name);
    return value.integer;
  }

  std::vector<int64_t> counts(const Pickle& pickle, const PickleValue& value, const std::string& name) const {
    const PickleValue* tuple = &value;
    if (value.kind == Kind::call && pickle.at(value.items[0]).text == torch_size)
      tuple = &pickle.at(arguments(pickle, value, 1)[0]);
    if (tuple->kind != Kind::tuple && tuple->kind != Kind::list) fail("tensor '{}' has sizes that are none", name);
    if (tuple->items.size() > static_cast<size_t>(Shape::max_rank))
      fail("tensor '{}' has {} dimensions, at most {} are supported", name, tuple->items.size(), Shape::max_rank);
    std::vector<int64_t> all;
    for (const uint32_t item : tuple->items) all.push_back(count(pickle.at(item), name));
    return all;
  }

  // ('storage', class, key, where it was, elements), and in old files a view of another one, which nobody makes.
  Storage storage_of(const Pickle& pickle, const PickleValue& value) const {
    const PickleValue* id = value.kind == Kind::persistent ? &pickle.at(value.items[0]) : nullptr;
    if (id == nullptr || id->kind != Kind::tuple || id->items.size() < 5 || pickle.at(id->items[0]).text != "storage")
      fail("a tensor has no storage");
    const PickleValue &type = pickle.at(id->items[1]), &key = pickle.at(id->items[2]);
    const auto row = std::find_if(storage_classes.begin(), storage_classes.end(), [&](const StorageClass& c) {
      return type.kind == Kind::global && type.text == c.name;
    });
    if (row == storage_classes.end() || key.kind != Kind::text) fail("a storage is of no known kind");
    if (id->items.size() > 5 && pickle.at(id->items[5]).kind != Kind::none)
      fail("a storage is a view of another one, which is not read");
    const PickleValue& numel = pickle.at(id->items[4]);
    return {key.text, row->dtype, static_cast<uint64_t>(count(numel, std::string(shortened(key.text))))};
  }

  void add_tensor(const std::string& name, const Pickle& pickle, const PickleValue& call, const Find& bytes_of) {
    const std::string shown = shortened(name);
    const std::string_view function = pickle.at(call.items[0]).text;
    if (function == rebuild_parameter) {
      const PickleValue& inner = pickle.at(arguments(pickle, call, 1)[0]);
      if (!is_tensor(pickle, inner) || pickle.at(inner.items[0]).text == rebuild_parameter)
        fail("parameter '{}' is of no tensor", shown);
      return add_tensor(name, pickle, inner, bytes_of);
    }
    if (function != rebuild_tensor && function != rebuild_tensor_v2) fail("'{}' is a call that makes no tensor", shown);
    const std::vector<uint32_t>& items = arguments(pickle, call, 4);
    const Storage storage = storage_of(pickle, pickle.at(items[0]));
    const Bytes bytes = bytes_of(storage);
    const uint64_t width = size_of(storage.dtype);
    if (storage.numel > bytes.size() / width || storage.numel * width != bytes.size())
      fail("storage '{}' of {} {} has {} bytes", shortened(storage.key), storage.numel, name_of(storage.dtype),
           bytes.size());
    const View view = view_of(shown, count(pickle.at(items[1]), shown), counts(pickle, pickle.at(items[2]), shown),
                              counts(pickle, pickle.at(items[3]), shown), storage);
    result_.tensors.emplace(name, TensorBytes{storage.dtype, view.shape, row_major(shown, view, storage.dtype, bytes)});
  }

  View view_of(const std::string& name, int64_t offset, const std::vector<int64_t>& sizes,
               const std::vector<int64_t>& strides, const Storage& storage) const {
    if (sizes.size() != strides.size())
      fail("tensor '{}' has {} sizes and {} strides", name, sizes.size(), strides.size());
    int64_t numel = 1, last = offset, reach = 0;
    bool empty = false, fits = true;
    for (size_t i = 0; i < sizes.size() && fits; ++i) {
      const int64_t size = std::max<int64_t>(sizes[i], 1);
      empty = empty || sizes[i] == 0;
      fits = !__builtin_mul_overflow(numel, size, &numel) && !__builtin_mul_overflow(size - 1, strides[i], &reach) &&
             !__builtin_add_overflow(last, reach, &last);
    }
    if (!fits) fail("tensor '{}': sizes and strides overflow", name);
    if (empty) return View::dense(Shape(sizes));
    if (static_cast<uint64_t>(last) >= storage.numel)
      fail("tensor '{}' reaches element {} of a storage of {}", name, last, storage.numel);
    if (static_cast<uint64_t>(numel) > storage.numel)
      fail("tensor '{}' has {} elements of a storage of {}; save its contiguous()", name, numel, storage.numel);
    View view = View::dense(Shape(sizes));
    view.offset = offset;
    std::copy(strides.begin(), strides.end(), view.strides.begin());
    return view;
  }

  Bytes row_major(const std::string& name, const View& view, DType dtype, Bytes storage) {
    const size_t width = size_of(dtype), bytes = static_cast<size_t>(view.shape.numel()) * width;
    total_ += bytes;
    if (total_ / most_sharing > result_.file.bytes().size())
      fail("up to '{}' its tensors have {} bytes, more than {} times the file", name, total_, most_sharing);
    if (bytes == 0) return {};
    View from_first = view;
    from_first.offset = 0;
    if (from_first.is_dense() && dtype != DType::boolean)
      return storage.subspan(static_cast<size_t>(view.offset) * width, bytes);
    copied_ += bytes;
    if (copied_ > result_.file.bytes().size())
      fail("up to '{}' its strided tensors have {} bytes, more than the file; save their contiguous()", name, copied_);
    std::vector<uint8_t>& copy = result_.copies.emplace_back(bytes);
    gather(storage.data(), view, 0, width, copy.data());
    if (dtype == DType::boolean)
      std::transform(copy.begin(), copy.end(), copy.begin(), [](uint8_t b) { return static_cast<uint8_t>(b != 0); });
    return copy;
  }

  TorchArchive& result_;
  std::string path_;
  uint64_t total_ = 0, copied_ = 0;
};

}  // namespace

TorchArchive read_torch(FileBytes file, const std::string& path) {
  TorchArchive result;
  result.file = std::move(file);
  ArchiveReader(result, path).read();
  return result;
}

TorchArchive read_torch(const std::string& path) { return read_torch(FileBytes::read(path, "torch"), path); }

TensorMap TorchArchive::upload(DeviceContext* device) const {
  TensorMap result;
  for (const auto& [name, tensor] : tensors)
    result.emplace(name, Tensor::from_bytes(tensor.bytes.data(), static_cast<size_t>(tensor.shape.numel()),
                                            tensor.dtype, tensor.shape, device));
  return result;
}

TensorMap load_torch(const std::string& path, DeviceContext* device) { return read_torch(path).upload(device); }

}  // namespace heddle

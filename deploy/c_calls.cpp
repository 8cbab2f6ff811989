#include "heddle/deploy/c_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/device/storage.h"
#include "heddle/core/dialect/c_text.h"
#include "heddle/core/run/commands.h"
#include "heddle/deploy/c_device.h"
#include "heddle/deploy/c_syntax.h"

namespace heddle {
namespace {

constexpr size_t most_calls = 100000;
// Ids of memory that c_device() does not hold.
constexpr uint64_t first_id = uint64_t{1} << 40;

constexpr const char* aligned_text =
    "#if defined(__GNUC__)\n#define ALIGNED __attribute__((aligned(64)))\n#else\n#define ALIGNED\n#endif\n";

constexpr const char* gather_text = R"(
/* Elements of a view, in row-major order. */
static void gather(void* to, const void* from, size_t size, int rank, const int64_t* sizes, const int64_t* strides,
                   int64_t offset) {
  int64_t at[16] = {0};
  unsigned char* target = (unsigned char*)to;
  int d;
  do {
    int64_t index = offset;
    for (d = 0; d < rank; ++d) index += at[d] * strides[d];
    memcpy(target, (const unsigned char*)from + (size_t)index * size, size);
    target += size;
    for (d = rank - 1; d >= 0 && ++at[d] == sizes[d]; --d) at[d] = 0;
  } while (d >= 0);
}
)";

std::string words_text(const std::string& name, std::span<const uint32_t> words) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(words.data());
  return fmt::format("static const uint32_t {}[{}] = {};\n", name, std::max<size_t>(words.size(), 1),
                     c_elements({bytes, words.size_bytes()}, 4));
}

std::string sizes_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) text += fmt::format("[{}]", size);
  return text;
}

// A name of a model in a comment.
std::string in_comment(std::string text) {
  for (char& c : text) {
    if (c == '*' || c == '\\' || static_cast<unsigned char>(c) < ' ') c = '_';
  }
  return text;
}

std::string first_line(const CModel& model, const char* what) {
  return fmt::format("/* {}: {}. Written by heddle compile. */\n", model.name, what);
}

// Another thing than the output itself has to be copied into it.
bool is_direct(const GraphImage& image, const ModelImage::Port& port) {
  const GraphImage::Output& output = image.outputs[static_cast<size_t>(port.index)];
  if (output.kind != GraphImage::Output::Kind::own || !output.view.is_dense()) return false;
  const auto same = [&](const GraphImage::Output& o) { return o.kind == output.kind && o.index == output.index; };
  return std::ranges::count_if(image.outputs, same) == 1 &&
         image.own_bytes[static_cast<size_t>(output.index)] <= round_up<uint64_t>(port.bytes(), 4) && port.bytes() > 0;
}

}  // namespace

CCalls::CCalls(const CModel& model) : model_(model) {
  for (const CModel::Entry& entry : model.entries)
    add(entry, entry.bucket.empty() ? "" : fmt::format("_{}", c_name(entry.bucket)));
}

CCalls::Symbol CCalls::memory(const std::string& name, uint64_t bytes) {
  memory_bytes_ += bytes;
  statics_ += fmt::format("static uint64_t {}[{}] ALIGNED;\n", name, std::max<uint64_t>((bytes + 7) / 8, 1));
  return {name};
}

const CKernel& CCalls::kernel_of(const KernelSource& source) {
  const auto [at, fresh] = kernel_at_.try_emplace(source.hash(), kernels_.size());
  if (fresh) kernels_.push_back({&source, fmt::format("{}_k{}_{}", model_.name, kernels_.size(), c_name(source.name))});
  return kernels_[at->second];
}

std::string CCalls::weight_name(int weight) const { return fmt::format("{}_w{}", model_.name, weight); }

std::vector<CCalls::Symbol> CCalls::inputs_of(const CModel::Entry& entry) {
  std::vector<Symbol> inputs(entry.image.image.input_bytes.size(), Symbol{"0"});
  for (const ModelImage::Weight& weight : entry.image.weights) {
    const auto same = [&](const Weight& w) { return w.offset == weight.offset && w.bytes == weight.bytes; };
    const auto found = std::ranges::find_if(weights_, same);
    const int number = static_cast<int>(found - weights_.begin());
    if (found == weights_.end()) weights_.push_back({weight.offset, weight.bytes, 0});
    inputs[static_cast<size_t>(weight.slot)] = {weight_name(number), number};
  }
  const std::vector<std::string> names = c_ports(entry.image.inputs, "in");
  for (size_t i = 0; i < names.size(); ++i) {
    const int32_t slot = entry.image.inputs[i].index;
    if (slot >= 0) inputs[static_cast<size_t>(slot)] = {names[i]};
  }
  return inputs;
}

std::vector<CCalls::Symbol> CCalls::own_of(const CModel::Entry& entry, const std::string& suffix) {
  const GraphImage& image = entry.image.image;
  std::vector<Symbol> own(image.own_bytes.size());
  const std::vector<std::string> names = c_ports(entry.image.outputs, "out");
  for (size_t i = 0; i < names.size(); ++i) {
    const ModelImage::Port& port = entry.image.outputs[i];
    if (is_direct(image, port))
      own[static_cast<size_t>(image.outputs[static_cast<size_t>(port.index)].index)] = {names[i]};
  }
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i].text.empty()) own[i] = memory(fmt::format("own{}_{}", suffix, i), image.own_bytes[i]);
  }
  return own;
}

void CCalls::add(const CModel::Entry& entry, const std::string& suffix) {
  std::vector<Symbol> inputs = inputs_of(entry);
  const GraphImage& image = entry.image.image;
  std::string prepare;
  for (const GraphImage& once : image.once) {
    add_once(once, suffix, inputs);
    prepare =
        fmt::format("  static int ready = 0;\n  if (!ready) {{\n    prepare{}();\n    ready = 1;\n  }}\n", suffix);
  }
  const std::vector<Symbol> own = own_of(entry, suffix);
  const std::string host = "host" + suffix;
  if (!entry.image.host_words.empty()) statics_ += words_text(host, entry.image.host_words);
  std::string body = calls(image, inputs, own, host, suffix) + results(entry, inputs, own);
  for (const std::string& name : c_ports(entry.image.inputs, "in")) body += fmt::format("  (void){};\n", name);
  functions_ += fmt::format("\n{} {{\n{}{}}}\n", c_prototype(model_, entry), prepare, body);
}

void CCalls::add_once(const GraphImage& once, const std::string& suffix, std::vector<Symbol>& inputs) {
  std::vector<Symbol> own;
  for (size_t i = 0; i < once.own_bytes.size(); ++i)
    own.push_back(memory(fmt::format("once{}_{}", suffix, i), once.own_bytes[i]));
  const std::string body = calls(once, inputs, own, "", "_once" + suffix);
  functions_ +=
      fmt::format("\n/* What depends on weights alone. */\nstatic void prepare{}(void) {{\n{}}}\n", suffix, body);
  const size_t first = inputs.size() - once.outputs.size();
  for (size_t i = 0; i < once.outputs.size(); ++i) {
    const auto index = static_cast<size_t>(once.outputs[i].index);
    inputs[first + i] = once.outputs[i].kind == GraphImage::Output::Kind::own ? own[index] : inputs[index];
  }
}

std::string CCalls::calls(const GraphImage& image, const std::vector<Symbol>& inputs, const std::vector<Symbol>& own,
                          const std::string& host, const std::string& suffix) {
  Symbols symbols;
  const auto bind = [&](Symbol symbol, uint64_t bytes) {
    const uint64_t id = first_id + symbols.size();
    symbols.emplace(id, std::move(symbol));
    return Binding{BufferId{id}, 0, bytes};
  };
  ImageMemory places;
  for (size_t i = 0; i < image.input_bytes.size(); ++i) places.inputs.push_back(bind(inputs[i], image.input_bytes[i]));
  for (size_t i = 0; i < own.size(); ++i) places.own.push_back(bind(own[i], image.own_bytes[i]));
  arena_bytes_.resize(std::max(arena_bytes_.size(), image.arena_bytes.size()), 0);
  for (size_t i = 0; i < image.arena_bytes.size(); ++i) {
    arena_bytes_[i] = std::max(arena_bytes_[i], image.arena_bytes[i]);
    places.arena.push_back(bind({fmt::format("arena_{}", i)}, image.arena_bytes[i]));
  }
  places.host = bind({host}, static_cast<uint64_t>(image.host_values) * 16);
  std::vector<KernelId> ids;
  for (size_t i = 0; i < image.kernels.size(); ++i) ids.push_back(KernelId{i});
  const heddle::Bound bound = bind_image(c_device(), image, ids, places, places.inputs);
  if (count_ += bound.list.size(); count_ > most_calls)
    throw ValueError(fmt::format("[compile] target c: the model takes more than {} calls", most_calls));
  if (bound.table) {
    const std::string name = "rows" + suffix;
    const Binding table = bound.table->binding();
    statics_ += words_text(name, {reinterpret_cast<const uint32_t*>(bound.rows.data()), bound.rows.size()});
    symbols.emplace(static_cast<uint64_t>(table.buffer), Symbol{name, -1, table.offset});
  }
  std::string text;
  for (const Command& command : bound.list) {
    if (const auto* dispatch = std::get_if<Dispatch>(&command)) {
      text += call(image, *dispatch, symbols);
    } else {
      const Copy& copy = std::get<Copy>(command);
      text += fmt::format("  memcpy({}, {}, {});\n", address(copy.dst, DType::u8, true, symbols),
                          address(copy.src, DType::u8, false, symbols), copy.src.size);
    }
  }
  return text;
}

std::string CCalls::call(const GraphImage& image, const Dispatch& dispatch, const Symbols& symbols) {
  const KernelSource& source = *image.kernels[static_cast<size_t>(dispatch.kernel)].source;
  const auto& g = dispatch.groups;
  std::string text = fmt::format("  {}({}u, {}u, {}u", kernel_of(source).function, g[0], g[1], g[2]);
  for (size_t i = 0; i < source.buffers.size(); ++i) {
    const BufferParam& buffer = source.buffers[i];
    text += ", " + address(dispatch.bindings[i], buffer.dtype, buffer.access != Access::read, symbols);
  }
  for (size_t i = 0; i < source.constants.size(); ++i)
    text += ", " + c_constant(source.constants[i].type, dispatch.constants[i]);
  return text + ");\n";
}

std::string CCalls::address(const Binding& binding, DType dtype, bool written, const Symbols& symbols) {
  const Symbol& symbol = symbols.at(static_cast<uint64_t>(binding.buffer));
  if (symbol.weight >= 0) {
    Weight& weight = weights_[static_cast<size_t>(symbol.weight)];
    if (weight.element == 0) weight.element = size_of(dtype);
  }
  return fmt::format("{}({}, {}, {})", written ? "OUT" : "IN", c_type(dtype), symbol.text, binding.offset - symbol.at);
}

std::string CCalls::results(const CModel::Entry& entry, const std::vector<Symbol>& inputs,
                            const std::vector<Symbol>& own) {
  std::string text;
  const GraphImage& image = entry.image.image;
  const std::vector<std::string> names = c_ports(entry.image.outputs, "out");
  for (size_t i = 0; i < names.size(); ++i) {
    const ModelImage::Port& port = entry.image.outputs[i];
    if (port.bytes() == 0) text += fmt::format("  (void){};\n", names[i]);
    if (is_direct(image, port) || port.bytes() == 0) continue;
    const GraphImage::Output& output = image.outputs[static_cast<size_t>(port.index)];
    const Symbol& from = output.kind == GraphImage::Output::Kind::own ? own[static_cast<size_t>(output.index)]
                                                                      : inputs[static_cast<size_t>(output.index)];
    const size_t size = size_of(port.dtype);
    if (from.weight >= 0 && weights_[static_cast<size_t>(from.weight)].element == 0)
      weights_[static_cast<size_t>(from.weight)].element = size;
    const View& view = output.view;
    if (view.is_dense()) {
      text += fmt::format("  memcpy({}, {}, {});\n", names[i], from.text, port.bytes());
      continue;
    }
    const std::span strides(view.strides.data(), static_cast<size_t>(view.shape.rank()));
    text += fmt::format("  {{\n    static const int64_t sizes[] = {{{}}}, strides[] = {{{}}};\n",
                        fmt::join(view.shape, ", "), fmt::join(strides, ", "));
    text += fmt::format("    gather({}, {}, {}, {}, sizes, strides, {});\n  }}\n", names[i], from.text, size,
                        view.shape.rank(), view.offset);
  }
  return text;
}

std::string CCalls::header() const {
  std::string text =
      first_line(model_, "functions") + fmt::format("#ifndef HEDDLE_C_{0}_H\n#define HEDDLE_C_{0}_H\n", model_.name);
  uint64_t bytes = memory_bytes_;
  for (const uint64_t block : arena_bytes_) bytes += block;
  text += "#include <stdint.h>\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
  text += fmt::format(
      "\n/* Arrays are dense and row-major; results must not overlap what is given. One thread at a time: {} bytes of\n"
      "   static memory are shared. Nothing is taken from a heap, and no system is called. */\n",
      bytes);
  for (const CModel::Entry& entry : model_.entries) {
    text += "\n/*";
    if (!entry.bucket.empty()) text += fmt::format(" {}:", in_comment(entry.bucket));
    const auto list = [&](const std::vector<ModelImage::Port>& ports, const char* prefix) {
      const std::vector<std::string> names = c_ports(ports, prefix);
      for (size_t i = 0; i < ports.size(); ++i) text += fmt::format(" {}{}", names[i], sizes_text(ports[i].shape));
    };
    list(entry.image.inputs, "in");
    list(entry.image.outputs, "out");
    text += fmt::format(" */\n{};\n", c_prototype(model_, entry));
  }
  return text + "\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
}

std::string CCalls::declarations() const {
  std::string text = first_line(model_, "kernels and weights") + "#include <stdint.h>\n\n";
  for (size_t i = 0; i < weights_.size(); ++i) {
    const size_t element = std::max<size_t>(weights_[i].element, 1);
    text += fmt::format("extern const {} {}[{}];\n", c_word_type(element), weight_name(static_cast<int>(i)),
                        std::max<uint64_t>(weights_[i].bytes / element, 1));
  }
  for (const CKernel& kernel : kernels_) {
    text += fmt::format("void {}(unsigned int, unsigned int, unsigned int", kernel.function);
    for (const BufferParam& b : kernel.source->buffers)
      text += fmt::format(", {}{}*", b.access == Access::read ? "const " : "", c_type(b.dtype));
    for (const ConstParam& c : kernel.source->constants) text += fmt::format(", {}", c_constant_type(c.type));
    text += ");\n";
  }
  return text;
}

std::string CCalls::weights() const {
  std::string text = first_line(model_, "weights") + fmt::format("#include \"{}_data.h\"\n", model_.name);
  text += aligned_text;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const Weight& w = weights_[i];
    const size_t element = std::max<size_t>(w.element, 1);
    text += fmt::format("const {} {}[{}] ALIGNED = {};\n", c_word_type(element), weight_name(static_cast<int>(i)),
                        std::max<uint64_t>(w.bytes / element, 1),
                        c_elements(model_.weights.subspan(w.offset, w.bytes), element));
  }
  return text;
}

std::string CCalls::source() const {
  std::string text = first_line(model_, "launches over static memory");
  text += fmt::format(
      "#include \"{0}.h\"\n\n#include <math.h>\n#include <stddef.h>\n#include <string.h>\n\n#include "
      "\"{0}_data.h\"\n\n",
      model_.name);
  text += "#define IN(type, base, at) ((const type*)(const void*)((const unsigned char*)(base) + (at)))\n";
  text += "#define OUT(type, base, at) ((type*)(void*)((unsigned char*)(base) + (at)))\n";
  text += std::string(aligned_text) + "\n";
  for (size_t i = 0; i < arena_bytes_.size(); ++i)
    text += fmt::format("static uint64_t arena_{}[{}] ALIGNED;\n", i, std::max<uint64_t>((arena_bytes_[i] + 7) / 8, 1));
  text += statics_;
  if (functions_.find("gather(") != std::string::npos) text += gather_text;
  return text + functions_;
}

}  // namespace heddle

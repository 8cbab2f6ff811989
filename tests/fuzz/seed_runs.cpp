// What runs leave, and descriptions of models.
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/language_model.h"
#include "heddle/train/checkpoint.h"
#include "tests/fuzz/seed_files.h"
#include "tests/fuzz/target.h"

namespace heddle::fuzz {

using namespace std::string_literals;  // texts with NULs in them

Seeds checkpoint_seeds() {
  train::save_checkpoint(
      scratch("seed.safetensors"),
      {{{"model.weight", zeros({2, 3}, DType::f32, &device("reference:0"))}}, {{"step", "3"}, {"config", "x"}}});
  return {read_back(scratch("seed.safetensors"))};
}

Seeds run_state_seeds() {
  return {"plateau=0.5 inf 1 0\0step=7\0early_stopping.bad=2\0early_stopping.best=0x1.8p-1"s,
          "random.seed=12\0random.offset=99"s};
}

Seeds model_file_seeds() { return {"classes=a b\0config=[training]\nbatch = 4\n"s, "step=3"}; }

Seeds language_model_seeds() {
  return {nn::describe(nn::GptOptions{.vocabulary = 8, .context = 4, .layers = 1, .heads = 2, .width = 4}),
          nn::describe(nn::RecurrentLmOptions{.vocabulary = 8, .width = 4, .hidden = 4, .layers = 1})};
}

Seeds llama_config_seeds() {
  const std::string sizes = R"("vocab_size":8,"hidden_size":8,"intermediate_size":4,"num_hidden_layers":3,)"
                            R"("num_attention_heads":2,"max_position_embeddings":16,"eos_token_id":[1,2],)";
  return {"{" + sizes +
              R"("model_type":"llama","rope_theta":50,"rope_scaling":{"rope_type":"llama3","factor":8,)"
              R"("low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":8}})",
          "{" + sizes +
              R"("model_type":"gemma3_text","head_dim":4,"sliding_window":2,"rope_parameters":{"full_attention":)"
              R"({"rope_type":"linear","factor":2},"sliding_attention":{"rope_theta":9}}})",
          "{" + sizes +
              R"("model_type":"qwen2","use_sliding_window":true,"sliding_window":2,"max_window_layers":1,)"
              R"("layer_types":["full_attention","sliding_attention","full_attention"]})",
          "{" + sizes + R"("model_type":"phi3","partial_rotary_factor":0.5,"sliding_window":null})"};
}

Seeds report_seeds() {
  return {std::string(R"({"event":"start","device":"d","step":0}
{"event":"step","step":1,"epoch":0,"loss":2.5,"lr":0.1,"grad_norm":null,"seconds":0.5}
{"event":"loader","epoch":1,"fetch":1,"idle":2}
{"event":"eval","step":1,"loss":1,"metrics":{"accuracy":0.5},"confusion":[[1,2],[3,4]],"seconds":1}
{"event":"sample","step":1,"text":"hello","image":"a.png"}
{"event":"resume","step":0}
{"event":"done","step":1}
)") + "\0{\"host\":{\"name\":\"h\"}}\0[training]\nbatch = 3\n"s,
          "{\"event\":\"step\",\"step\":1,\"loss\":1}\n{\"event\":"};
}

}  // namespace heddle::fuzz

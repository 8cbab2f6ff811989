#!/usr/bin/env python3
"""Writes chat_values.json: chat templates of families of language models, small tokenizers with their special tokens,
and what Hugging Face's transformers makes of conversations with them: tokens, and which of them are the answers'.

Run once: python tests/data/chat_values.py; needs transformers, tokenizers and jinja2 from PyPI.
"""
import json
import pathlib
import re

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

CORPUS = """user assistant system model. The loom's heddles lift the warp; they lift it for you and me.
A weaver lifts every other thread: plain cloth. You are a helpful weaver. Thank you! What is a loom?
[INST] [/INST] <<SYS>> <</SYS>> ### Instruction: ### Response: user user assistant assistant
"""
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<start_of_turn>",
           "<end_of_turn>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def begins(tokenizer):
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    return tokenizer


def of_bytes():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(WORDS), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([CORPUS], trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_special_tokens(["<s>", "</s>"] + SPECIAL)
    return begins(tokenizer)


def of_characters(first, strips, extra=()):
    """SentencePiece's kind: the space in front of a whole text, or of each stretch between special tokens."""
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator([CORPUS], trainers.BpeTrainer(
        vocab_size=400, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"] + names))
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = [token for token in file["added_tokens"] if token["content"] not in names]
    tokenizer = Tokenizer.from_str(json.dumps(file))
    if first:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer.pre_tokenizer = None
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens([AddedToken(name, rstrip=strips, normalized=False) for name in SPECIAL + list(extra)])
    return begins(tokenizer)


TOKENIZERS = {"bytes": of_bytes(), "first": of_characters(True, False), "prepend": of_characters(False, True),
              "control": of_characters(True, False, ["[INST]", "[/INST]"])}

# G and E stand around what the model learns.
ROLE_LOOP = "{% for message in messages %}"
TEMPLATES = {
    "chatml": ROLE_LOOP + "{% if message['role'] == 'assistant' %}{{ '<|im_start|>assistant\\n' }}G{{ message['content'] + '<|im_end|>' }}E"
    "{{ '\\n' }}{% else %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "llama3": ROLE_LOOP + "{% if loop.index0 == 0 %}{{ bos_token }}{% endif %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}"
    "{% if message['role'] == 'assistant' %}G{{ message['content'] | trim + '<|eot_id|>' }}E{% else %}{{ message['content'] | trim + '<|eot_id|>' }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
    "llama3.1": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] | trim %}"
    "{% set messages = messages[1:] %}{% else %}{% set system_message = '' %}{% endif %}{{ '<|start_header_id|>system<|end_header_id|>\\n\\n' }}"
    "{{ 'Cutting Knowledge Date: December 2023\\n' }}{{ 'Today Date: 26 Jul 2024\\n\\n' }}{{ system_message }}{{ '<|eot_id|>' }}"
    + ROLE_LOOP + "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}"
    "{% if message['role'] == 'assistant' %}G{{ message['content'] | trim + '<|eot_id|>' }}E{% else %}{{ message['content'] | trim + '<|eot_id|>' }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
    "llama2": "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}"
    "{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
    "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}G"
    "{{ ' ' + content.strip() + ' ' + eos_token }}E"
    "{% endif %}{% endfor %}",
    "mistral": "{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] %}{% set loop_messages = messages[1:] %}"
    "{% else %}{% set loop_messages = messages %}{% endif %}{{ bos_token }}{% for message in loop_messages %}{% if message['role'] == 'user' %}"
    "{% if loop.first and system_message is defined %}{{ '[INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}"
    "{% else %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% endif %}{% elif message['role'] == 'assistant' %}"
    "G{{ ' ' + message['content'] + eos_token }}E{% endif %}{% endfor %}",
    "gemma": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set first_user_prefix = messages[0]['content'] + '\\n\\n' %}"
    "{% set loop_messages = messages[1:] %}{% else %}{% set first_user_prefix = '' %}{% set loop_messages = messages %}{% endif %}"
    "{% for message in loop_messages %}{% if message['role'] == 'assistant' %}{% set role = 'model' %}{% else %}"
    "{% set role = message['role'] %}{% endif %}"
    "{{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else '') }}{% if message['role'] == 'assistant' %}"
    "G{{ message['content'] | trim }}{{ '<end_of_turn>' }}E{{ '\\n' }}{% else %}{{ message['content'] | trim }}{{ '<end_of_turn>\\n' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}",
    "phi3": ROLE_LOOP + "{% if message['role'] == 'system' %}{{ '<|system|>\\n' + message['content'] + '<|end|>\\n' }}"
    "{% elif message['role'] == 'user' %}"
    "{{ '<|user|>\\n' + message['content'] + '<|end|>\\n' }}{% elif message['role'] == 'assistant' %}{{ '<|assistant|>\\n' }}"
    "G{{ message['content'] + '<|end|>' }}E{{ '\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}"
    "{% else %}{{ eos_token }}{% endif %}",
    "alpaca": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] + '\\n\\n' }}{% else %}"
    "{{ 'Below is an instruction that describes a task. Write a response that appropriately completes the request.\\n\\n' }}{% endif %}"
    + ROLE_LOOP + "{% if message['role'] == 'user' %}{{ '### Instruction:\\n' + message['content'] + '\\n\\n' }}"
    "{% elif message['role'] == 'assistant' %}"
    "{{ '### Response:\\n' }}G{{ message['content'] + eos_token }}E{% endif %}{% endfor %}{% if add_generation_prompt %}"
    "{{ '### Response:\\n' }}{% endif %}",
    "plain": "{{ bos_token }}" + ROLE_LOOP + "{% if message['role'] == 'assistant' %}G{{ message['content'] + eos_token }}E{% else %}"
    "{{ message['content'] + '\\n' }}{% endif %}{% endfor %}",
}

# As the models' authors publish them, where they differ from the above only in how they are written.
PUBLISHED = {
    "chatml, SmolLM2": ["chatml", "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful "
                        "AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}"
                        "{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
                        "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"],
    "chatml, Qwen": ["chatml", """{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""],
    "chatml, of raw text": ["chatml", """{% for m in messages %}
<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}
"""],
    "llama3": ["llama3", "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + "
               "'<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
               "{% set content = bos_token + content %}{% endif %}"
               "{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"],
    "mistral, version 1": ["mistral", "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ '[INST] ' + message['content'] + ' [/INST]' }}"
                           "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token + ' ' }}{% else %}"
                        "{{ raise_exception('no') }}{% endif %}{% endfor %}"],
    "mistral, version 3": ["mistral", """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- endif %}
{%- endfor %}
"""],
    "gemma": ["gemma", "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}{% for message in messages %}"
              "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}"
              "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
              "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"],
    "phi3, begun": ["phi3", "{{ bos_token }}{% for message in messages %}"
    "{% if (message['role'] == 'user') %}{{'<|user|>' + '\n' + message['content'] + '<|end|>' + '\n' + "
                    "'<|assistant|>' + '\n'}}{% elif (message['role'] == 'assistant') %}{{message['content'] + '<|end|>' + '\n'}}"
                    "{% endif %}{% endfor %}"],
    "phi3, by role": ["phi3", "{% for message in messages %}{{'<|' + message['role'] + '|>' + '\n' + message['content'] + '<|end|>\n' }}{% endfor %}"
                      "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"],
}
# None of the forms.
OTHERS = {
    "thoughts": PUBLISHED["chatml, Qwen"][1] + "{{- '<think>\\n\\n</think>\\n\\n' }}",
    "no line behind the role": PUBLISHED["chatml, SmolLM2"][1].replace("'\n' + message", "message"),
    "Zephyr": "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + eos_token }}{% endfor %}",
    "Phi 4": "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
             "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}",
    "Vicuna": "{% for message in messages %}{{ 'USER: ' + message['content'] }}{% endfor %}",
    "nothing": "", "not closed": "{{ '<|im_start|>", "not Jinja": "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n",
}

USER, ANSWER, SYSTEM = "user", "assistant", "system"
CONVERSATIONS = [
    [(USER, "What is a loom?"), (ANSWER, "A loom lifts the warp.")],
    [(SYSTEM, "You are a helpful weaver."), (USER, "Hello, wide world! 123"), (ANSWER, "Thank you, schöne Fäden 織機 😀"),
     (USER, "  and the warp?\n"), (ANSWER, " It lifts.\n\n  every thread \n")],
    [(SYSTEM, " \n plain "), (USER, "\n\nfor (i) {\n\tlift(x);\n}"), (ANSWER, "\nx"), (USER, "a"), (ANSWER, "b"), (USER, "c"), (ANSWER, "don't")],
]
PAIRS = {"chatml": ["bytes", "first"], "llama3": ["bytes"], "llama3.1": ["bytes"], "llama2": ["first", "prepend"],
         "mistral": ["first", "control"], "gemma": ["first", "prepend"], "phi3": ["prepend", "first"],
         "alpaca": ["bytes", "first"], "plain": ["bytes", "prepend"]}


def messages_of(conversation):
    return [{"role": role, "content": content} for role, content in conversation]


def case(tokenizer, template, conversation):
    template = template.replace("G{{", "{% generation %}{{").replace("}}E", "}}{% endgeneration %}")
    messages = messages_of(conversation)
    made = tokenizer.apply_chat_template(messages, chat_template=template, return_dict=True, return_assistant_tokens_mask=True)
    prompt = tokenizer.apply_chat_template(messages[:-1], chat_template=template, add_generation_prompt=True, return_dict=True)
    # Where <|assistant|> takes the white space behind it, the library counts the token itself where the answer has some.
    front = tokenizer.convert_tokens_to_ids("<|assistant|>")
    trained = [i for i, one in enumerate(made["assistant_masks"]) if one and made["input_ids"][i] != front]
    return {"tokens": made["input_ids"], "trained": trained, "prompt": prompt["input_ids"]}


def published_case(tokenizer, template):
    """Without a system's text, which not all of them take."""
    messages = messages_of(CONVERSATIONS[1][1:])
    made = tokenizer.apply_chat_template(messages, chat_template=template, return_dict=True)
    return made["input_ids"]


def main():
    wrapped = {name: PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token=None)
               for name, tokenizer in TOKENIZERS.items()}
    values = {"tokenizers": {name: json.dumps(json.loads(t.to_str()), ensure_ascii=False, separators=(",", ":"))
                             for name, t in TOKENIZERS.items()},
              "conversations": [messages_of(c) for c in CONVERSATIONS], "forms": {}, "published": {}, "others": OTHERS}
    for form, names in PAIRS.items():
        values["forms"][form] = {name: [case(wrapped[name], TEMPLATES[form], c) for c in CONVERSATIONS] for name in names}
    for name, (form, template) in PUBLISHED.items():
        on = "bytes" if form != "gemma" else "first"
        values["published"][name] = {"form": form, "template": template, "tokenizer": on, "tokens": published_case(wrapped[on], template)}
    path = pathlib.Path(__file__).with_name("chat_values.json")
    path.write_text(json.dumps(values, ensure_ascii=False, separators=(",", ":")) + "\n")


main()

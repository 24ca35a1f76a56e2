"""Makes templates/golden.json: what the reference makes of published chat templates.

    python templates.py FOLDER

needs transformers (5.24) and jinja2. FOLDER holds the unpacked wheels of axolotl 0.19.0 and unsloth 2026.10.9, from which
the templates are copied into templates/ (see the README there), and, for SmolLM2, smollm2.jinja, which is the key
tokenizer.chat_template of any of its GGUF files.

Dates are replaced by their format, so that the file does not change from day to day.
"""

import ast
import json
import pathlib
import shutil
import sys

import jinja2
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

HERE = pathlib.Path(__file__).parent / "templates"
# Name here to name in axolotl, and the tokens that begin and end a text.
AXOLOTL = {
    "qwen2.5": ("qwen_25", None, "<|im_end|>"),
    "qwen3": ("qwen3", None, "<|im_end|>"),
    "llama3": ("llama3", "<|begin_of_text|>", "<|eot_id|>"),
    "llama3.2": ("llama3_2_vision", "<|begin_of_text|>", "<|eot_id|>"),
    "gemma": ("gemma", "<bos>", "<eos>"),
    "gemma3": ("gemma3", "<bos>", "<eos>"),
    "mistral-v1": ("mistral_v1", "<s>", "</s>"),
    "mistral-v3": ("mistral_v3_tekken", "<s>", "</s>"),
    "mistral-v7": ("mistral_v7_tekken", "<s>", "</s>"),
    "deepseek-v2": ("deepseek_v2", "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>"),
    "deepseek-v3": ("deepseek_v3", "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>"),
    "phi4": ("phi_4", "<|endoftext|>", "<|im_end|>"),
}
UNSLOTH = {"llama3.1": ("llama31_template", "<|begin_of_text|>", "<|eot_id|>")}
OTHER = {"smollm2": ("smollm2", "<|im_start|>", "<|im_end|>")}
# Cases whose ids are kept; of the others only how many there are.
SHOWN = ["system", "call"]
SPECIAL = """<|endoftext|> <|im_start|> <|im_end|> <|im_sep|> <|begin_of_text|> <|eot_id|> <|eom_id|> <|start_header_id|>
<|end_header_id|> <|python_tag|> <bos> <eos> <start_of_turn> <end_of_turn> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS]
[/AVAILABLE_TOOLS] [TOOL_CALLS] [TOOL_RESULTS] [/TOOL_RESULTS] [SYSTEM_PROMPT] [/SYSTEM_PROMPT]
<\uff5cbegin\u2581of\u2581sentence\uff5c> <\uff5cend\u2581of\u2581sentence\uff5c> <\uff5cUser\uff5c> <\uff5cAssistant\uff5c>
<\uff5ctool\u2581calls\u2581begin\uff5c> <\uff5ctool\u2581calls\u2581end\uff5c> <\uff5ctool\u2581call\u2581begin\uff5c>
<\uff5ctool\u2581call\u2581end\uff5c> <\uff5ctool\u2581sep\uff5c> <\uff5ctool\u2581outputs\u2581begin\uff5c>
<\uff5ctool\u2581outputs\u2581end\uff5c> <\uff5ctool\u2581output\u2581begin\uff5c> <\uff5ctool\u2581output\u2581end\uff5c>"""
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "Tells the \"weather\" <now> & later.", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "description": "Zu\u0308rich, \u6771\u4eac \U0001f600"},
        "days": {"type": "integer", "default": 3}, "wind": {"type": "number", "default": 1.0, "minimum": 1e-7}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}},
]


def said(role, content, **more):
    return {"role": role, "content": content, **more}


def call(name, arguments):
    return {"id": "call00001", "type": "function", "function": {"name": name, "arguments": arguments}}


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


def cases():
    user, system = said("user", "  Hello, <b>world</b>!\n"), said("system", "Be brief. ")
    answer, more = said("assistant", " Hi. "), said("user", "And 'now'? \u00e9\U0001f600")
    asked = said("assistant", "", tool_calls=[call("weather", {"city": "Z\u00fcrich", "days": 2, "wind": 0.5})])
    both = said("assistant", "", tool_calls=[call("weather", {"city": "\u6771\u4eac"}), call("now", {})])
    result = said("tool", "{\"sun\": true}", tool_call_id="call00001")
    thought = said("assistant", "<think>\nhm\n</think>\n\nHi.")
    yield "user", [user], []
    yield "system", [system, user], []
    yield "turns", [user, answer, more], []
    yield "system and turns", [system, user, answer, more], []
    yield "thought", [user, thought, more], []
    yield "empty", [said("user", "")], []
    yield "assistant first", [answer, user], []
    yield "user twice", [user, more], []
    yield "two systems", [system, system, user], []
    yield "system last", [user, system], []
    yield "parts", [said("user", parts("one", " two "))], []
    yield "tools", [user], TOOLS
    yield "system and tools", [system, user], TOOLS
    yield "call", [user, asked, result], TOOLS
    yield "call and answer", [system, user, asked, result, said("assistant", "Sunny."), more], TOOLS
    yield "two calls", [user, both, result, said("tool", "12:00", tool_call_id="call00001")], TOOLS


def tokenizer(bos, eos, template):
    """Bytes and the special tokens of all families: enough to tell what becomes a token of which kind."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: ix for ix, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL.split()])
    made.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("</tool_call>", normalized=False)])
    fast = PreTrainedTokenizerFast(tokenizer_object=made, bos_token=bos, eos_token=eos)
    fast.chat_template = template
    return made, fast


def with_text_arguments(messages):
    messages = json.loads(json.dumps(messages))
    for message in messages:
        for made in message.get("tool_calls", []):
            made["function"]["arguments"] = json.dumps(made["function"]["arguments"], ensure_ascii=False)
    return messages


def golden(fast, messages, tools, with_ids):
    """What comes of a chat: its text and ids, or the words of the template's exception."""
    joined = [
        said(m["role"], "".join(part["text"] for part in m["content"])) if isinstance(m["content"], list) else m
        for m in messages
    ]
    # As given; with arguments as text, for templates that print them as they are; with parts as one text.
    for shape in (messages, with_text_arguments(messages), joined):
        try:
            text = fast.apply_chat_template(shape, tools=tools or None, tokenize=False, add_generation_prompt=True)
        except jinja2.exceptions.TemplateError as error:
            if isinstance(error, jinja2.exceptions.UndefinedError):
                continue
            return {"error": str(error)}
        except TypeError:
            continue
        given = [part["text"] for m in messages if isinstance(m["content"], list) for part in m["content"]]
        if not all(part.strip() in text for part in given) or "'type': 'text'" in text or "{'city'" in text or "\\\"city" in text:
            continue
        ids = fast.encode(text, add_special_tokens=False)
        return {"text": text, "tokens": len(ids), "ids": ids if with_ids else []}
    raise SystemExit(f"no shape fits: {messages}")


def main():
    folder = pathlib.Path(sys.argv[1])
    chat_template_utils.datetime = Dates
    sources = {}
    for name, (theirs, bos, eos) in AXOLOTL.items():
        file = folder / "axolotl/utils/chat_templates/templates" / f"{theirs}.jinja"
        sources[name] = (file.read_text(encoding="utf-8"), bos, eos)
    module = ast.parse((folder / "unsloth/chat_templates.py").read_text(encoding="utf-8"))
    constants = {n.targets[0].id: n.value for n in module.body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)}
    for name, (theirs, bos, eos) in UNSLOTH.items():
        sources[name] = (ast.literal_eval(constants[theirs]), bos, eos)
    for name, (theirs, bos, eos) in OTHER.items():
        sources[name] = ((folder / f"{theirs}.jinja").read_text(encoding="utf-8"), bos, eos)
    shutil.rmtree(HERE / "sources", ignore_errors=True)
    (HERE / "sources").mkdir(parents=True)
    found = []
    for name, (template, bos, eos) in sources.items():
        (HERE / "sources" / f"{name}.jinja").write_text(template, encoding="utf-8")
        made, fast = tokenizer(bos, eos, template)
        chats = [{"case": case, **golden(fast, messages, tools, case in SHOWN)} for case, messages, tools in cases()]
        found.append({"name": name, "bos": bos, "eos": eos, "chats": chats})
    made.save(str(HERE / "tokenizer.json"))
    chats = [{"case": case, "messages": messages, "tools": tools} for case, messages, tools in cases()]
    write = {"cases": chats, "templates": found}
    lines = json.dumps(write, ensure_ascii=True, indent=None).replace('{"name"', '\n{"name"').replace('{"case"', '\n{"case"')
    (HERE / "golden.json").write_text(lines + "\n", encoding="utf-8")


class Dates:
    @staticmethod
    def now():
        return Dates

    @staticmethod
    def strftime(form):
        return f"<<{form}>>"


if __name__ == "__main__":
    main()

"""Asks a running server what its own description says can be asked, and holds every answer against the schema there.

answers.py URL COMPONENT: the component is uploaded as a policy for the route pair/entropy.
"""

import json
import pathlib
import sys
import urllib.error
import urllib.request

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

URL, COMPONENT = sys.argv[1], pathlib.Path(sys.argv[2])
SEEN = set()


def fetched(method, path, body=None, kind="application/json"):
    request = urllib.request.Request(URL + path, method=method, data=body, headers={"content-type": kind})
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:
            return reply.status, reply.headers, reply.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.headers, refusal.read().decode()


DOCUMENT = json.loads(fetched("GET", "/openapi.json")[2])
REGISTRY = Registry().with_resource("urn:openapi", DRAFT202012.create_resource(DOCUMENT))


def validator(pointer):
    escaped = "/".join(part.replace("~", "~0").replace("/", "~1") for part in pointer)
    return Draft202012Validator({"$ref": f"urn:openapi#/{escaped}"}, registry=REGISTRY)


def pointer_of(template, method, status):
    """Where the answer is described, a reference followed."""
    pointer = ["paths", template, method.lower(), "responses", str(status)]
    described = DOCUMENT["paths"][template][method.lower()]["responses"].get(str(status))
    assert described, f"{method} {template} answers {status}, which is not described"
    if reference := described.get("$ref"):
        return reference.removeprefix("#/").split("/")
    return pointer


def at(pointer):
    found = DOCUMENT
    for part in pointer:
        found = found[part]
    return found


def ask(method, template, body=None, *, status=200, kind="application/json", query="", **names):
    """Asks, holds the answer against its schema, and gives it."""
    data = json.dumps(body).encode() if kind == "application/json" and body is not None else body
    got, headers, text = fetched(method, template.format(**names) + query, data, kind)
    assert got == status, f"{method} {template}: {got} {text}"
    pointer = pointer_of(template, method, got)
    media = headers.get_content_type()
    assert media in at(pointer)["content"], f"{method} {template} answers {media}"
    schema = validator([*pointer, "content", media, "schema"])
    if media == "application/json":
        values = [json.loads(text)]
    elif media == "text/event-stream":
        # What is described is an event; its data is an object of its own.
        schema = validator([*pointer, "content", media, "schema", "properties", "data", "anyOf", "1", "contentSchema"])
        events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
        assert events.pop() == "[DONE]", text
        values = [json.loads(event) for event in events]
        assert len(values) > 2, text
    else:
        values = [text]
    for value in values:
        schema.validate(value)
    SEEN.add((method, template))
    return values[0]


def examples(template, method="post"):
    content = DOCUMENT["paths"][template][method]["requestBody"]["content"]["application/json"]
    named = {name: example["value"] for name, example in content.get("examples", {}).items()}
    return named or {"": content["example"]}


def form(parts):
    boundary = "a-boundary-of-tests"
    lines = b""
    for name, content in parts.items():
        lines += f'--{boundary}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n'.encode() + content + b"\r\n"
    return lines + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def plain():
    for template in DOCUMENT["paths"]:
        if "{" not in template and "get" in DOCUMENT["paths"][template]:
            # This server has no tenants, by which usage is counted.
            ask("GET", template, status=404 if template == "/v1/usage" else 200)
    ask("GET", "/page/{file}", file="main.js")
    ask("GET", "/page/{file}", file="nothing", status=404)
    ask("GET", "/v1/models/{id}", id="pair/entropy")
    ask("GET", "/v1/models/{id}", id="nothing", status=404)


def answers():
    for template in ["/v1/chat/completions", "/v1/completions"]:
        request = DOCUMENT["paths"][template]["post"]["requestBody"]["content"]["application/json"]["schema"]
        name = request["$ref"].rsplit("/", 1)[1]
        for body in examples(template).values():
            validator(["components", "schemas", name]).validate(body)
            ask("POST", template, body)
        ask("POST", template, {"model": "small"}, status=400)
        ask("POST", template, b"{}", kind="application/octet-stream", status=400)
    for template in ["/tokenize", "/detokenize"]:
        for body in examples(template).values():
            ask("POST", template, body)
        ask("POST", template, {}, status=400)


def experiments():
    one, action = "/admin/experiments/{name}", "/admin/experiments/{name}/{action}"
    (definition,) = examples(one, "put").values()
    validator(["components", "schemas", "ExperimentDefinition"]).validate(definition)
    ask("PUT", one, definition, status=201, name="one")
    body = {**examples("/v1/chat/completions")["routed"], "user": "somebody"}
    answer = ask("POST", "/v1/chat/completions", body)
    assert answer["route_trace"]["experiment"] == "one", answer
    ask("POST", "/v1/feedback", {"id": answer["id"], "score": 1})
    ask("POST", "/v1/feedback", examples("/v1/feedback")[""], status=404)
    for name in ["weights", "pause", "resume", "promote"]:
        ask("POST", action, examples(action)[name], name="one", action=name)
    ask("POST", action, {}, name="one", action="nothing", status=404)
    ask("GET", one, name="one")
    ask("GET", "/admin/experiments")
    ask("DELETE", one, name="one")
    ask("GET", one, name="one", status=404)


def policies():
    one, component = "/v1/policies/{name}", COMPONENT.read_bytes()
    body, kind = form({"manifest": b'route = "pair/entropy"\n', "component": component})
    ask("PUT", one, body, kind=kind, name="mine", status=201)
    shown = ask("GET", one, name="mine")
    activate, roll_back = one + "/activate", one + "/rollback"
    ask("POST", activate, {"revision": shown["active"]}, name="mine")
    ask("POST", activate, examples(activate)[""], name="mine", status=404)
    ask("POST", roll_back, name="mine", status=409)
    ask("POST", "/v1/chat/completions", {**examples("/v1/chat/completions")["routed"], "model": "own/mine"})
    ask("GET", "/v1/policies", query="?tenant=*")
    ask("GET", "/v1/policies", query="?nothing=1", status=400)
    ask("GET", "/admin/policies")
    ask("DELETE", one, name="mine")


def keys():
    # Without tenants there is nobody to make keys for.
    tenant = "/admin/tenants/{name}/keys"
    ask("GET", tenant, name="acme", status=404)
    ask("POST", tenant, examples(tenant)[""], name="acme", status=404)
    ask("DELETE", tenant + "/{id}", name="acme", id="0123456789abcdef", status=404)
    ask("POST", tenant + "/{id}/rotate", {}, name="acme", id="0123456789abcdef", status=404)


for part in [plain, answers, experiments, policies, keys]:
    part()
ask("GET", "/admin/audit", query="?from=1&limit=1000")
ask("GET", "/admin/audit/verify")
ALL = {(method.upper(), path) for path, of in DOCUMENT["paths"].items() for method in of}
assert SEEN == ALL, f"never asked: {sorted(ALL - SEEN)}"
print(f"{len(ALL)} operations answer as they are described")

"""Two tenants, two uploaded policies, an experiment that finds the better one, and a promotion under load.

Run by run.sh. Everything goes over HTTP to a server that is started here and never stopped but for one restart in between; each
step checks what it says and ends the program where that does not hold. Only Python's own library is used.
"""

import argparse
import atexit
import http.client
import json
import os
import random
import re
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROUTE = "pair/entropy"
EXPERIMENT = "/admin/experiments/doubt"
THREADS = 16


def say(text):
    print(f"[{time.monotonic() - BEGUN:6.1f} s] {text}", flush=True)


class Server:
    """The server's process, and connections to it: one for each thread, kept open."""

    def __init__(self, binary, config, data_dir):
        self.command = [binary, "serve", "--config", config, "--data-dir", data_dir, "--listen", "127.0.0.1:0"]
        self.command += ["--no-color", "--log", "warn"]
        self.local = threading.local()
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found, f"the server did not start: {line!r}"
        # Nobody reads what follows, and a pipe that is full would stop the server.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.port = int(found[1])
        self.local = threading.local()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, "the server ended badly"

    def connection(self):
        if not hasattr(self.local, "connection"):
            self.local.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        return self.local.connection

    def ask(self, key, method, path, body=None, headers=()):
        """Status, headers and JSON of one request."""
        content = json.dumps(body) if isinstance(body, (dict, list)) else body
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json", **dict(headers)}
        connection = self.connection()
        connection.request(method, path, content, headers)
        reply = connection.getresponse()
        text = reply.read()
        return reply.status, reply.headers, json.loads(text or "null")

    def must(self, key, method, path, body=None, headers=()):
        """The JSON of a request that has to succeed."""
        status, _, told = self.ask(key, method, path, body, headers)
        assert 200 <= status < 300, f"{method} {path}: {status} {told}"
        return told


def made_key(binary, tenant, *more):
    """A key's secret and its line in the configuration."""
    made = subprocess.run([binary, "key", "new", "--tenant", tenant, *more], capture_output=True, text=True, check=True)
    secret, line = made.stdout.split("\n")[:2]
    return secret, line


def upload(server, key, name, component, settings):
    """Uploads a component; what the server made of it."""
    boundary = uuid.uuid4().hex
    manifest = f'route = "{ROUTE}"\n[settings]\n' + "".join(f"{k} = {v}\n" for k, v in settings.items())
    parts = [("manifest", "application/toml", manifest.encode()), ("component", "application/wasm", component)]
    body = b""
    for part, kind, content in parts:
        head = f'--{boundary}\r\ncontent-disposition: form-data; name="{part}"; filename="{part}"\r\ncontent-type: {kind}\r\n\r\n'
        body += head.encode() + content + b"\r\n"
    body += f"--{boundary}--\r\n".encode()
    return server.must(key, "PUT", f"/v1/policies/{name}", body, {"content-type": f"multipart/form-data; boundary={boundary}"})


def question(rng):
    """A problem of the kind that the embedded models were trained on, and its answer."""
    start, more, found, times = rng.randint(11, 25), rng.randint(12, 17), rng.randint(12, 17), rng.randint(2, 5)
    what = rng.choice(["coins", "shells", "apples"])
    text = (
        f"Tom has {start} {what}. He buys {more} more {what}. He finds {found} more {what}. A magic box makes them {times} times "
        f"as many. How many {what} does Tom have now?"
    )
    return text, (start + more + found) * times


def chat(model, text, user, tokens):
    messages = [{"role": "user", "content": text}]
    return {"model": model, "messages": messages, "user": user, "max_tokens": tokens, "temperature": 0}


def is_right(answer, expected):
    numbers = re.findall(r"\d+", answer["choices"][0]["message"]["content"])
    return bool(numbers) and int(numbers[-1]) == expected


def arms_of(server, key, users):
    """The arm that each user gets, by asking for one token."""

    def arm(user):
        status, headers, told = server.ask(key, "POST", "/v1/chat/completions", chat(ROUTE, "Hello", user, 1))
        assert status == 200, told
        return headers["x-tokenrouter-arm"].rsplit("/", 1)[1]

    with ThreadPoolExecutor(THREADS) as pool:
        return dict(zip(users, pool.map(arm, users)))


def set_weight(server, key, part):
    return server.must(key, "POST", f"{EXPERIMENT}/weights", {"weights_bp": {"treatment": part}})


def tenants_upload(server, keys, components):
    for (tenant, name), (language, component) in zip([("acme", "doubt"), ("guest", "doubt")], components.items()):
        begun = time.monotonic()
        made = upload(server, keys[tenant], name, component, {"threshold": 0.4})
        assert made["model"] == f"own/{name}" and made["active"], made
        text, _ = question(random.Random(1))
        body = {**chat(f"own/{name}", text, "x", 200), "route_trace": True}
        answer = server.must(keys[tenant], "POST", "/v1/chat/completions", body)
        assert made["active"].startswith(answer["route_trace"]["revision"]), made
        by = answer["usage"]["completion_tokens_by_model"]
        say(f"{tenant} uploads a policy in {language} ({len(component) >> 10} KiB) in {time.monotonic() - begun:.1f} s; own/{name} answers: {by}")
    listed = server.must(keys["guest"], "GET", "/v1/policies")["data"]
    assert [policy["owner"] for policy in listed] == ["guest"], listed
    return server.must(keys["acme"], "GET", "/v1/policies/doubt")["active"]


def users_keep_their_arms(server, admin, key, count):
    users = [f"user-{number}" for number in range(count)]
    first = arms_of(server, key, users)
    treated = sum(arm == "treatment" for arm in first.values())
    # Five standard deviations of a binomial with half of the users.
    bound = 5 * (count / 4) ** 0.5
    assert abs(treated - count / 2) <= bound, f"{treated} of {count}"
    some = random.Random(2).sample(users, count // 5)
    assert arms_of(server, key, some) == {user: first[user] for user in some}
    say(f"50/50: {treated} of {count} users get the treatment (within {bound:.0f} of half), {len(some)} asked again get the same")
    share = {}
    for step, part in enumerate([1000, 3000, 1000]):
        set_weight(server, admin, part)
        share[step] = {user for user, arm in arms_of(server, key, users).items() if arm == "treatment"}
    assert share[0] < share[1] and share[0] == share[2]
    say(f"10 -> 30 -> 10 %: {len(share[0])}, {len(share[1])}, {len(share[2])} users; none moves but from the control and back to it")
    set_weight(server, admin, 5000)
    return first


def better_arm_is_found(server, admin, key, users):
    rng = random.Random(3)
    asked = 0
    while True:
        batch = [(user, *question(rng)) for user in rng.sample(users, 200)]

        def score(item):
            user, text, expected = item
            answer = server.must(key, "POST", "/v1/chat/completions", chat(ROUTE, text, user, 200))
            return {"id": answer["id"], "score": 1 if is_right(answer, expected) else 0}

        with ThreadPoolExecutor(THREADS) as pool:
            scores = list(pool.map(score, batch))
        server.must(key, "POST", "/v1/feedback", scores)
        asked += len(batch)
        told = server.must(admin, "GET", EXPERIMENT)
        quality = [row for row in told["readout"] if row["metric"] == "quality"]
        if quality and quality[0]["verdict"] == "better":
            row = quality[0]
            say(f"after {asked} scored answers: quality {row['control']:.2f} -> {row['treatment']:.2f}, effect {row['effect']:+.2f} "
                f"({row['low']:+.2f} to {row['high']:+.2f}): better")
            return
        assert asked < 4000, f"no verdict after {asked} answers: {quality}"


def promoted_under_load(server, admin, key, streams):
    stop = threading.Event()
    served, failed = [0] * streams, []

    def keep_asking(number):
        rng = random.Random(number)
        while not stop.is_set():
            text, _ = question(rng)
            status, _, told = server.ask(key, "POST", "/v1/chat/completions", chat(ROUTE, text, f"user-{number}", 100))
            if status == 200 and told["choices"][0]["finish_reason"] in ("stop", "length"):
                served[number] += 1
            else:
                failed.append(told)

    threads = [threading.Thread(target=keep_asking, args=(number,)) for number in range(streams)]
    [thread.start() for thread in threads]
    time.sleep(1)
    server.must(admin, "POST", f"{EXPERIMENT}/promote", {"arm": "treatment", "reason": "better answers"})
    time.sleep(1)
    stop.set()
    [thread.join() for thread in threads]
    assert not failed, failed[0]
    state = server.must(admin, "GET", EXPERIMENT)["state"]
    assert state == "promoted", state
    arms = set(arms_of(server, key, [f"new-{number}" for number in range(100)]).values())
    assert arms == {"treatment"}, arms
    say(f"promoted while {streams} clients ask: {sum(served)} answers, 0 failed; every new user gets the treatment")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, help="the server's program")
    parser.add_argument("--component", action="append", required=True, metavar="LANGUAGE=FILE", help="two policies")
    parser.add_argument("--users", type=int, default=10_000)
    args = parser.parse_args()
    components = {}
    for given in args.component:
        language, file = given.split("=", 1)
        components[language] = Path(file).read_bytes()
    assert len(components) == 2, "two components of different languages, please"

    with tempfile.TemporaryDirectory() as folder:
        keys, lines = {}, {}
        for tenant, more in [("acme", []), ("guest", []), ("operators", ["--admin"])]:
            keys[tenant], lines[tenant] = made_key(args.binary, tenant, *more)
        config = Path(folder, "server.toml")
        config.write_text(
            '[models.small]\nfiles = "embedded:small"\n[models.large]\nfiles = "embedded:large"\n'
            f'[routes."{ROUTE}"]\nmodels = ["small", "large"]\npolicy = "builtin:entropy"\nsettings.threshold = 20.0\n'
            + "".join(f"[tenants.{tenant}]\nkeys = [\n{line}\n]\n" for tenant, line in lines.items())
        )
        server = Server(args.binary, str(config), os.path.join(folder, "state"))
        # Whatever fails below, the server does not outlive it.
        atexit.register(lambda: server.process.kill())
        admin, acme = keys["operators"], keys["acme"]
        revision = tenants_upload(server, keys, components)

        # The route never asks the large model; the treatment is what acme uploaded.
        arms = [
            {"name": "control", "weight_bp": 5000},
            {"name": "treatment", "weight_bp": 5000, "revision": revision, "settings": {"threshold": 0.4}},
        ]
        evidence = {"metrics": ["quality"], "horizon": 1000, "answers_min": 100}
        server.must(admin, "PUT", EXPERIMENT, {"route": ROUTE, "seed": "a seed for this demonstration", "sticky": "user", "arms": arms, "evidence": evidence})
        first = users_keep_their_arms(server, admin, acme, args.users)
        server.stop()
        server.start()
        some = random.Random(4).sample(sorted(first), max(args.users // 10, 100))
        assert arms_of(server, acme, some) == {user: first[user] for user in some}
        say(f"restarted: {len(some)} users asked again, everybody has the arm of before, and both policies are there")
        for tenant in ("acme", "guest"):
            assert server.must(keys[tenant], "GET", "/v1/policies/doubt")["active"]
        better_arm_is_found(server, admin, acme, sorted(first))
        promoted_under_load(server, admin, acme, 50)
        server.stop()
        verify = subprocess.run([args.binary, "audit", "verify", "--data-dir", os.path.join(folder, "state")], capture_output=True, text=True)
        assert verify.returncode == 0, verify
        say(f"audit log: {verify.stdout.strip()}")


BEGUN = time.monotonic()
if __name__ == "__main__":
    main()
